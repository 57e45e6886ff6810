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

// TestOddImagesAreRejectedUnlessValid: the verifier rejects every change that is not in
// validChanges.
func TestOddImagesAreRejectedUnlessValid(t *testing.T) {
	list, err := Odd(everyOpcode(t))
	if err != nil {
		t.Fatal(err)
	}
	accepted := 4 + len(validChanges) // one of the first four has a signature
	for i, image := range list {
		if (image.Refusal == "") != (i < accepted) {
			t.Errorf("image %d: %q", i, image.Refusal)
		}
	}
	damaged := 1 // the image with a damaged signature
	if len(list) != accepted+len(invalidChanges)+len(unusedFieldChanges())+len(
		preambleChanges)+damaged {
		t.Errorf("%d images", len(list))
	}
}

func TestMutationsAreRejectedWithDifferentMessages(t *testing.T) {
	list := Mutations(everyOpcode(t))
	seen := map[string]bool{}
	for _, image := range list {
		words := digits.ReplaceAllString(image.Refusal, "#")
		if seen[words] {
			t.Errorf("twice: %s", words)
		}
		seen[words] = true
	}
	if len(list) < 100 {
		t.Errorf("%d images", len(list))
	}
}

func TestCutDividesThePayloadIntoSegments(t *testing.T) {
	file := everyOpcode(t)
	before, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := fbs.Verify(Cut(file, segmentPages(file, 1)))
	if err != nil || string(cut.Payload) != string(before.Payload) ||
		len(cut.Segments) != (len(before.Payload)+fbs.SegmentAlign-1)/fbs.SegmentAlign {
		t.Errorf("%v, %d bytes", err, len(before.Payload))
	}
}
