package fbs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// signedFile returns a valid image, and a file with the image and a signature.
func signedFile(t *testing.T) (image, file []byte) {
	t.Helper()
	image = encode(t, sampleImage())
	key, value := bytes.Repeat([]byte{0x11}, 32), bytes.Repeat([]byte{0x22}, 64)
	file = append(bytes.Clone(image), lmb.SignatureBlock(0, key, value)...)
	return image, file
}

func TestSignedFileIsReadLikeItsImage(t *testing.T) {
	image, file := signedFile(t)
	want, err := fbs.Verify(image)
	if err != nil {
		t.Fatal(err)
	}
	got, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Commands) != len(want.Commands) || !bytes.Equal(got.Payload, want.Payload) {
		t.Error("Verify returns another view for the signed file than for its image")
	}
	part, signature, err := fbs.SplitSignature(file)
	if err != nil || !bytes.Equal(part, image) || signature == nil {
		t.Fatalf("SplitSignature of a signed file: signature %v, error %v, image equal: %v",
			signature, err, bytes.Equal(part, image))
	}
	if signature.Key[0] != 0x11 || len(signature.Key) != 32 || signature.Value[63] != 0x22 ||
		len(signature.Value) != 64 {
		t.Errorf("SplitSignature returns %x, want a key of 32 bytes 11 and a value of 64 bytes 22",
			signature)
	}
	if _, signature, err := fbs.SplitSignature(image); signature != nil || err != nil {
		t.Errorf("SplitSignature of an image without a signature: %v, %v; want nil, nil", signature,
			err)
	}
}

// updateChecksum writes the checksum into a signature block that a test has changed.
func updateChecksum(block []byte) []byte {
	binary.LittleEndian.PutUint32(block[8:], fbs.Checksum(block[12:]))
	return block
}

func TestReservedBytesOfASignatureAreZero(t *testing.T) {
	image, _ := signedFile(t)
	for at := 16; at < 32; at++ {
		block := lmb.SignatureBlock(0, make([]byte, 32), make([]byte, 64))
		block[at] = 1
		if _, err := fbs.Verify(append(bytes.Clone(image), updateChecksum(block)...)); err == nil ||
			!strings.Contains(err.Error(), "reserved") {
			t.Errorf("byte %d of the block set to 1: %v, want an error with %q", at, err,
				"reserved")
		}
	}
}

func TestVersionOfASignatureMayBeAnyNumber(t *testing.T) {
	image, _ := signedFile(t)
	for _, version := range []uint32{0, 1, 0x01020304, 1<<32 - 1} {
		block := lmb.SignatureBlock(0, make([]byte, 32), make([]byte, 64))
		binary.LittleEndian.PutUint32(block[12:], version)
		file := append(bytes.Clone(image), updateChecksum(block)...)
		_, signature, err := fbs.SplitSignature(file)
		if err != nil || signature.Version != version {
			t.Errorf("version %d: SplitSignature returns %v, %v", version, signature, err)
		}
		if _, err := fbs.Verify(file); err != nil {
			t.Errorf("version %d: Verify: %v", version, err)
		}
	}
}

// TestChecksumsOfDamagedFilesAreNamedAlike damages the stored checksum of the envelope, of a
// segment and of a signature. Each message says first what the bytes have, then what is stored.
func TestChecksumsOfDamagedFilesAreNamedAlike(t *testing.T) {
	image, file := signedFile(t)
	view, err := fbs.Verify(image)
	if err != nil {
		t.Fatal(err)
	}
	segment := bytes.Clone(image)
	segment[len(segment)-1] ^= 1
	envelope, signature := bytes.Clone(image), bytes.Clone(file)
	envelope[12] ^= 1
	signature[len(image)+8] ^= 1
	right := func(bytes []byte) uint32 { return binary.LittleEndian.Uint32(bytes) }
	for _, test := range []struct {
		name         string
		file         []byte
		bytes, store uint32
	}{
		{"envelope", envelope, right(image[12:]), right(envelope[12:])},
		{"signature", signature, right(file[len(image)+8:]), right(signature[len(image)+8:])},
		{"segment", segment, fbs.Checksum(segment[len(segment)-len(view.Payload):]),
			view.Segments[0].Crc32c},
	} {
		v, err := fbs.Verify(test.file)
		if err == nil {
			err = v.VerifyPayload()
		}
		want := fmt.Sprintf("checksum is %#x, but should be %#x", test.bytes, test.store)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, want)
		}
	}
}
