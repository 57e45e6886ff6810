package corpus

import (
	"os"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb/lmbtest"
)

func everyOpcode(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../../testdata/listings/all-opcodes.lms")
	if err != nil {
		t.Fatal(err)
	}
	return lmbtest.File(t, string(text))
}

// TestOddImagesAreRefusedButForThoseThatAreCrowded: each change is a reason to refuse.
func TestOddImagesAreRefusedButForThoseThatAreCrowded(t *testing.T) {
	list, err := Odd(everyOpcode(t))
	if err != nil {
		t.Fatal(err)
	}
	accepted := 4 + len(allowed) // of the first four, one has a signature
	for i, image := range list {
		if (image.Refusal == "") != (i < accepted) {
			t.Errorf("image %d: %q", i, image.Refusal)
		}
	}
	if len(list) != accepted+len(changes)+len(unusedChanges())+len(preambles) {
		t.Errorf("%d images", len(list))
	}
}

func TestMutationsAreRefusedEachInOtherWords(t *testing.T) {
	list := Mutations(everyOpcode(t))
	told := map[string]bool{}
	for _, image := range list {
		words := digits.ReplaceAllString(image.Refusal, "#")
		if told[words] {
			t.Errorf("twice: %s", words)
		}
		told[words] = true
	}
	if len(list) < 100 {
		t.Errorf("%d images", len(list))
	}
}

func TestCutFileHasItsPayloadInSegments(t *testing.T) {
	file := everyOpcode(t)
	before, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := fbs.Verify(Cut(file, pagesOf(file, 1)))
	if err != nil || string(cut.Payload) != string(before.Payload) ||
		len(cut.Segments) != (len(before.Payload)+fbs.SegmentAlign-1)/fbs.SegmentAlign {
		t.Errorf("%v, %d bytes", err, len(before.Payload))
	}
}
