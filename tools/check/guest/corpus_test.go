package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/tools/check/coverage/corpus"
	"lightmetal/tools/check/vectors/vector"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// runSteps is the text of a scenario's steps that run lmrun.
type runSteps struct{ steps strings.Builder }

// addRun adds a run of lmrun that must end with the code `want` and print the text.
func (r *runSteps) addRun(want hal.Code, text string, args ...string) {
	r.addStep("lmrun", append([]string{fmt.Sprint(want.ExitStatus()), text}, args...))
}

// addAnsweredRun adds a run in which the results of some system calls are replaced
// (inside/answer.go).
func (r *runSteps) addAnsweredRun(want hal.Code, text, answers string, args ...string) {
	r.addStep("answered", append([]string{fmt.Sprint(want.ExitStatus()), text, answers}, args...))
}

// addStep adds a step with quoted arguments.
func (r *runSteps) addStep(name string, args []string) {
	r.steps.WriteString(name)
	for _, arg := range args {
		fmt.Fprintf(&r.steps, " %q", arg)
	}
	r.steps.WriteString("\n")
}

// addVerification adds an image to the machine, and a run in which lmrun verifies it.
func (r *runSteps) addVerification(m *machine, image corpus.Image) {
	path, want := fmt.Sprintf("/corpus/%d", len(m.files)), hal.OK
	if image.Refusal != "" {
		want = hal.BadImage
	} else if image.NoMain {
		want = hal.Usage
	}
	m.files[path] = image.File
	text := image.Refusal
	if len(image.File) == 0 {
		text = strings.TrimPrefix(text, "preamble: ") // here Open reports the error
	}
	r.addRun(want, text, "-check", "-longest", "1000000s", path)
}

// knownBoardListing is a listing for a chip with a board file. It accesses registers, also those
// that open host memory to the chip, and has commands that are similar to the previous one.
const knownBoardListing = `lightmetal 1
target wormhole 1e52:401e bar0 512MiB bar2 1MiB bar4 32MiB
window csm   bar0 offset 0x1fe80000 size 4KiB
window iatu  bar2 offset 0x1200 size 256
window l1    tlb size 1MiB
window l1wc  tlb size 16MiB wc
window ram   host size 4KiB
tensor "a\"b" input uint8[16] = pattern 1 size 16
tensor got output uint8[16]
main:
  copy.4 got[0:4] <- csm+0x0
  copy.4 got[0:4] <- iatu+0x0
  copy.4 csm+0x10 <- "a\"b"[0:8]
  write.4 csm+0x8 0x5
  write.4 csm+0x8 0x6
  write.4 csm+0xc 0x7
  write.8 ram+0x8 0x6
  write.8 ram+0x8 0x7
  write.8 ram+0x10 bus(csm)
  write.8 ram+0x18 bus(csm)
  point l1 tile 1,1 address 0x100000
  point l1wc tiles 1,2 to 3,4 address 0x0 ordering posted noc 1 vc 3
  write.4 l1+0x8 0x6
  write.4 l1+0x8 0x6
  copy.8 l1+0x8 <- pattern 7 size 16
  copy.8 l1+0x8 <- pattern 8 size 16
  copy.8 l1wc+0x8 <- pattern 8 size 16 bulk
  delay 5us
  call init
init:
  fence
`

// vectorImages returns the images of the test vectors of rings and of scratch, and those of other
// vectors that are rejected with a message that no image in known has.
func vectorImages(t *testing.T, known []corpus.Image) (list []corpus.Image) {
	const folder = "../../../testdata/vectors/"
	seen := map[string]bool{}
	for _, image := range known {
		seen[corpus.Words(image.Refusal)] = true
	}
	paths, _ := filepath.Glob(folder + "*.vec")
	for _, path := range paths {
		vectors, err := vector.Parse(string(readFile(t, path)))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		for _, v := range vectors {
			file, err := v.File(readFile(t, folder+v.Image))
			if err != nil {
				t.Fatal(err)
			}
			image := corpus.Judged(file)
			key := corpus.Words(image.Refusal)
			if name == "rings.vec" || name == "scratch.vec" {
				key = string(file)
			}
			if !seen[key] {
				seen[key] = true
				list = append(list, image)
			}
		}
	}
	return list
}

// TestShippedVerifierPrintsTheSameMessagesAsTheHost verifies images in which each field was
// changed. The program for arm64 must print the same messages as the verifier of this process.
func TestShippedVerifierPrintsTheSameMessagesAsTheHost(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../testdata/listings/all-opcodes.lms")
	if err != nil {
		t.Fatal(err)
	}
	_, console := runInside(t, func(m *machine) {
		var r runSteps
		base := lmbtest.File(t, string(text))
		odd, err := corpus.Odd(base)
		if err != nil {
			t.Fatal(err)
		}
		mutations := corpus.Mutations(base, lmbtest.File(t, knownBoardListing))
		images := append(odd, mutations...)
		for _, image := range append(images, vectorImages(t, images)...) {
			r.addVerification(m, image)
		}
		bad, _ := filepath.Glob("../../../testdata/bad/*.lmb")
		for _, path := range bad {
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			r.addVerification(m, corpus.Judged(file))
		}
		if os.Getenv("LM_GUEST_SIGNED") != "" {
			m.addSignatureRuns(&r, base)
		}
		m.addSteps(r.steps.String())
	}, "pci", "")
	t.Log(console)
}

// addSignatureRuns adds runs of an lmrun that was built with support for signatures. They check the
// signatures, and whether another process could change a file during a run.
func (m *machine) addSignatureRuns(r *runSteps, image []byte) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	digest := sha512.Sum512(image)
	public := key.Public().(ed25519.PublicKey)
	m.files["/plain.lmb"] = image
	m.files["/signed.lmb"] = append(bytes.Clone(image),
		lmb.SignatureBlock(0, public, ed25519.Sign(key, digest[:]))...)
	m.files["/forged.lmb"] = append(bytes.Clone(image),
		lmb.SignatureBlock(0, public, make([]byte, ed25519.SignatureSize))...)
	m.files["/strange.lmb"] = append(bytes.Clone(image),
		lmb.SignatureBlock(0, make([]byte, ed25519.PublicKeySize),
			make([]byte, ed25519.SignatureSize))...)
	m.files["/broken.lmb"] = append(bytes.Clone(m.files["/signed.lmb"][:len(image)+64]),
		make([]byte, 64)...)
	m.files["/keys"] = fmt.Appendf(nil, "# trusted keys\n\n%x\n", public)
	m.files["/short"], m.files["/none"] = []byte("00\n"), nil
	const controls = "\x01\x7f\"\u061c\u200e\u200f\u2028\u2066" // which messages replace
	const plain = "ü\u2010\u2070\ufffd\U0010ffff"
	m.files["/letters"] = []byte(controls + plain + strings.Repeat("zz", 32))
	m.files["/anybodys"] = []byte("01" + strings.Repeat("00", 31))
	for _, c := range []struct {
		want                      hal.Code
		text, answers, keys, path string
	}{
		{hal.OK, "", "", "/keys", "/signed.lmb"},
		{hal.Denied, "not signed", "", "/keys", "/plain.lmb"},
		{hal.Denied, "invalid signature", "", "/keys", "/forged.lmb"},
		{hal.Denied, "not in the list of public keys", "", "/keys", "/strange.lmb"},
		{hal.Denied, "checksum is", "", "/keys", "/broken.lmb"},
		{hal.Denied, "must be 64 hex digits", "", "/short", "/signed.lmb"},
		{hal.Denied, "must be 64 hex digits", "", "/letters", "/signed.lmb"},
		{hal.Denied, "no public key", "", "/none", "/signed.lmb"},
		{hal.Denied, "anybody can forge", "", "/anybodys", "/signed.lmb"},
		{hal.NoFile, "", "", "/nowhere", "/signed.lmb"},
		{hal.OK, "", "statx @8:0000100000000000", "/keys", "/signed.lmb"}, // fs-verity
		{hal.IO, "/signed.lmb", "pread64 /signed.lmb #2 =-5", "/keys", "/signed.lmb"},
	} {
		r.addAnsweredRun(c.want, c.text, c.answers, "-check", "-longest", "1000000s", "-key",
			c.keys, c.path)
	}
}
