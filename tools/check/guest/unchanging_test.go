package main

import (
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
	"lightmetal/tools/image/lmb/lmbtest"
	"os/exec"
	"path/filepath"
	"testing"

	"lightmetal/tools/image/lmb"
)

// TestGuestDetectsFilesThatCannotChange checks which signed images lmrun copies, because another
// process could change the file. It copies every file but one that fs-verity protects, also on a
// file system that is read-only.
func TestGuestDetectsFilesThatCannotChange(t *testing.T) {
	t.Parallel()
	runInside(t, func(m *machine) {
		m.kernel = fromEnv(t, "LM_GUEST_NEW_KERNEL")
		m.addFile(t, "/lmrun", buildForGuest(t, "lightmetal/tools/lmrun", "-tags", "signed"))
		image := lmbtest.File(t, `lightmetal 1
target ivshmem 1af4:1110 bar2 1MiB
window m bar2 offset 0x0 size 1MiB
tensor go input uint8[4]
tensor got output uint8[131072]
main:
  copy.4 m+0x0 <- go[:]
  copy.8 m+0x1000 <- pattern 0x5 size 128KiB
  copy.8 got[:] <- m+0x1000
`)
		key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
		digest := sha512.Sum512(image)
		m.files["/signed.lmb"] = append(image,
			lmb.SignatureBlock(0, key.Public().(ed25519.PublicKey),
				ed25519.Sign(key, digest[:]))...)
		m.files["/keys"] = fmt.Appendf(nil, "%x\n", []byte(key.Public().(ed25519.PublicKey)))
		m.drives = []string{createExt4(t)}
	}, "pci", "unchanging\n")
}

// createExt4 creates a drive with an empty ext4 file system, and returns the path of its file.
// fs-verity needs blocks that are as large as the guest's pages.
func createExt4(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ext4")
	if err := writeZeros(path, 16<<20); err != nil {
		t.Fatal(err)
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		mkfs = "/usr/sbin/mkfs.ext4" // not on every user's PATH
	}
	if out, err := exec.Command(mkfs, "-q", "-b", "4096", "-O", "verity",
		path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	return path
}
