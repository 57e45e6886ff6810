package corpus

import (
	"os"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb/lmbtest"
)

// imageWithEveryOpcode returns the image of the listing all-opcodes.
func imageWithEveryOpcode(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../../testdata/listings/all-opcodes.lms")
	if err != nil {
		t.Fatal(err)
	}
	return lmbtest.File(t, string(text))
}

// TestOddImagesAreRejectedUnlessValid checks that the verifier rejects every change that is not in
// validChanges.
func TestOddImagesAreRejectedUnlessValid(t *testing.T) {
	list, err := Odd(imageWithEveryOpcode(t))
	if err != nil {
		t.Fatal(err)
	}
	accepted := 4 + len(validChanges) // one of the first four has a signature
	for i, image := range list {
		if (image.Refusal == "") != (i < accepted) {
			t.Errorf("image %d: error %q, want the first %d images accepted and the others "+
				"rejected", i, image.Refusal, accepted)
		}
	}
	damaged := 1 // the image with a damaged signature
	if len(list) != accepted+len(invalidChanges)+len(unusedFieldChanges())+len(
		preambleChanges)+damaged {
		t.Errorf("%d images, want one for each change", len(list))
	}
}

func TestMutationsAreRejectedWithDifferentMessages(t *testing.T) {
	list := Mutations(imageWithEveryOpcode(t))
	seen := map[string]bool{}
	for _, image := range list {
		words := digits.ReplaceAllString(image.Refusal, "#")
		if seen[words] {
			t.Errorf("two mutations have the same message: %s", words)
		}
		seen[words] = true
	}
	if len(list) < 100 {
		t.Errorf("%d mutations, want at least 100", len(list))
	}
}

func TestCutDividesThePayloadIntoSegments(t *testing.T) {
	file := imageWithEveryOpcode(t)
	before, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := fbs.Verify(Cut(file, segmentPages(file, 1)))
	if err != nil || string(cut.Payload) != string(before.Payload) ||
		len(cut.Segments) != (len(before.Payload)+fbs.SegmentAlign-1)/fbs.SegmentAlign {
		t.Errorf("the payload of %d bytes changed, or is not divided into segments; error %v",
			len(before.Payload), err)
	}
}
