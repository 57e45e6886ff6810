// Package signed tells whether a file was signed by somebody who is believed.
// It is apart from package runtime because Ed25519 and SHA-512 are larger than
// all the rest of a target.
package signed

import (
	"crypto/ed25519"
	"crypto/sha512"
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Keys are the public keys that are believed.
type Keys []ed25519.PublicKey

// ParseKeys reads public keys: one a line of 64 hex digits, empty lines and
// lines that begin with # apart. No key at all is an error, as nothing could
// ever be believed. The error is a *hal.Fault.
func ParseKeys(text string) (keys Keys, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, ok := parseKey(line)
		if !ok {
			return nil, deniedFault("a public key is 64 hex digits, not " + fbs.Quote(line))
		}
		if isForgeable(key) {
			return nil, deniedFault("anybody can sign for the public key " + fbs.Quote(line))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, deniedFault("no public key; one is 64 hex digits")
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

// forgeable tells whether anybody can sign for a key, as for a point of small
// order: a signature of the neutral point and zero, made without any secret,
// then holds for one message in eight at least.
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

// Check refuses a file that none of the keys has signed. It reads nothing of
// the image but its size and its bytes as such. The error is a *hal.Fault.
func (k Keys) CheckSignature(data []byte) error {
	image, signature, err := fbs.SplitSignature(data)
	switch {
	case err != nil:
		return deniedFault(err.Error())
	case signature == nil:
		return deniedFault("the file is not signed, or not whole; `lm sign` signs one")
	}
	digest := sha512.Sum512(image)
	for _, key := range k {
		if string(key) != string(signature.Key[:]) {
			continue
		}
		if ed25519.Verify(key, digest[:], signature.Value[:]) {
			return nil
		}
		return deniedFault("the signature does not hold: the file was changed after it was signed")
	}
	return deniedFault("signed by a key that is not among those given")
}

func deniedFault(reason string) error { return hal.NewFault(hal.Denied, reason) }
