package signed_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime/signed"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb"
)

// privateKey returns the private key of a seed, which is the same in every run.
func privateKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// acceptedKeys parses a list with the public keys of private keys.
func acceptedKeys(t *testing.T, private ...ed25519.PrivateKey) signed.Keys {
	t.Helper()
	text := "# accepted keys\n\n"
	for _, p := range private {
		text += hex.EncodeToString(p.Public().(ed25519.PublicKey)) + "\n"
	}
	k, err := signed.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// readImage returns an unsigned image.
func readImage(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../testdata/images/edu.lmb")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sign appends a signature block without a version to an image.
func sign(data []byte, by ed25519.PrivateKey) []byte { return signVersion(data, by, 0) }

// signVersion appends a signature block with a version to an image. It composes the signed message
// by FORMAT.md section 8, without signed.SignedBytes.
func signVersion(data []byte, by ed25519.PrivateKey, version uint32) []byte {
	digest := sha512.Sum512(data)
	message := digest[:]
	if version != 0 {
		message = binary.LittleEndian.AppendUint32(message, version)
	}
	return append(bytes.Clone(data), lmb.SignatureBlock(version, by.Public().(ed25519.PublicKey),
		ed25519.Sign(by, message))...)
}

func TestSignatureByAnAcceptedKeyIsValid(t *testing.T) {
	file := sign(readImage(t), privateKey(1))
	for _, k := range []signed.Keys{acceptedKeys(t, privateKey(1)),
		acceptedKeys(t, privateKey(2), privateKey(1)),
		acceptedKeys(t, privateKey(1), privateKey(2))} {
		if err := k.CheckSignature(file, 0); err != nil {
			t.Errorf("CheckSignature: %v", err)
		}
	}
	if _, err := fbs.Verify(file); err != nil {
		t.Errorf("Verify of a signed file: %v", err)
	}
}

// checkRejected checks that CheckSignature rejects a file, with an error that contains want.
func checkRejected(t *testing.T, what, want string, k signed.Keys, file []byte) {
	t.Helper()
	err := k.CheckSignature(file, 0)
	if hal.CodeOf(err) != hal.Denied || !strings.Contains(err.Error(), want) {
		t.Errorf("CheckSignature of a file (%s): %v, want %q", what, err, want)
	}
}

func TestFileNotSignedByAnAcceptedKeyIsRejected(t *testing.T) {
	plain := readImage(t)
	checkRejected(t, "unsigned", "not signed", acceptedKeys(t, privateKey(1)), plain)
	checkRejected(t, "empty", "not signed", acceptedKeys(t, privateKey(1)), nil)
	checkRejected(t, "signed with another key", "not in the list of public keys",
		acceptedKeys(t, privateKey(2)), sign(plain, privateKey(1)))
	// The block contains an accepted public key, but another key made the signature.
	digest, public := sha512.Sum512(plain), privateKey(1).Public().(ed25519.PublicKey)
	forged := append(bytes.Clone(plain),
		lmb.SignatureBlock(0, public, ed25519.Sign(privateKey(2), digest[:]))...)
	checkRejected(t, "forged", "invalid signature",
		acceptedKeys(t, privateKey(1), privateKey(2)), forged)
	// The signature is valid, but for other data.
	other := sha512.Sum512(plain[1:])
	moved := append(bytes.Clone(plain),
		lmb.SignatureBlock(0, public, ed25519.Sign(privateKey(1), other[:]))...)
	checkRejected(t, "signature of other data", "invalid signature",
		acceptedKeys(t, privateKey(1)), moved)
}

// TestEveryFlippedBitOfASignedFileIsRejected checks the signature only, without verifying the image
// before.
func TestEveryFlippedBitOfASignedFileIsRejected(t *testing.T) {
	versions := []uint32{1, 0, 1<<32 - 1}
	for _, version := range versions[:effort.Cases(1, 3, 3)] {
		file := signVersion(readImage(t), privateKey(1), version)
		checkEveryChangeIsRejected(t, file, acceptedKeys(t, privateKey(1)))
	}
}

// checkEveryChangeIsRejected flips one bit of each byte of a signed file, and truncates the file to
// each smaller size.
func checkEveryChangeIsRejected(t *testing.T, file []byte, k signed.Keys) {
	t.Helper()
	step := effort.Cases(9, 1, 1)
	for i := 0; i < len(file); i += step {
		bit := byte(1) << (i % 8)
		file[i] ^= bit
		if err := k.CheckSignature(file, 0); hal.CodeOf(err) != hal.Denied {
			t.Fatalf("bit %#x of byte %d flipped: %v, want code %d", bit, i, err, hal.Denied)
		}
		file[i] ^= bit
	}
	for size := 0; size < len(file); size += step {
		if err := k.CheckSignature(file[:size], 0); hal.CodeOf(err) != hal.Denied {
			t.Fatalf("truncated to %d bytes: %v, want code %d", size, err, hal.Denied)
		}
	}
	t.Logf("evidence: %d signed files, changed or truncated, rejected", 2*len(file)/step)
}

func TestMalformedKeysAreRejected(t *testing.T) {
	for _, text := range []string{"", "# none\n", "12\n", strings.Repeat("0", 63) + "g\n",
		strings.Repeat("0", 65), strings.Repeat("0", 64) + " x"} {
		t.Run(text, func(t *testing.T) {
			if k, err := signed.ParseKeys(text); hal.CodeOf(err) != hal.Denied {
				t.Errorf("ParseKeys(%q): keys %v, error %v; want code %d", text, k, err, hal.Denied)
			}
		})
	}
	if _, err := signed.ParseKeys(strings.Repeat("aB", 32)); err != nil {
		t.Errorf("ParseKeys of a valid key: %v", err)
	}
}

// TestKeyDigitsAreHexadecimalOnly tries all 256 bytes as the first digit of a key.
func TestKeyDigitsAreHexadecimalOnly(t *testing.T) {
	digits := hex.EncodeToString(privateKey(1).Public().(ed25519.PublicKey))
	for b := range 256 {
		c := byte(b)
		isDigit := c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
		line := string([]byte{c}) + digits[1:]
		if strings.TrimSpace(line) != line || c == '#' {
			continue // a shorter line, or a comment
		}
		if _, err := signed.ParseKeys(line); (err == nil) != isDigit {
			t.Errorf("key with the first byte %#02x: %v, want it accepted: %v", c, err, isDigit)
		}
	}
}

// TestSignaturesAgreeWithOpenSSL verifies a signature of this package with openssl, and a signature
// of openssl with this package.
func TestSignaturesAgreeWithOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("openssl is not installed")
	}
	dir, plain := t.TempDir(), readImage(t)
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	openssl := func(args ...string) []byte {
		out, err := exec.Command("openssl", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
		return out
	}
	der, err := x509.MarshalPKCS8PrivateKey(privateKey(3))
	if err != nil {
		t.Fatal(err)
	}
	private := write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	public := filepath.Join(dir, "key.pub.pem")
	openssl("pkey", "-in", private, "-pubout", "-out", public)
	digest := filepath.Join(dir, "digest")
	openssl("dgst", "-sha512", "-binary", "-out", digest, write("image", plain))

	_, signature, err := fbs.SplitSignature(sign(plain, privateKey(3)))
	if err != nil {
		t.Fatal(err)
	}
	openssl("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", digest, "-sigfile",
		write("ours", signature.Value[:]))

	theirs := filepath.Join(dir, "theirs")
	openssl("pkeyutl", "-sign", "-inkey", private, "-rawin", "-in", digest, "-out", theirs)
	value, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	file := append(bytes.Clone(plain),
		lmb.SignatureBlock(0, privateKey(3).Public().(ed25519.PublicKey), value)...)
	if err := acceptedKeys(t, privateKey(3)).CheckSignature(file, 0); err != nil {
		t.Errorf("CheckSignature of a signature made by openssl: %v", err)
	}
}

// smallOrderPoints computes the encodings of all points whose order divides 8, also encodings that
// RFC 8032 does not allow (y = p and y = p + 1, and a sign of x = 0). On the curve of Ed25519,
// -x² + y² = 1 + dx²y², these points are: x = 0, y = ±1; y = 0; and the points of order 8, whose
// double has y = 0, so that y² = -x² and dy⁴ + 2y² - 1 = 0.
func smallOrderPoints() (list []ed25519.PublicKey) {
	number := func(digits string) *big.Int { n, _ := new(big.Int).SetString(digits, 10); return n }
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	d := number("37095705934669439343138083508754565189542113879843219016388785533085940283555")
	one := big.NewInt(1)
	ys := []*big.Int{big.NewInt(0), one, new(big.Int).Sub(p, one), p, new(big.Int).Add(p, one)}
	root := new(big.Int).ModSqrt(new(big.Int).Add(d, one), p) // y² = (-1 ± √(1 + d)) / d
	for _, r := range []*big.Int{root, new(big.Int).Sub(p, root)} {
		square := new(big.Int).Mul(new(big.Int).Sub(r, one), new(big.Int).ModInverse(d, p))
		if y := new(big.Int).ModSqrt(square.Mod(square, p), p); y != nil {
			ys = append(ys, y, new(big.Int).Sub(p, y))
		}
	}
	for _, y := range ys {
		bytes := y.FillBytes(make([]byte, 32))
		slices.Reverse(bytes)
		list = append(list, slices.Clone(bytes))
		bytes[31] |= 0x80
		list = append(list, bytes)
	}
	return list
}

// TestKeysOfSmallOrderAreRejected: anybody can forge signatures of these keys. One of them is 64
// zeros.
func TestKeysOfSmallOrderAreRejected(t *testing.T) {
	points := smallOrderPoints()
	if len(points) != 14 || hex.EncodeToString(points[0]) != strings.Repeat("0", 64) {
		t.Fatalf("%d points, the first is %x; want 14 points and 64 zeros first", len(points),
			points[0])
	}
	good := hex.EncodeToString(privateKey(1).Public().(ed25519.PublicKey))
	for _, point := range points {
		text := good + "\n" + hex.EncodeToString(point)
		_, err := signed.ParseKeys(text)
		if hal.CodeOf(err) != hal.Denied || !strings.Contains(err.Error(), "anybody can forge") {
			t.Errorf("key %x: %v, want it rejected", point, err)
		}
	}
	for seed := range byte(20) {
		acceptedKeys(t, privateKey(seed))
	}
	t.Logf("evidence: %d encodings of points of small order rejected", len(points))
}

// acceptsForgery reports whether a signature of the neutral point and the number zero, which needs
// no private key, is valid for one of 64 messages.
func acceptsForgery(key ed25519.PublicKey) bool {
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1
	for message := range 64 {
		if ed25519.Verify(key, []byte{byte(message)}, forged) {
			return true
		}
	}
	return false
}

// TestRejectedKeysAreThoseWhoseForgeriesVerify changes a bit in each byte of the points of small
// order, the sign bit among them, and compares with crypto/ed25519.
func TestRejectedKeysAreThoseWhoseForgeriesVerify(t *testing.T) {
	rejected := 0
	for _, point := range smallOrderPoints() {
		for i := range len(point) + 1 { // the last one changes nothing; the sign bit is in byte 31
			if i%31 > effort.Cases(1, 31, 31) {
				continue
			}
			key := bytes.Clone(point)
			if i < len(key) {
				key[i] ^= 1 << (i % 8)
			}
			_, err := signed.ParseKeys(hex.EncodeToString(key))
			if want := acceptsForgery(key); (err != nil) != want {
				t.Errorf("key %x: %v; a forgery is valid: %v", key, err, want)
			}
			if err != nil {
				rejected++
			}
		}
	}
	if rejected < 28 { // each of the 14 encodings, also as the other one with its sign bit changed
		t.Errorf("%d keys rejected, want at least 28", rejected)
	}
}

func BenchmarkParseKeys(b *testing.B) {
	line := keyLine()
	for b.Loop() {
		if _, err := signed.ParseKeys(line); err != nil {
			b.Fatal(err)
		}
	}
}

// keyLine returns the line of key 1 in a list of keys.
func keyLine() string { return hex.EncodeToString(privateKey(1).Public().(ed25519.PublicKey)) }

// TestKeySignsOnlyTheVersionsOfItsLine tries versions around the ends of each range.
func TestKeySignsOnlyTheVersionsOfItsLine(t *testing.T) {
	const most = 1<<32 - 1
	for _, test := range []struct {
		text        string
		first, last uint32
	}{
		{"", 0, most}, {" versions 0-", 0, most}, {" versions 3-", 3, most},
		{"  versions\t-7 ", 0, 7}, {" versions 3-7", 3, 7}, {" versions 5", 5, 5},
		{" versions 0", 0, 0}, {" versions 4294967295", most, most}, {" versions 03-0007", 3, 7},
	} {
		t.Run(test.text, func(t *testing.T) {
			k, err := signed.ParseKeys(keyLine() + test.text + "\n")
			if err != nil {
				t.Fatal(err)
			}
			for _, version := range []uint32{0, 1, test.first - 1, test.first, test.last,
				test.last + 1, 4, most} {
				err := k.CheckSignature(signVersion(readImage(t), privateKey(1), version), 0)
				isAllowed := test.first <= version && version <= test.last
				if (err == nil) != isAllowed {
					t.Errorf("key%s, version %d: %v, want it accepted: %v", test.text, version, err,
						isAllowed)
				}
				const want = "its key may sign only versions"
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("key%s, version %d: %v, want %q", test.text, version, err, want)
				}
			}
		})
	}
}

func TestMalformedVersionRangesAreRejected(t *testing.T) {
	for _, text := range []string{"versions", "3-", "version 3-", "versions -", "versions 7-3",
		"versions 3-7-", "versions --7", "versions 4294967296", "versions 3-4294967296",
		"versions 0x3-", "versions 3 - 7", "versions 3-7 8", "versions x-", "versions 3-x",
		"Versions 3-", "versions 3- # since June"} {
		t.Run(text, func(t *testing.T) {
			if k, err := signed.ParseKeys(keyLine() + " " + text); hal.CodeOf(err) != hal.Denied {
				t.Errorf("ParseKeys of a key with %q: keys %v, error %v; want code %d", text, k,
					err, hal.Denied)
			}
		})
	}
}

// TestKeyThatOccursTwiceIsRejected, also if the case of its digits differs: a line without versions
// would allow the versions that the other line excludes.
func TestKeyThatOccursTwiceIsRejected(t *testing.T) {
	for _, text := range []string{keyLine() + " versions 3-\n" + keyLine(),
		keyLine() + "\n" + keyLine() + "\n", keyLine() + "\n" + strings.ToUpper(keyLine())} {
		_, err := signed.ParseKeys(text)
		if hal.CodeOf(err) != hal.Denied || !strings.Contains(err.Error(), "another line") {
			t.Errorf("ParseKeys(%q): %v, want %q", text, err, "another line")
		}
	}
}

func TestVersionBelowTheMinimumIsRejected(t *testing.T) {
	k := acceptedKeys(t, privateKey(1))
	for _, test := range []struct{ version, least uint32 }{{0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 1},
		{255, 256}, {256, 255}, {1<<32 - 1, 1<<32 - 1}, {1<<31 - 1, 1 << 31}} {
		name := fbs.Text("version %d, at least %d", uint64(test.version), uint64(test.least))
		t.Run(name, func(t *testing.T) {
			file := signVersion(readImage(t), privateKey(1), test.version)
			err := k.CheckSignature(file, test.least)
			if test.version >= test.least && err != nil || test.version < test.least &&
				hal.CodeOf(err) != hal.Denied {
				t.Errorf("version %d, minimum %d: %v, want it accepted: %v", test.version,
					test.least, err, test.version >= test.least)
			}
		})
	}
	err := k.CheckSignature(signVersion(readImage(t), privateKey(1), 3), 5)
	if text := err.Error(); !strings.Contains(text, "version 3,") ||
		!strings.Contains(text, "at least version 5;") {
		t.Errorf("version 3, minimum 5: %q, want both versions in the text", text)
	}
}

// TestVersionIsCoveredByTheSignature replaces the version in the signature block of a signed file,
// and updates the checksum of the block.
func TestVersionIsCoveredByTheSignature(t *testing.T) {
	plain, k := readImage(t), acceptedKeys(t, privateKey(1))
	versions := []uint32{0, 1, 2, 3, 256, 1 << 24, 1<<32 - 1}
	for _, version := range versions {
		_, signature, err := fbs.SplitSignature(signVersion(plain, privateKey(1), version))
		if err != nil || signature.Version != version {
			t.Fatalf("signed as version %d: %v, %v", version, signature, err)
		}
		for _, changed := range versions {
			file := append(bytes.Clone(plain),
				lmb.SignatureBlock(changed, signature.Key[:], signature.Value[:])...)
			if err := k.CheckSignature(file, 0); (err == nil) != (version == changed) {
				t.Errorf("signed as version %d, changed to %d: %v", version, changed, err)
			}
		}
	}
	// The signed bytes must differ if the four bytes of the version belong to the image.
	longer := binary.LittleEndian.AppendUint32(bytes.Clone(plain), 7)
	if bytes.Equal(signed.SignedBytes(longer, 0), signed.SignedBytes(plain, 7)) {
		t.Error("the signed bytes of an image with a version equal those of a longer image without")
	}
}
