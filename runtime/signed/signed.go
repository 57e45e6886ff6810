// Package signed checks that an image file was signed with one of the keys in a list. It is not in
// package runtime, because Ed25519 and SHA-512 more than double the size of a target program.
package signed

import (
	"crypto/ed25519"
	"crypto/sha512"
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// Key is a public key, and the versions of images that it may sign.
type Key struct {
	Public ed25519.PublicKey
	// Lowest and highest version. An image without a version has version 0.
	FirstVersion, LastVersion uint32
}

// Keys is a list of different public keys.
type Keys []Key

const versionMax = 1<<32 - 1

// ParseKeys returns the keys in a text with one key in each line: 64 hex digits, which may be
// followed by the word `versions`, and a range such as 3-7, 3- (version 3 or later), -7 (up to
// version 7) or 3. It skips empty lines and lines that begin with #. It rejects a text without a
// key, with which CheckSignature would reject every file, and a key that occurs twice, because one
// line could permit versions that the other one excludes. The error is a *hal.Fault.
func ParseKeys(publicKeys string) (keys Keys, err error) {
	for line := range strings.Lines(publicKeys) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, problem := parseKeyLine(line)
		if problem == "" && keys.findKey(key.Public) != nil {
			problem = "another line has the same public key; remove "
		}
		if problem != "" {
			return nil, deniedFault(problem + fbs.Quote(line))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, deniedFault("the list contains no public key; write each key as a line of " +
			"64 hex digits")
	}
	return keys, nil
}

// parseKeyLine returns a problem that ends before the line, which the caller appends.
func parseKeyLine(line string) (key Key, problem string) {
	words := strings.Fields(line)
	public, ok := parsePublicKey(words[0])
	key = Key{Public: public, LastVersion: versionMax}
	hasVersions := len(words) == 3 && words[1] == "versions"
	switch {
	case !ok || len(words) > 1 && !hasVersions:
		return key, "a public key must be 64 hex digits, optionally followed by " +
			"`versions 3-7`, not "
	case isForgeable(public):
		return key, "anybody can forge signatures of this key; remove "
	case hasVersions:
		key.FirstVersion, key.LastVersion, ok = parseVersions(words[2])
	}
	if !ok {
		return key, "versions must be a range such as 3-7, 3-, -7 or 3, of numbers below 2^32, not "
	}
	return key, ""
}

func parseVersions(text string) (first, last uint32, ok bool) {
	low, high := hal.Cut(text, '-')
	from, isLowValid := hal.ParseNumber(low, 10, versionMax)
	to, isHighValid := hal.ParseNumber(high, 10, versionMax)
	switch {
	case low == text: // one version
		to, isHighValid = from, isLowValid
	case low == "":
		isLowValid = isHighValid
	case high == "":
		to, isHighValid = versionMax, true
	}
	return uint32(from), uint32(to), isLowValid && isHighValid && from <= to
}

func (k Keys) findKey(public []byte) *Key {
	for i := range k {
		if string(k[i].Public) == string(public) {
			return &k[i]
		}
	}
	return nil
}

func parsePublicKey(digits string) (key ed25519.PublicKey, ok bool) {
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

// smallOrderKeys has the encodings of the 8 points of Ed25519 whose order divides 8, without the
// sign bit: one y for each pair of points ±x, and p and p+1, which Verify takes for 0 and 1.
var smallOrderKeys = [...]string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// isForgeable reports whether the key is a point of small order: one signature is then valid for at
// least one in eight messages, whoever wrote them.
func isForgeable(key ed25519.PublicKey) bool {
	y := [ed25519.PublicKeySize]byte(key)
	y[len(y)-1] &= 0x7f
	for _, digits := range smallOrderKeys {
		if small, _ := parsePublicKey(digits); string(small) == string(y[:]) {
			return true
		}
	}
	return false
}

// SignedBytes returns the bytes that a signature signs (FORMAT.md section 8). `image` does not
// include the signature.
func SignedBytes(image []byte, version uint32) []byte {
	digest := sha512.Sum512(image)
	if version == 0 {
		return digest[:]
	}
	return append(digest[:], byte(version), byte(version>>8), byte(version>>16), byte(version>>24))
}

// CheckSignature returns a *hal.Fault unless the file with these bytes was signed with one of the
// keys, that key may sign its version, and this version is at least minVersion. The image may be
// invalid: only its size and its SHA-512 digest are used.
func (k Keys) CheckSignature(data []byte, minVersion uint32) error {
	image, signature, err := fbs.SplitSignature(data)
	switch {
	case err != nil:
		return deniedFault(err.Error())
	case signature == nil:
		return deniedFault("the file is not signed, or is truncated; sign images with `lm sign`")
	}
	key, version := k.findKey(signature.Key[:]), signature.Version
	switch {
	case key == nil:
		return deniedFault("the file is signed by a key that is not in the list of public keys; " +
			"sign it with a key of the list, or add its key if that is yours")
	case !ed25519.Verify(key.Public, SignedBytes(image, version), signature.Value[:]):
		return deniedFault("invalid signature: the file was changed after it was signed; " +
			"copy it again, or sign it again")
	case version < minVersion:
		return deniedFault(fbs.Text("the image has version %d, but must have at least version %d; "+
			"`lm sign --version` sets it", uint64(version), uint64(minVersion)))
	case version < key.FirstVersion || version > key.LastVersion:
		return deniedFault(fbs.Text("the image has version %d, but its key may sign only versions "+
			"%d to %d; sign it with another key", uint64(version),
			uint64(key.FirstVersion), uint64(key.LastVersion)))
	}
	return nil
}

func deniedFault(reason string) error { return hal.NewFault(hal.Denied, reason) }
