package fbs

import flatbuffers "github.com/google/flatbuffers/go"

// The signature block that may follow an image (FORMAT.md section 8).
const (
	SignatureBytes = 128
	SignatureMagic = "LMBSIGN1"

	signatureCRC   = 8  // u32, of all that follows it
	signatureZero  = 12 // up to the key
	signatureKey   = 32 // 32 bytes, Ed25519 public key
	signatureValue = 64 // 64 bytes, Ed25519 over the SHA-512 of the image
)

// Signature is what a signature block says. Nobody has verified it.
type Signature struct{ Key, Value []byte }

// SplitSignature parts a file into image and signature, nil where there is
// none. Of the image it reads the size alone. The error is an *Error.
func SplitSignature(data []byte) (image []byte, s *Signature, err error) {
	size := uint64(len(data))
	if size < preambleEnd+SignatureBytes || flatbuffers.GetUint64(data[preambleFile:]) != size-SignatureBytes {
		return data, nil, nil
	}
	image, block := data[:size-SignatureBytes], data[size-SignatureBytes:]
	switch {
	case string(block[:len(SignatureMagic)]) != SignatureMagic:
		return nil, nil, &Error{"signature", "what follows the image is no signature"}
	case flatbuffers.GetUint32(block[signatureCRC:]) != Checksum(block[signatureZero:]):
		return nil, nil, &Error{"signature", Text("checksum is %x and should be %x",
			uint64(flatbuffers.GetUint32(block[signatureCRC:])), uint64(Checksum(block[signatureZero:])))}
	case !zeros(block[signatureZero:signatureKey]):
		return nil, nil, &Error{"signature", "reserved bytes are not zero"}
	}
	return image, &Signature{block[signatureKey:signatureValue], block[signatureValue:]}, nil
}
