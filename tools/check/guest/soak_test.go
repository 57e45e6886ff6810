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

// soakLoads are the devices that process frames, with the default number of frames.
// LM_SOAK_FRAMES sets another number (./build.sh soak).
var soakLoads = []struct {
	device string
	frames int
	setUp  func(*testing.T, *machine)
}{
	{"nvme", 1000, func(t *testing.T, m *machine) { m.addImage(t, "nvme", buildImage(t, "nvme")) }},
	{"wormhole", 200, func(t *testing.T, m *machine) {
		m.addServed(t, "mock:wormhole")
		image, err := lmb.Decode(buildImage(t, "wormhole/twoop"))
		if err != nil {
			t.Fatal(err)
		}
		image.Sequences = append(image.Sequences,
			lmb.Sequence{Name: "safe", Commands: resetCommands(t, image.Sequences[0].Commands)})
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

// resetCommands returns the first commands of the capture: the Point command for the registers,
// and the Write command that keeps cores in reset.
func resetCommands(t *testing.T, commands []lmb.Command) []lmb.Command {
	t.Helper()
	for i := range commands[1:] {
		if commands[i].Opcode == gen.OpcodePoint && commands[i+1].Opcode == gen.OpcodeWrite {
			return commands[i : i+2 : i+2]
		}
	}
	t.Fatal("no Write command after a Point command")
	return nil
}

// soakSummary matches the numbers in the summary that the guest prints.
var soakSummary = regexp.MustCompile(
	`: (\d+) frames of \d+ bytes, (\d+) kills, (\d+) faults of the device, (\d+) frames twice`)

// TestFramesSurviveKillsAndFaults requires that each frame arrives complete, right and in order,
// although lmrun is killed or the device fails after every thousand frames, or ten times if there
// are fewer than 10000 frames.
func TestFramesSurviveKillsAndFaults(t *testing.T) {
	t.Parallel()
	for _, load := range soakLoads {
		t.Run(load.device, func(t *testing.T) {
			frames := load.frames
			if text := os.Getenv("LM_SOAK_FRAMES"); text != "" {
				var err error
				if frames, err = strconv.Atoi(text); err != nil || frames < 1 {
					t.Fatalf("LM_SOAK_FRAMES must be a number of frames, not %q", text)
				}
			}
			m, console := runInside(t, func(m *machine) {
				load.setUp(t, m)
				m.processors = 2 // PID 1 writes frames while lmrun runs
				if limit, err := time.ParseDuration(cmp.Or(os.Getenv("LM_SOAK_TIME"),
					"30m")); err == nil {
					m.timeout = limit
				}
			}, "pci", fmt.Sprintf("ready\nsoak %s %d %d\n", load.device, frames,
				min(1000, frames/10)))
			if m.serversErr != nil {
				t.Error(m.serversErr)
			}
			t.Log(console)
			if counts := soakSummary.FindStringSubmatch(console); counts != nil {
				t.Logf("evidence: %s frames through %s checked past kills and faults", counts[1],
					load.device)
				kills, _ := strconv.Atoi(counts[2])
				faults, _ := strconv.Atoi(counts[3])
				t.Logf("evidence: %d kills and faults in the middle of frames", kills+faults)
			}
		})
	}
}
