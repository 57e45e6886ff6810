package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/tools/coverage/corpus"
	"lightmetal/tools/lmb/lmbtest"
)

// runs are those of the scenario of that name: inside/runs.go.
type runs struct{ list strings.Builder }

func (r *runs) add(want hal.Code, words string, args ...string) {
	fmt.Fprintf(&r.list, "%d\t%s\t%s\n", want.Exit(), words, strings.Join(args, "\t"))
}

// long asks for all that there is, where some will do (./build.sh object-coverage).
var long = os.Getenv("LM_GUEST_LONG") != ""

// verified adds an image to what lmrun is to verify, and what it is to say.
func (r *runs) verified(m *machine, image corpus.Image) {
	path, want := fmt.Sprintf("/corpus/%d", len(m.files)), hal.OK
	if image.Refusal != "" {
		want = hal.BadImage
	} else if image.NoMain {
		want = hal.Usage
	}
	m.files[path] = image.File
	words := image.Refusal
	if len(image.File) == 0 {
		words = strings.TrimPrefix(words, "preamble: ") // Open says it
	}
	r.add(want, words, "-check", "-longest", "1000000s", path)
}

// ofABoard is for a chip that is known: its registers, those that open host memory to it, and
// commands that are like the one before.
const ofABoard = `lightmetal 1
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

// TestShippedVerifierRefusesInTheWordsOfTheHosts: images with every field changed,
// and the same words by the program for arm64 as by the verifier of this process.
func TestShippedVerifierRefusesInTheWordsOfTheHosts(t *testing.T) {
	text, err := os.ReadFile("../../testdata/listings/all-opcodes.lms")
	if err != nil {
		t.Fatal(err)
	}
	_, console := inside(t, func(m *machine) {
		var r runs
		for _, base := range []string{string(text), ofABoard} {
			first, rest := corpus.Mutations(lmbtest.File(t, base))
			if long {
				first = append(first, rest...)
			}
			for _, image := range first {
				r.verified(m, image)
			}
		}
		bad, _ := filepath.Glob("../../testdata/bad/*.lmb")
		for _, path := range bad {
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			r.verified(m, corpus.Judged(file))
		}
		m.files["/runs"] = []byte(r.list.String())
	}, "runs", "pci")
	t.Log(console)
}
