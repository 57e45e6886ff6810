package signed_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime/signed"
)

// key is the same in every run.
func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func keys(t *testing.T, private ...ed25519.PrivateKey) signed.Keys {
	t.Helper()
	text := "# who may sign\n\n"
	for _, p := range private {
		text += hex.EncodeToString(p.Public().(ed25519.PublicKey)) + "\n"
	}
	k, err := signed.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func image(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../testdata/images/edu.lmb")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sign(data []byte, by ed25519.PrivateKey) []byte {
	digest := sha512.Sum512(data)
	return append(bytes.Clone(data), fbs.SignatureBlock(by.Public().(ed25519.PublicKey), ed25519.Sign(by, digest[:]))...)
}

func TestSignedFileIsBelieved(t *testing.T) {
	file := sign(image(t), key(1))
	for _, k := range []signed.Keys{keys(t, key(1)), keys(t, key(2), key(1)), keys(t, key(1), key(2))} {
		if err := k.Check(file); err != nil {
			t.Error(err)
		}
	}
	if _, err := fbs.Verify(file); err != nil {
		t.Error(err)
	}
}

func refused(t *testing.T, what, want string, k signed.Keys, file []byte) {
	t.Helper()
	if err := k.Check(file); hal.CodeOf(err) != hal.Denied || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

func TestFileThatNobodyBelievedSignedIsRefused(t *testing.T) {
	plain := image(t)
	refused(t, "unsigned", "not signed", keys(t, key(1)), plain)
	refused(t, "empty", "not signed", keys(t, key(1)), nil)
	refused(t, "of somebody else", "not among", keys(t, key(2)), sign(plain, key(1)))
	// Names a key that is believed, signed with another.
	digest := sha512.Sum512(plain)
	forged := append(bytes.Clone(plain), fbs.SignatureBlock(key(1).Public().(ed25519.PublicKey), ed25519.Sign(key(2), digest[:]))...)
	refused(t, "forged", "does not hold", keys(t, key(1), key(2)), forged)
	// A signature of something else.
	other := sha512.Sum512(plain[1:])
	moved := append(bytes.Clone(plain), fbs.SignatureBlock(key(1).Public().(ed25519.PublicKey), ed25519.Sign(key(1), other[:]))...)
	refused(t, "moved", "does not hold", keys(t, key(1)), moved)
}

// TestEveryFlippedBitOfASignedFileIsRefused holds the signature alone: nothing
// of the image is verified before.
func TestEveryFlippedBitOfASignedFileIsRefused(t *testing.T) {
	file, k := sign(image(t), key(1)), keys(t, key(1))
	for i := range file {
		bit := byte(1) << (i % 8)
		file[i] ^= bit
		if err := k.Check(file); hal.CodeOf(err) != hal.Denied {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		file[i] ^= bit
	}
	for size := range file {
		if err := k.Check(file[:size]); hal.CodeOf(err) != hal.Denied {
			t.Fatalf("cut to %d bytes: %v", size, err)
		}
	}
	t.Logf("evidence: %d signed files, changed or cut, not believed", 2*len(file))
}

func TestKeysThatAreNoneAreRefused(t *testing.T) {
	for _, text := range []string{"", "# none\n", "12\n", strings.Repeat("0", 63) + "g\n", strings.Repeat("0", 65), strings.Repeat("0", 64) + " x"} {
		if k, err := signed.ParseKeys(text); hal.CodeOf(err) != hal.Denied {
			t.Errorf("%q: %v, %v", text, k, err)
		}
	}
	if _, err := signed.ParseKeys(strings.Repeat("aB", 32)); err != nil {
		t.Error(err)
	}
}

// TestOpenSSLAgrees has a program that is not ours verify what is signed here,
// and signs with it what is verified here.
func TestOpenSSLAgrees(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("no openssl here")
	}
	dir, plain := t.TempDir(), image(t)
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
	der, err := x509.MarshalPKCS8PrivateKey(key(3))
	if err != nil {
		t.Fatal(err)
	}
	private := write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	public := filepath.Join(dir, "key.pub.pem")
	openssl("pkey", "-in", private, "-pubout", "-out", public)
	digest := filepath.Join(dir, "digest")
	openssl("dgst", "-sha512", "-binary", "-out", digest, write("image", plain))

	_, signature, err := fbs.SplitSignature(sign(plain, key(3)))
	if err != nil {
		t.Fatal(err)
	}
	openssl("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", digest, "-sigfile", write("ours", signature.Value))

	theirs := filepath.Join(dir, "theirs")
	openssl("pkeyutl", "-sign", "-inkey", private, "-rawin", "-in", digest, "-out", theirs)
	value, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	file := append(bytes.Clone(plain), fbs.SignatureBlock(key(3).Public().(ed25519.PublicKey), value)...)
	if err := keys(t, key(3)).Check(file); err != nil {
		t.Error(err)
	}
}
