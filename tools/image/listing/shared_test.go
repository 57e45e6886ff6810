package listing_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// head is the header of the listings of these tests.
const head = "lightmetal 1\ndevice ivshmem 1af4:1110 bar2 4MiB\nwindow m bar2 offset 0 size 4MiB\n"

// parseListing returns the image of a listing.
func parseListing(t *testing.T, source string) *lmb.Image {
	t.Helper()
	image, err := listing.Parse("test.lms", []byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// printListing returns the listing of an image.
func printListing(t *testing.T, image *lmb.Image) string {
	t.Helper()
	var out bytes.Buffer
	if err := listing.Print(&out, image); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSharedDataIsDeclaredOnce checks that a listing declares data that tensors and commands share
// once, under a name, and that the listing makes the same file, with shared payload.
func TestSharedDataIsDeclaredOnce(t *testing.T) {
	image := parseListing(t, head+`data first = pattern 7 size 64
data "two words" = data first from 32
tensor b input uint8[16] = data "two words" from 8 size 16
main:
  copy.4 m+0x0 <- data first
  copy.4 m+0x0 <- data first size 8
  compare.4 m+0x0 uint32 == data first from 4 size 0x10
  copy.4 m+0x0 <- hex 00112233
`)
	file := lmbtest.Encode(t, image)
	if size := lmbtest.View(t, file).Reservation.PayloadBytes; size != 64+4 {
		t.Errorf("%d bytes of payload, want 68: %s", size, printListing(t, image))
	}
	decoded, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	got := printListing(t, decoded)
	for _, want := range []string{"\ndata d0 = hex {\n", "data d0 from 0x28 size 16\n",
		"<- data d0\n", "<- data d0 size 8\n",
		"== data d0 from 0x4 size 16\n", "<- hex 00112233\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("the listing has %q %d times, want once:\n%s", want, strings.Count(got, want),
				got)
		}
	}
	if again := lmbtest.Encode(t, parseListing(t, got)); !bytes.Equal(again, file) {
		t.Errorf("the printed listing makes another file:\n%s", got)
	}
}

// TestListingIsNotMuchLargerThanItsImage prints images that refer to the same payload thousands of
// times. The listing must make the same file, and its size must be in proportion to the file.
func TestListingIsNotMuchLargerThanItsImage(t *testing.T) {
	for name, file := range lmbtest.Hostile(t, 500, 1<<14) {
		image, err := lmb.Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		out := &limitedBuffer{left: 10 * len(file)}
		if err := listing.Print(out, image); err != nil {
			t.Errorf("%s: printing an image of %d bytes: %v", name, len(file), err)
			continue
		}
		if again := lmbtest.Encode(t, parseListing(t, out.String())); !bytes.Equal(again,
			lmbtest.Encode(t, image)) {
			t.Errorf("%s: the printed listing makes another file", name)
		}
	}
}

// limitedBuffer is a buffer that returns an error if the text is too large.
type limitedBuffer struct {
	bytes.Buffer
	left int
}

func (l *limitedBuffer) Write(data []byte) (int, error) {
	if l.left -= len(data); l.left < 0 {
		return 0, errors.New("the listing is too large")
	}
	return l.Buffer.Write(data)
}

// TestFileIsReadOnce checks that a file that a listing names several times is read and stored once.
func TestFileIsReadOnce(t *testing.T) {
	read := 0
	image, err := listing.Parse("x", []byte(head+`main:
  copy.1 m+0x0 <- file "x" bulk
  copy.1 m+0x0 <- file "x" from 1 size 2 bulk
`), func(string) ([]byte, error) {
		read++
		return []byte{1, 2, 3, 4}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	size := lmbtest.View(t, lmbtest.Encode(t, image)).Reservation.PayloadBytes
	if read != 1 || size != 4 {
		t.Errorf("the file was read %d times, and the payload has %d bytes; want 1 and 4", read,
			size)
	}
}
