// Package signed checks that an image file was signed with one of the keys in a list. This code is
// not in package runtime, because Ed25519 and SHA-512 more than double the size of a target
// program, and many programs do not need signatures.
package signed

import (
	"crypto/ed25519"
	"crypto/sha512"
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Keys is a list of public keys. CheckSignature accepts a file only if its signature belongs to one
// of these keys.
type Keys []ed25519.PublicKey

// ParseKeys returns the keys in a text that has one key in each line. A key consists of 64 hex
// digits. ParseKeys skips empty lines and lines that begin with #. It returns an error if the text
// contains no key, because CheckSignature would then reject every file. The error is a *hal.Fault.
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
			return nil, deniedFault("anybody can forge signatures of the public key " +
				fbs.Quote(line) + "; remove this key")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, deniedFault("the list contains no public key; write each key as a line of " +
			"64 hex digits")
	}
	return keys, nil
}

// parseKey converts a text of 64 hex digits to a public key. ok is false if the text is invalid.
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

// isForgeable reports whether anybody can forge signatures for a key without the private key. This
// is the case if the key is a curve point of small order. For such a key, a signature that consists
// of the neutral point and the number zero is valid for at least one in eight messages. isForgeable
// checks whether this signature is valid for any of 64 messages.
func isForgeable(key ed25519.PublicKey) bool {
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1 // the encoding of the neutral point is 1, 0, 0, ...; the number zero follows
	for message := range 64 {
		if ed25519.Verify(key, []byte{byte(message)}, forged) {
			return true
		}
	}
	return false
}

// CheckSignature returns an error unless the file was signed with one of the keys. The parameter
// `data` contains all bytes of the file. The image in the file may be invalid, because
// CheckSignature uses only the size and the SHA-512 digest of the image. The error is a *hal.Fault.
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

// deniedFault returns a *hal.Fault with the code hal.Denied and the given reason.
func deniedFault(reason string) error { return hal.NewFault(hal.Denied, reason) }
