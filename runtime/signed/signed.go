// Package signed checks the signature of an image file against a list of public keys. It is a
// package of its own because Ed25519 and SHA-512 are larger than the rest of the target program.
package signed

import (
	"crypto/ed25519"
	"crypto/sha512"
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Keys are the public keys whose signatures are accepted.
type Keys []ed25519.PublicKey

// ParseKeys returns the public keys in a text: one key of 64 hex digits a line; empty lines and
// lines that begin with # are skipped. A text without a key is an error, because no file could ever
// be accepted. The error is a *hal.Fault.
func ParseKeys(text string) (keys Keys, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, ok := parseKey(line)
		if !ok {
			return nil, deniedFault("a public key must be 64 hex digits, not " + fbs.Quote(line))
		}
		if isForgeable(key) {
			return nil, deniedFault("anybody can sign for the public key " + fbs.Quote(line))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, deniedFault("no public key in the file; a key is a line of 64 hex digits")
	}
	return keys, nil
}

func parseKey(digits string) (ed25519.PublicKey, bool) {
	if len(digits) != 2*ed25519.PublicKeySize {
		return nil, false
	}
	key := make(ed25519.PublicKey, ed25519.PublicKeySize)
	for i := range key {
		value, ok := hal.ParseNumber(digits[2*i:2*i+2], 16, 0xff)
		if !ok {
			return nil, false
		}
		key[i] = byte(value)
	}
	return key, true
}

// isForgeable reports whether everyone can sign for a key because it is a point of small order. The
// signature of the neutral point and zero, which needs no secret, is then valid for at least one
// message in eight.
func isForgeable(key ed25519.PublicKey) bool {
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1
	for message := range 64 {
		if ed25519.Verify(key, []byte{byte(message)}, forged) {
			return true
		}
	}
	return false
}

// CheckSignature rejects a file that none of the keys has signed. It does not interpret the image:
// it uses only its size and a digest of its bytes. The error is a *hal.Fault.
func (k Keys) CheckSignature(data []byte) error {
	image, signature, err := fbs.SplitSignature(data)
	switch {
	case err != nil:
		return deniedFault(err.Error())
	case signature == nil:
		return deniedFault("the file is not signed, or is truncated; sign images with `lm sign`")
	}
	digest := sha512.Sum512(image)
	for _, key := range k {
		if string(key) != string(signature.Key[:]) {
			continue
		}
		if ed25519.Verify(key, digest[:], signature.Value[:]) {
			return nil
		}
		return deniedFault("invalid signature: the file was changed after it was signed")
	}
	return deniedFault("signed by a key that is not in the key file")
}

func deniedFault(reason string) error { return hal.NewFault(hal.Denied, reason) }
