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
	// The first four images have no change: one undivided, two divided into segments in different
	// ways, one with a signature. They and the images with validChanges are accepted.
	accepted := 4 + len(validChanges)
	for i, image := range list {
		if (image.Refusal == "") != (i < accepted) {
			t.Errorf("image %d: error %q, want the first %d images accepted and the others "+
				"rejected", i, image.Refusal, accepted)
		}
	}
	damaged := 1 // the image with a damaged signature
	want := accepted + len(invalidChanges) + len(unusedFieldChanges()) + len(preambleChanges) +
		damaged
	if len(list) != want {
		t.Errorf("Odd returns %d images, want %d", len(list), want)
	}
}

func TestMutationsAreRejectedWithDifferentMessages(t *testing.T) {
	list := Mutations(imageWithEveryOpcode(t))
	seen := map[string]bool{}
	for _, image := range list {
		words := Words(image.Refusal)
		if seen[words] {
			t.Errorf("two mutations have the same message: %s", words)
		}
		seen[words] = true
	}
	if len(list) < 100 {
		t.Errorf("Mutations returns %d images, want at least 100", len(list))
	}
}

func TestCutDividesThePayloadIntoSegments(t *testing.T) {
	file := imageWithEveryOpcode(t)
	before, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := fbs.Verify(Cut(file, segmentPages(file, 1)))
	if err != nil {
		t.Fatalf("Verify of the divided file: %v", err)
	}
	if string(cut.Payload) != string(before.Payload) {
		t.Errorf("the divided payload has %d bytes that differ from the %d bytes of the original",
			len(cut.Payload), len(before.Payload))
	}
	segments := (len(before.Payload) + fbs.SegmentAlign - 1) / fbs.SegmentAlign
	if len(cut.Segments) != segments {
		t.Errorf("the divided file has %d segments, want %d", len(cut.Segments), segments)
	}
}
