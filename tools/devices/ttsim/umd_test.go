package ttsim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// TestRecordingsOfTheVendorsDriverReplay imports recordings of unmodified tt-umd on the vendor's
// simulator, and replays the images on the mock and on the simulator. tt-umd alone chose the
// accesses of these recordings. Some of them fit only a device that was just reset.
func TestRecordingsOfTheVendorsDriverReplay(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/captures/*.record.gz")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d recordings in testdata/captures, want at least 8; error %v", len(files), err)
	}
	board := map[string]string{"wh": "wormhole", "bh": "blackhole"}
	for _, path := range append(files, extraRecordings(t)...) {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		image, _, err := importer.Import(file, importer.Options{From: importer.FromRecord})
		file.Close()
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".record.gz")
		replayed := func(name string, open func(t *testing.T, board string) hal.Device) {
			t.Run(name, func(t *testing.T) {
				replayOnce(t, image, open(t, board[filepath.Base(path)[:2]]))
			})
		}
		replayed(name+"/mock", func(_ *testing.T,
			board string) hal.Device {
			return mock.New(chips.BoardByName(board))
		})
		replayed(name+"/ttsim", func(t *testing.T,
			board string) hal.Device {
			return openDevice(t, vendorLibrary(t, board))
		})
	}
}

// extraRecordings returns the recordings in the directory that the environment variable
// LM_RECORDINGS names, if any.
func extraRecordings(t *testing.T) []string {
	t.Helper()
	folder := os.Getenv("LM_RECORDINGS")
	if folder == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.record.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("LM_RECORDINGS: %d recordings in %s, error %v", len(files), folder, err)
	}
	return files
}

// replayOnce runs the first sequence of an image on the device, and the sequence safe if there is
// one.
func replayOnce(t *testing.T, image *lmb.Image, device hal.Device) {
	t.Helper()
	view := lmbtest.View(t, lmbtest.Encode(t, image))
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	if r := replay.Run(0); r.Code != hal.OK {
		t.Fatalf("%v at command %d: got %#x, want %#x mask %#x; %s", r.Code, r.Command, r.Got,
			r.Want, r.Mask, device.(refusalReporter).Refusal())
	}
	for i := range view.Sequences {
		if view.Name(view.Sequences[i].Name) != "safe" {
			continue
		}
		if r := replay.Run(i); r.Code != hal.OK {
			t.Errorf("safe: %v at command %d; %s", r.Code, r.Command,
				device.(refusalReporter).Refusal())
		}
	}
}
