package fbs

// This file reads the signature that may follow an image, and checks that the signature is
// undamaged. Package runtime/signed checks that the signature is authentic.

// Signature is the signature at the end of a signed file (FORMAT.md section 8). The struct has
// the same layout as the bytes of the file.
type Signature struct {
	Magic    [8]byte  // must equal SignatureMagic
	Checksum uint32   // CRC-32C of all fields below
	Version  uint32   // version of the image, which the signer has chosen; 0: no version
	Reserved [16]byte // must be zero
	Key      [32]byte // Ed25519 public key
	Value    [64]byte // Ed25519 signature; it signs the SHA-512 hash of the image, and Version
}

const (
	SignatureSize  = 128        // size of a Signature in bytes
	SignatureMagic = "LMBSIGN1" // first bytes of every Signature

	signatureChecksumOffset = 8 // offset of Signature.Checksum in a Signature
)

// SplitSignature returns the image in a file and the signature after the image. If the file has
// no signature, the result s is nil. SplitSignature checks the magic, the checksum and the
// reserved bytes of the signature, but not whether the signature is authentic. The returned
// error is an *Error.
func SplitSignature(data []byte) (image []byte, s *Signature, err error) {
	size := len(data) - SignatureSize
	if size < PreambleSize || ReadStruct[Preamble](data).FileSize != uint64(size) {
		return data, nil, nil
	}
	signature := ReadStruct[Signature](data[size:])
	sum := Checksum(data[size+signatureChecksumOffset+4:])
	if problem := signature.checkFields(sum); problem != "" {
		return nil, nil, &Error{Place: "signature", Reason: problem}
	}
	return data[:size], &signature, nil
}

// checkFields checks the magic, the checksum and the reserved bytes of a signature. It returns
// a description of the problem, or an empty string if there is no problem. The parameter `sum`
// is the CRC-32C that the caller has computed from the fields below Checksum.
func (s *Signature) checkFields(sum uint32) (problem string) {
	if string(s.Magic[:]) != SignatureMagic {
		return "the bytes after the image do not begin with " + SignatureMagic
	}
	if s.Checksum != sum {
		return Text(checksumFormat, uint64(sum), uint64(s.Checksum))
	}
	if s.Reserved != [16]byte{} {
		return reservedProblem
	}
	return ""
}
