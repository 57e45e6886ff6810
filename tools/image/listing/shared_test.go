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

const head = "lightmetal 1\ndevice ivshmem 1af4:1110 bar2 4MiB\nwindow m bar2 offset 0 size 4MiB\n"

func parse(t *testing.T, source string) *lmb.Image {
	t.Helper()
	image, err := listing.Parse("test.lms", []byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func text(t *testing.T, image *lmb.Image) string {
	t.Helper()
	var out bytes.Buffer
	if err := listing.Print(&out, image); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSharedDataIsDeclaredOnce checks that what tensors and commands share is in a listing once,
// under a name, and that reading the listing back makes the same file: with shared payload.
func TestSharedDataIsDeclaredOnce(t *testing.T) {
	image := parse(t, head+`data first = pattern 7 size 64
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
		t.Errorf("%d bytes of payload, want 68: %s", size, text(t, image))
	}
	decoded, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	got := text(t, decoded)
	for _, want := range []string{"\ndata d0 = hex {\n", "data d0 from 0x28 size 16\n",
		"<- data d0\n", "<- data d0 size 8\n",
		"== data d0 from 0x4 size 16\n", "<- hex 00112233\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not in the listing once:\n%s", want, got)
		}
	}
	if again := lmbtest.Encode(t, parse(t, got)); !bytes.Equal(again, file) {
		t.Errorf("another file than before, of this listing:\n%s", got)
	}
}

// TestListingIsNotMuchLargerThanItsImage prints images that name the same payload thousands of
// times: each must come back as the same file, from a text in proportion to it.
func TestListingIsNotMuchLargerThanItsImage(t *testing.T) {
	for name, file := range lmbtest.Hostile(t, 500, 1<<14) {
		image, err := lmb.Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		out := &limited{left: 10 * len(file)}
		if err := listing.Print(out, image); err != nil {
			t.Errorf("%s: %d bytes: %v", name, len(file), err)
			continue
		}
		if again := lmbtest.Encode(t, parse(t, out.String())); !bytes.Equal(again,
			lmbtest.Encode(t, image)) {
			t.Errorf("%s: its listing makes another file", name)
		}
	}
}

// limited is a text of a limited size.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(data []byte) (int, error) {
	if l.left -= len(data); l.left < 0 {
		return 0, errors.New("the listing is too large")
	}
	return l.Buffer.Write(data)
}

// TestFileIsReadOnce checks that a file that a listing names several times is read and kept once.
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
		t.Errorf("read %d times, %d bytes of payload", read, size)
	}
}
