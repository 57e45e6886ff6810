package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/together"
)

// wormholes are images of captures and workloads for one Wormhole, by name: of
// frames, of a trace that is loaded and replayed, and of runs that are whole, one
// on the tile of the others and one on another.
func wormholes(t *testing.T) map[string]string {
	t.Helper()
	program, folder, images := built(t, workloadProgram), t.TempDir(), map[string]string{}
	make := func(name string, args ...string) {
		images[name] = filepath.Join(folder, name+".lmb")
		if exit := silently(t, append(args, "-o", images[name])...); exit != 0 {
			t.Fatalf("lm %q: %d", args, exit)
		}
	}
	make("frames", "import", "--find-frames", "--from", "record",
		filepath.Join(testdata, "captures", "wh.frames.record.gz"))
	make("trace-one-program", "capture", program, "trace-one-program", "--device", "mock:wormhole")
	images["network"] = filepath.Join(testdata, "images", "wh.mlp.lmb")
	make("elsewhere", "asm", write(t, "elsewhere.lms",
		strings.ReplaceAll(listed(t, images["network"]), "tile 1,1", "tile 8,8")))
	return images
}

func listed(t *testing.T, image string) string {
	t.Helper()
	exit, text, stderr := lm(t, "dump", image)
	if exit != 0 {
		t.Fatal(stderr)
	}
	return text
}

// side is one image on a device that others use too.
type side struct {
	view   *fbs.View
	replay *runtime.Replay
}

func sideOf(t *testing.T, path string, device hal.Device) side {
	t.Helper()
	view := imageOf(t, path, "").View
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	// of the device's time, which is simulated; what is broken waits for what does not come
	replay.SetLimit(20e6)
	return side{view, replay}
}

// ran is how a sequence ended and what the outputs have then.
func (s side) ran(sequence int) string {
	result := s.replay.Run(sequence)
	text := fmt.Sprintf("%v", result.Code)
	for i := range s.view.Tensors {
		if data := s.replay.Output(i); data != nil {
			text += fmt.Sprintf(" %08x", fbs.Checksum(data))
		}
	}
	return text
}

// renew gives other inputs, so that an earlier run's outputs are not taken for
// those of the next.
func (s side) renew() {
	for i := range s.view.Tensors {
		if s.view.Tensors[i].Role == gen.RoleInput {
			slices.Reverse(s.replay.Input(i))
		}
	}
}

// all runs every sequence but safe.
func (s side) all() {
	for i := range s.view.Sequences {
		if s.view.Name(s.view.Sequences[i].Name) != "safe" {
			s.ran(i)
		}
	}
}

// TestWhatIsSaidOfPairsIsSo runs each image's sequences, then those of another,
// then a sequence once more. Where no collision was named it wants what that
// gives without the other, and where one was, something else.
func TestWhatIsSaidOfPairsIsSo(t *testing.T) {
	images := wormholes(t)
	for name, open := range devices("wormhole") {
		t.Run(name, func(t *testing.T) {
			open(t).Close()
			for _, a := range []string{"frames", "trace-one-program"} {
				alone := after(t, images[a], "", open)
				for _, b := range []string{"elsewhere", "network"} {
					behind, collides := after(t, images[a], images[b], open), false
					for y, without := range alone {
						told := named(t, images[a], images[b], y)
						collides = collides || told && behind[y] != without
						if !told && behind[y] != without {
							t.Errorf("%s of %s gives %s behind %s, and %s without; it was said "+
								"to be fine", y, a, behind[y], b, without)
						}
					}
					if want := b != "elsewhere"; collides != want {
						t.Errorf("%s behind %s: breaks as was said: %v, want %v", a, b, collides,
							want)
					}
				}
			}
		})
	}
}

// named tells whether a sequence of an image is said to be in danger from another.
func named(t *testing.T, a, b, sequence string) bool {
	list := together.Check([]together.Image{imageOf(t, a, "a"), imageOf(t, b, "b")})
	return slices.ContainsFunc(list, func(c together.Collision) bool {
		return c.Image == "a" &&
			c.Sequence == sequence
	})
}

func imageOf(t *testing.T, path, name string) together.Image {
	_, view := openVerified(path)
	return together.Image{Name: name, View: view}
}

// after gives what each sequence of an image gives behind all of them, and all
// of another image.
func after(t *testing.T, a, b string, open func(*testing.T) hal.Device) map[string]string {
	t.Helper()
	results := map[string]string{}
	for y := range imageOf(t, a, "").View.Sequences {
		device := open(t)
		first := sideOf(t, a, device)
		if name := first.view.Name(first.view.Sequences[y].Name); name != "safe" {
			first.all()
			if b != "" {
				second := sideOf(t, b, device)
				second.all()
				second.replay.Close()
			}
			first.renew()
			results[name] = first.ran(y)
		}
		first.replay.Close()
		device.Close()
	}
	return results
}

func TestTogetherNamesTheTwoCommands(t *testing.T) {
	a := assemble(t, edu+
		"init:\n  write.4 r+0x20 0x80\ncompute:\n  write.4 r+0x8 5\n"+
		"  poll.4 r+0x20 & 0x1 == 0 within 1s\n")
	b := assemble(t, edu+"main:\n  write.4 r+0x8 3\n  write.4 r+0x20 0\n")
	c := assemble(t, edu+"main:\n  write.4 r+0x8 3\n")
	exit, stdout, stderr := lm(t, "verify", "--together", a, b)
	want := "one image can break another:\n  " + a +
		": sequence compute relies on data that command 0 of init stored; command 1 of main in " +
		b +
		" stores to the same place: edu 1234:11e8, BAR 0 0x20 to 0x23\n"
	if exit != 76 || stdout != want || stderr != "" {
		t.Errorf("%d, %q, want %q; %s", exit, stdout, want, stderr)
	}
	exit, stdout, _ = lm(t, "verify", "--together", "--json", a, b, c)
	var told struct {
		Exit       int
		Images     []string
		Collisions []together.Collision
	}
	if err := json.Unmarshal([]byte(stdout), &told); err != nil || exit != 76 || told.Exit != 76 ||
		len(told.Images) != 3 || len(told.Collisions) != 1 {
		t.Fatalf("%d, %v, %s", exit, err, stdout)
	}
	if c := told.Collisions[0]; c.Image != a || c.Other != b || c.Sequence != "compute" ||
		c.StoredBy != "init" || c.Command != 0 || c.OtherCommand != 1 || c.First != 0x20 ||
		c.Last != 0x23 || c.Bytes != 4 {
		t.Errorf("%+v", c)
	}
	if exit, stdout, stderr := lm(t, "verify", "--together", a, c); exit != 0 || stderr != "" ||
		!strings.HasPrefix(stdout, "2 valid images: no image overwrites") {
		t.Errorf("%d, %s%s", exit, stdout, stderr)
	}
	if exit, stdout, _ := lm(t, "verify", "--together", "--json", a, c); exit != 0 ||
		!strings.Contains(stdout, `"collisions":[]`) {
		t.Errorf("%d, %s", exit, stdout)
	}
	other := filepath.Join(testdata, "images", "wh.twoop.lmb")
	if exit, _, stderr := lm(t, "verify", "--together", a, c, other); exit != 0 ||
		!strings.HasSuffix(stderr, other+": shares no device with the others, so nothing was "+
			"checked between them\n") ||
		strings.Count(stderr, "shares no") != 1 {
		t.Errorf("%d, %s", exit, stderr)
	}
	for _, args := range [][]string{{"--together", a}, {a, b}, {"--together"}, {}} {
		if exit, _, stderr := lm(t, append([]string{"verify"}, args...)...); exit != 64 ||
			!strings.Contains(stderr, "lm verify --help") {
			t.Errorf("%q: %d, %s", args, exit, stderr)
		}
	}
	if exit, _, stderr := lm(t, "verify", "--together", a,
		filepath.Join(testdata, "bad", "misaligned.lmb")); exit != 65 ||
		!strings.Contains(stderr, "misaligned.lmb") {
		t.Errorf("%d, %s", exit, stderr)
	}
}
