package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// soaks are what frames go through, and how many where nobody asks for more
// (LM_SOAK_FRAMES, ./build.sh soak).
var soaks = []struct {
	load   string
	frames int
	setUp  func(*testing.T, *machine)
}{
	{"nvme", 1000, func(t *testing.T, m *machine) { m.addListing(t, "nvme", "") }},
	{"wormhole", 200, func(t *testing.T, m *machine) {
		m.serveTo(t, "mock:wormhole")
		_, image := made(t, append([]string{"import"}, allChips[0].captures["twoop"]...)...)
		image.Sequences = append(image.Sequences,
			lmb.Sequence{Name: "safe", Commands: intoReset(t, image.Sequences[0].Commands)})
		file, err := lmb.Encode(image)
		if err != nil {
			t.Fatal(err)
		}
		m.files["/images/twoop.lmb"] = file
		for i := range image.Tensors {
			if image.Tensors[i].Name == "b" {
				m.files["/soak/b"] = image.Tensors[i].Data
			}
		}
	}},
}

// intoReset are the commands by which the capture begins: a window on the registers, and the
// store to them that holds cores in reset.
func intoReset(t *testing.T, commands []lmb.Command) []lmb.Command {
	t.Helper()
	for i := range commands[1:] {
		if commands[i].Opcode == gen.OpcodePoint && commands[i+1].Opcode == gen.OpcodeWrite {
			return commands[i : i+2 : i+2]
		}
	}
	t.Fatal("no store behind a window")
	return nil
}

var soaked = regexp.MustCompile(
	`: (\d+) frames of \d+ bytes, (\d+) kills, (\d+) faults of the device, (\d+) frames twice`)

// TestFramesBearKillsAndFaults: each frame comes, whole and right and in order, past kills and
// faults of the device after every thousand, or every tenth of fewer.
func TestFramesBearKillsAndFaults(t *testing.T) {
	t.Parallel()
	for _, s := range soaks {
		t.Run(s.load, func(t *testing.T) {
			frames := s.frames
			if asked := os.Getenv("LM_SOAK_FRAMES"); asked != "" {
				var err error
				if frames, err = strconv.Atoi(asked); err != nil || frames < 1 {
					t.Fatalf("LM_SOAK_FRAMES is %q", asked)
				}
			}
			m, console := inside(t, func(m *machine) {
				s.setUp(t, m)
				m.processors = 2 // frames are fed while lmrun runs
				if limit, err := time.ParseDuration(cmp.Or(os.Getenv("LM_SOAK_TIME"),
					"30m")); err == nil {
					m.timeout = limit
				}
			}, "pci", fmt.Sprintf("ready\nsoak %s %d %d\n", s.load, frames, min(1000, frames/10)))
			if m.served != nil {
				t.Error(m.served)
			}
			t.Log(console)
			if counts := soaked.FindStringSubmatch(console); counts != nil {
				t.Logf("evidence: %s frames through %s checked past kills and faults", counts[1],
					s.load)
				kills, _ := strconv.Atoi(counts[2])
				faults, _ := strconv.Atoi(counts[3])
				t.Logf("evidence: %d kills and faults in the middle of frames", kills+faults)
			}
		})
	}
}
