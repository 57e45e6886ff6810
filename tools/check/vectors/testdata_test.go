package main

// This file lets the runtime and the C player execute the images of testdata, to their ends.

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/vector"
	"lightmetal/tools/image/lmb"
)

// wholeRun is more accesses than a run of an image of testdata makes.
const wholeRun = 10_000

// withIgnore returns an image in which every check may fail, so that runs on a device that answers
// at random do not end early.
func withIgnore(t *testing.T, file []byte) []byte {
	t.Helper()
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range image.Sequences {
		for k := range image.Sequences[i].Commands {
			c := &image.Sequences[i].Commands[k]
			if c.Opcode == gen.OpcodeExpect || c.Opcode == gen.OpcodeCompare {
				c.Option = uint8(gen.PolicyIgnore)
			}
		}
	}
	ignoring, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return ignoring
}

// TestPlayersAgreeOnTestdata compares the players on every image of testdata and of its listings,
// and on devices that answer at random: verdicts, accesses, the enabling of bus mastering, results,
// times and outputs. A player without verification and texts does the same.
func TestPlayersAgreeOnTestdata(t *testing.T) {
	for _, options := range [][]string{nil, {"-DLMPLAY_VERIFY=0", "-DLMPLAY_TEXT=0"}} {
		o := startOther(t, options...)
		o.ignoresPlaces = options != nil
		ended, random := map[string]int{}, rand.New(rand.NewPCG(16, 4))
		for i, base := range baseImages(t) {
			for k, file := range [][]byte{base, withIgnore(t, base)} {
				file = vector.Aligned(file)
				for range 24 {
					seed := random.Uint64()
					if limitOf(seed) != 0 {
						seed++ // only verification checks a limit
					}
					name := fmt.Sprintf("image %d, ignoring %d, seed %#x", i, k, seed)
					o.compare(t, name, file, seed, wholeRun)
					if bytes.Contains(o.ours, []byte("reject bad-image")) {
						t.Errorf("%s: %s", name, readable(o.ours))
					}
					ended[endingOf(o.ours)]++
				}
			}
		}
		o.stop(t)
		for _, ending := range []string{"done", "bus-fault", "device-gone", "expect-failed"} {
			if ended[ending] < 10 {
				t.Errorf("%v: runs ended %v: fewer than 10 with %s", options, ended, ending)
			}
		}
		t.Logf("evidence: %v: runs ended %v; runtime and C player agree", options, ended)
	}
}

// TestPlayersAgreeOnBadImages compares the verdicts on the bad images of testdata, and on a good
// image with one byte changed: a checksum covers each byte, or the byte can have only one value.
func TestPlayersAgreeOnBadImages(t *testing.T) {
	o := startOther(t)
	defer o.stop(t)
	reject := func(name string, file []byte) {
		t.Helper()
		o.compare(t, name, vector.Aligned(file), 0, wholeRun)
		if !bytes.HasPrefix(o.ours, []byte("reject bad-image ")) {
			t.Errorf("%s: %s", name, readable(o.ours))
		}
	}
	paths, err := filepath.Glob(filepath.Join(folder, "../bad/*.lmb"))
	if err != nil || len(paths) < 15 {
		t.Fatal(len(paths), "bad images", err)
	}
	for _, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "larger-than-the-machine.lmb") { // a good image
			reject(path, file)
		}
	}
	file, err := os.ReadFile(filepath.Join(folder, "../images/edu-factorial.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(file); i += 7 {
		changed := bytes.Clone(file)
		changed[i] ^= 0x10
		reject(fmt.Sprint("byte ", i, " changed"), changed)
	}
}
