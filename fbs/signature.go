package fbs

// Signature is the block that may follow an image (FORMAT.md section 8), as it
// lies in the file. Nobody has verified it.
type Signature struct {
	Magic    [8]byte // SignatureMagic
	Checksum uint32  // CRC-32C of all that follows it
	Zero     [20]byte
	Key      [32]byte // Ed25519 public key
	Value    [64]byte // Ed25519 over the SHA-512 of the image
}

const (
	SignatureBytes          = 128
	signatureChecksumOffset = 8
	SignatureMagic          = "LMBSIGN1"
)

// SplitSignature parts a file into image and signature, nil where there is
// none. Of the image it reads the size alone. The error is an *Error.
func SplitSignature(data []byte) (image []byte, s *Signature, err error) {
	size := len(data) - SignatureBytes
	if size < PreambleSize || ReadStruct[Preamble](data).File != uint64(size) {
		return data, nil, nil
	}
	block := ReadStruct[Signature](data[size:])
	sum := Checksum(data[size+12:]) // behind itself
	if reason := firstNonEmpty(
		failIf(string(block.Magic[:]) != SignatureMagic, "what follows the image is no signature"),
		failIf(block.Checksum != sum, "checksum is %x and should be %x", uint64(block.Checksum),
			uint64(sum)),
		failIf(block.Zero != [20]byte{}, "reserved bytes are not zero"),
	); reason != "" {
		return nil, nil, &Error{"signature", reason}
	}
	return data[:size], &block, nil
}
