package lmb

import (
	"encoding/binary"

	"lightmetal/fbs"
)

// SignatureBlock returns the block that is appended to a signed image, from the version of the
// image, a public key of 32 bytes and a signature of 64 (FORMAT.md section 8). The version 0 means
// that the image has no version.
func SignatureBlock(version uint32, key, value []byte) []byte {
	block := make([]byte, fbs.SignatureSize)
	copy(block, fbs.SignatureMagic)
	binary.LittleEndian.PutUint32(block[12:], version)
	copy(block[32:64], key)
	copy(block[64:], value)
	binary.LittleEndian.PutUint32(block[8:], fbs.Checksum(block[12:]))
	return block
}
