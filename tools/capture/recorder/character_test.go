//go:build linux && (amd64 || arm64)

package recorder

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCharacterDeviceAsBAR has a device without a size, which is mapped twice.
func TestCharacterDeviceAsBAR(t *testing.T) {
	const source, path = "testdata/character.c", "/dev/zero"
	file := File{Path: path, Bar: 2, Vendor: 0x1234, Device: 0x11e8, Offset: 0x40000,
		Size: 0x100000}
	r := runRecorded(t, nil, Options{Files: []File{file}}, compileProgram(t, source), path)
	if r.exit != 0 || r.err != nil {
		t.Fatalf("exit status %d, error %v: %s", r.exit, r.err, r.messages)
	}
	want := []string{"W 40004 4 01000000", "W 42004 4 03000000"}
	if got := r.accesses(); !slices.Equal(got, want) || r.capture.Bars[2].Size != file.Size {
		t.Errorf("accesses %v, want %v; BAR 2 has 0x%x bytes", got, want, r.capture.Bars[2].Size)
	}
	const event = "what the driver of /dev/zero does in system calls"
	if got := r.eventLines(); len(got) != 1 || !strings.HasPrefix(got[0], event) {
		t.Errorf("events %q, want one that begins with %q", got, event)
	}
	for _, size := range []uint64{0, 0x42000} {
		file.Size = size
		r = runRecorded(t, nil, Options{Files: []File{file}}, compileProgram(t, source), path)
		const want = "/dev/zero is mapped up to 0x43000, but BAR 2 has 0x4"
		if !strings.Contains(r.messages, want) ||
			!strings.Contains(r.messages, "use --file /dev/zero=BAR:SIZE") {
			t.Errorf("size 0x%x: got %s, want %q", size, r.messages, want)
		}
	}
}

// TestBARsOfCharacterDevices: xdma has no file for a BAR that the card lacks.
func TestBARsOfCharacterDevices(t *testing.T) {
	defer func(before string) { deviceFolder = before }(deviceFolder)
	for _, test := range []struct {
		files, bars string // names of xdma's files, and numbers of the card's BARs
		path        string
		want        int // -1: an error
	}{
		{"", "02", "apex_1", 2},
		{"control", "0", "xdma0_control", 0},
		{"user control", "01", "xdma0_user", 0},
		{"user control", "02", "xdma0_control", 2},
		{"control bypass", "02", "xdma0_control", 0},
		{"control bypass", "02", "xdma0_bypass", 2},
		{"user control bypass", "024", "xdma0_user", 0},
		{"user control bypass", "024", "xdma0_control", 2},
		{"user control bypass", "024", "xdma0_bypass", 4},
		{"user control bypass", "0245", "xdma0_bypass", -1},
		{"user control bypass", "02", "xdma0_bypass", -1},
	} {
		deviceFolder = t.TempDir()
		for _, kind := range strings.Fields(test.files) {
			if err := os.WriteFile(filepath.Join(deviceFolder, "xdma0_"+kind), nil,
				0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := characterBAR("/dev/"+test.path, func(bar int) bool {
			return strings.Contains(test.bars, string(rune('0'+bar)))
		})
		if test.want < 0 && err == nil || test.want >= 0 && (err != nil || got != test.want) {
			t.Errorf("%s with %q and BARs %s: BAR %d, error %v; want %d", test.path, test.files,
				test.bars, got, err, test.want)
		}
	}
	for path, want := range map[string]bool{"/dev/apex_0": true, "/dev/xdma12_user": true,
		"/dev/xdma0_h2c_0": false, "/dev/apex_0x": false, "/tmp/dev/apex_0": false} {
		if got := (&recording{options: &Options{}}).isDeviceFile(path); got != want {
			t.Errorf("isDeviceFile(%s) returns %v, want %v", path, got, want)
		}
	}
}
