package fbs

// This file reads the signature that may follow an image. Package runtime/signed
// verifies it.

// Signature is a signature as it lies in the file (FORMAT.md section 8). It has not been
// verified.
type Signature struct {
	Magic    [8]byte // SignatureMagic
	Checksum uint32  // CRC-32C of the bytes that follow it
	Zero     [20]byte
	Key      [32]byte // Ed25519 public key
	Value    [64]byte // Ed25519 over the SHA-512 of the image
}

const (
	SignatureBytes = 128 // size of a Signature
	SignatureMagic = "LMBSIGN1"

	signatureChecksumOffset = 8 // of Signature.Checksum
)

// SplitSignature returns the image in a file, and its signature or nil. Of the image it
// reads only the size in the preamble. The error is an *Error.
func SplitSignature(data []byte) (image []byte, s *Signature, err error) {
	size := len(data) - SignatureBytes
	if size < PreambleSize || ReadStruct[Preamble](data).File != uint64(size) {
		return data, nil, nil
	}
	signature := ReadStruct[Signature](data[size:])
	sum := Checksum(data[size+signatureChecksumOffset+4:])
	if reason := signature.check(sum); reason != "" {
		return nil, nil, &Error{"signature", reason}
	}
	return data[:size], &signature, nil
}

// check returns why a signature is rejected, or an empty string. sum is the checksum
// that it should have.
func (s *Signature) check(sum uint32) string {
	if string(s.Magic[:]) != SignatureMagic {
		return "the bytes after the image do not begin with " + SignatureMagic
	}
	if s.Checksum != sum {
		return Text("checksum is %x and should be %x", uint64(s.Checksum), uint64(sum))
	}
	if s.Zero != [20]byte{} {
		return "reserved bytes are not zero"
	}
	return ""
}
