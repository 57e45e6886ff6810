package main

// This file makes the runtime and the C player execute the images of testdata completely.

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

// accessesMax is larger than the number of accesses of any image of testdata.
const accessesMax = 10_000

// ignoreFailures returns an image that ignores failed checks, so that runs on a device that answers
// at random do not end early.
func ignoreFailures(t *testing.T, file []byte) []byte {
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
// with devices that answer at random: verdicts, accesses, the enabling of bus mastering, results,
// times and outputs. A C player without verification and texts must also agree.
func TestPlayersAgreeOnTestdata(t *testing.T) {
	for _, options := range [][]string{nil, {"-DLMPLAY_VERIFY=0", "-DLMPLAY_TEXT=0"}} {
		o := startCPlayer(t, options...)
		o.ignorePlaces = options != nil
		endings, random := map[string]int{}, rand.New(rand.NewPCG(16, 4))
		runs := 0
		for i, base := range baseImages(t) {
			for k, file := range [][]byte{base, ignoreFailures(t, base)} {
				file = vector.Aligned(file)
				for range 24 {
					seed := random.Uint64()
					if limitOf(seed) != 0 {
						seed++ // only verification checks a limit
					}
					name := fmt.Sprintf("image %d, ignoring %d, seed %#x", i, k, seed)
					o.compare(t, name, file, seed, accessesMax)
					if bytes.Contains(o.runtimeReport, []byte("reject bad-image")) {
						t.Errorf("%s: a good image was rejected: %s", name,
							formatReport(o.runtimeReport))
					}
					endings[endingOf(o.runtimeReport)]++
					runs++
				}
			}
		}
		o.stop(t)
		for _, ending := range []string{"done", "bus-fault", "device-gone", "expect-failed"} {
			if endings[ending] < 10 {
				t.Errorf("options %v: number of runs by ending: %v; want at least 10 with %s",
					options, endings, ending)
			}
		}
		t.Logf("evidence: %d runs of testdata agree between runtime and C player (options %v; "+
			"number of runs by ending: %v)", runs, options, endings)
	}
}

// TestPlayersAgreeOnBadImages compares the verdicts on the bad images of testdata, and on a good
// image with one byte changed: a checksum covers each byte, or the byte can have only one value.
func TestPlayersAgreeOnBadImages(t *testing.T) {
	o := startCPlayer(t)
	defer o.stop(t)
	reject := func(name string, file []byte) {
		t.Helper()
		o.compare(t, name, vector.Aligned(file), 0, accessesMax)
		if !bytes.HasPrefix(o.runtimeReport, []byte("reject bad-image ")) {
			t.Errorf("%s: the image was not rejected: %s", name, formatReport(o.runtimeReport))
		}
	}
	paths, err := filepath.Glob(filepath.Join(folder, "../bad/*.lmb"))
	if err != nil || len(paths) < 15 {
		t.Fatalf("%d bad images were found, want at least 15; error %v", len(paths), err)
	}
	for _, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "larger-than-the-machine.lmb") { // this image is valid
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
