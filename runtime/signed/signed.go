// Package signed verifies that an image file was signed with one of the keys in a list of public
// keys. It is a separate package because Ed25519 and SHA-512 would more than double the size of a
// target program that does not need signatures.
package signed

import (
	"crypto/ed25519"
	"crypto/sha512"
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Keys is the list of public keys whose signatures are accepted.
type Keys []ed25519.PublicKey

// ParseKeys returns the keys in publicKeys, a text with one key of 64 hex digits in each line. It
// skips empty lines and lines that begin with #. A text without a key is an error, because it would
// reject every file. The returned error is a *hal.Fault.
func ParseKeys(publicKeys string) (keys Keys, err error) {
	for line := range strings.Lines(publicKeys) {
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
		return nil, deniedFault("the list contains no public key; write each key as a line of " +
			"64 hex digits")
	}
	return keys, nil
}

// parseKey converts 64 hex digits to a public key. It reports whether digits was valid.
func parseKey(digits string) (key ed25519.PublicKey, ok bool) {
	if len(digits) != 2*ed25519.PublicKeySize {
		return nil, false
	}
	key = make(ed25519.PublicKey, ed25519.PublicKeySize)
	for i := range key {
		value, ok := hal.ParseNumber(digits[2*i:2*i+2], 16, 0xff)
		if !ok {
			return nil, false
		}
		key[i] = byte(value)
	}
	return key, true
}

// isForgeable reports whether everyone can make valid signatures for a key, because the key is a
// point of small order. A signature that consists of the neutral point and zero needs no secret.
// With such a key it is valid for at least one message in eight; therefore isForgeable tries that
// signature with 64 messages.
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

// CheckSignature returns an error unless one of the keys has signed the file whose bytes are data.
// It does not interpret the image in the file: it uses only the size and the digest of the image.
// The returned error is a *hal.Fault.
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
	return deniedFault("the file is signed by a key that is not in the list of public keys")
}

// deniedFault returns a *hal.Fault with the code hal.Denied and a reason.
func deniedFault(reason string) error { return hal.NewFault(hal.Denied, reason) }
