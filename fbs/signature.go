package fbs

// This file reads the signature that may follow an image. Package runtime/signed
// verifies the signature.

// Signature is the signature at the end of a file (FORMAT.md section 8). Its fields have the
// layout of the file. Package fbs does not check whether the signature is authentic.
type Signature struct {
	Magic    [8]byte  // must equal SignatureMagic
	Checksum uint32   // CRC-32C of the fields after Checksum
	Zero     [20]byte // reserved; must be zero
	Key      [32]byte // Ed25519 public key
	Value    [64]byte // Ed25519 signature of the image's SHA-512 hash
}

const (
	SignatureBytes = 128        // size of a Signature in bytes
	SignatureMagic = "LMBSIGN1" // first bytes of every Signature

	signatureChecksumOffset = 8 // offset of Signature.Checksum in a Signature
)

// SplitSignature returns the image in a file, and the signature after the image, or nil if
// the file has no signature. It checks the signature's magic, checksum and reserved bytes,
// but not whether the signature is authentic. The returned error is an *Error.
func SplitSignature(data []byte) (image []byte, s *Signature, err error) {
	size := len(data) - SignatureBytes
	if size < PreambleSize || ReadStruct[Preamble](data).File != uint64(size) {
		return data, nil, nil
	}
	signature := ReadStruct[Signature](data[size:])
	sum := Checksum(data[size+signatureChecksumOffset+4:])
	if problem := signature.checkFields(sum); problem != "" {
		return nil, nil, &Error{"signature", problem}
	}
	return data[:size], &signature, nil
}

// checkFields returns the problem of an invalid signature, or an empty string. sum is the
// checksum that was computed from the fields after Checksum.
func (s *Signature) checkFields(sum uint32) (problem string) {
	if string(s.Magic[:]) != SignatureMagic {
		return "the bytes after the image do not begin with " + SignatureMagic
	}
	if s.Checksum != sum {
		return Text("checksum is %x, but should be %x", uint64(s.Checksum), uint64(sum))
	}
	if s.Zero != [20]byte{} {
		return "reserved bytes are not zero"
	}
	return ""
}
