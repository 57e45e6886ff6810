package main

import (
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

// wormholeImages returns the paths of images for one Wormhole, by name: an image with frames, one
// with a trace that is loaded and replayed, and two with complete runs. The first of these two uses
// the same tile as the others, the second another tile.
func wormholeImages(t *testing.T) map[string]string {
	t.Helper()
	program, folder, images := buildMain(t, workloadProgram), t.TempDir(), map[string]string{}
	makeImage := func(name string, args ...string) {
		images[name] = filepath.Join(folder, name+".lmb")
		if exit := runSilently(t, append(args, "-o", images[name])...); exit != 0 {
			t.Fatalf("lm %q: exit status %d, want 0", args, exit)
		}
	}
	makeImage("frames", "import", "--find-frames", "--from", "record",
		filepath.Join(testdata, "captures", "wh.frames.record.gz"))
	makeImage("trace-one-program", "capture", program, "trace-one-program", "--device",
		"mock:wormhole")
	images["network"] = filepath.Join(testdata, "images", "wh.mlp.lmb")
	makeImage("elsewhere", "asm", tempFile(t, "elsewhere.lms",
		strings.ReplaceAll(dumpText(t, images["network"]), "tile 1,1", "tile 8,8")))
	return images
}

// dumpText returns the listing of an image.
func dumpText(t *testing.T, image string) string {
	t.Helper()
	exit, text, stderr := lm(t, "dump", image)
	if exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	return text
}

// loadedImage is one of several images on a device.
type loadedImage struct {
	view   *fbs.View
	replay *runtime.Replay
}

// loadImage loads an image on a device.
func loadImage(t *testing.T, path string, device hal.Device) loadedImage {
	t.Helper()
	view := decodeTogether(t, path, "").View
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	// A broken image polls forever. 20 ms of the device's time, which is simulated, are enough.
	replay.SetLimit(20e6)
	return loadedImage{view, replay}
}

// runSequence runs a sequence and returns its code and the checksums of all outputs.
func (s loadedImage) runSequence(sequence int) string {
	result := s.replay.Run(sequence)
	text := fmt.Sprintf("%v", result.Code)
	for i := range s.view.Tensors {
		if data := s.replay.Output(i); data != nil {
			text += fmt.Sprintf(" %08x", fbs.Checksum(data))
		}
	}
	return text
}

// reverseInputs changes the inputs, so that the outputs of an earlier run differ from those of the
// next.
func (s loadedImage) reverseInputs() {
	for i := range s.view.Tensors {
		if s.view.Tensors[i].Role == gen.RoleInput {
			slices.Reverse(s.replay.Input(i))
		}
	}
}

// runAll runs every sequence except safe.
func (s loadedImage) runAll() {
	for i := range s.view.Sequences {
		if s.view.Name(s.view.Sequences[i].Name) != "safe" {
			s.runSequence(i)
		}
	}
}

// TestReportedCollisionsMatchReplays runs an image's sequences, then those of another image, then
// one of the first image's sequences again. If no collision is reported for the pair, the result
// must be the same as without the other image. If collisions are reported, at least one result must
// differ.
func TestReportedCollisionsMatchReplays(t *testing.T) {
	images := wormholeImages(t)
	for name, open := range deviceOpeners("wormhole") {
		t.Run(name, func(t *testing.T) {
			open(t).Close()
			for _, a := range []string{"frames", "trace-one-program"} {
				withoutOther := resultsAfter(t, images[a], "", open)
				for _, b := range []string{"elsewhere", "network"} {
					withOther, collides := resultsAfter(t, images[a], images[b], open), false
					for y, without := range withoutOther {
						reported := collisionReported(t, images[a], images[b], y)
						collides = collides || reported && withOther[y] != without
						if !reported && withOther[y] != without {
							t.Errorf("sequence %s of %s: result %s after %s, and %s without it, "+
								"but no collision is reported", y, a, withOther[y], b, without)
						}
					}
					if want := b != "elsewhere"; collides != want {
						t.Errorf("%s after %s: a reported collision changes a result: %v, want %v",
							a, b, collides, want)
					}
				}
			}
		})
	}
}

// collisionReported reports whether together.Check finds that image b can break the sequence of
// image a.
func collisionReported(t *testing.T, a, b, sequence string) bool {
	list := together.Check([]together.Image{decodeTogether(t, a, "a"), decodeTogether(t, b, "b")})
	return slices.ContainsFunc(list, func(c together.Collision) bool {
		return c.Image == "a" &&
			c.Sequence == sequence
	})
}

// decodeTogether verifies an image for together.Check.
func decodeTogether(t *testing.T, path, name string) together.Image {
	_, view := openVerified(path)
	return together.Image{Name: name, View: view}
}

// resultsAfter returns, by name, the result of each sequence of image a after all sequences of a
// and, if b is not "", all sequences of b.
func resultsAfter(t *testing.T, a, b string, open func(*testing.T) hal.Device) map[string]string {
	t.Helper()
	results := map[string]string{}
	for y := range decodeTogether(t, a, "").View.Sequences {
		device := open(t)
		first := loadImage(t, a, device)
		if name := first.view.Name(first.view.Sequences[y].Name); name != "safe" {
			first.runAll()
			if b != "" {
				second := loadImage(t, b, device)
				second.runAll()
				second.replay.Close()
			}
			first.reverseInputs()
			results[name] = first.runSequence(y)
		}
		first.replay.Close()
		device.Close()
	}
	return results
}
