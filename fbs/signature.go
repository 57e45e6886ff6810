package fbs

// Signature has the layout of the last bytes of a signed file (FORMAT.md section 8).
type Signature struct {
	Magic    [8]byte  // must equal SignatureMagic
	Checksum uint32   // CRC-32C of all fields below
	Version  uint32   // of the image, chosen by the signer; 0: no version
	Reserved [16]byte // must be zero
	Key      [32]byte // Ed25519 public key
	Value    [64]byte // Ed25519 signature of the image's SHA-512 hash, and of Version if not 0
}

const (
	SignatureSize  = 128 // bytes
	SignatureMagic = "LMBSIGN1"

	signatureChecksumOffset = 8 // of Signature.Checksum
)

// SplitSignature returns the image in a file, and the signature after it, or nil. It checks that
// the signature is undamaged; package runtime/signed checks that it is authentic. Errors are
// *Error.
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

// checkFields compares Checksum with sum, the CRC-32C of the fields below it.
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
