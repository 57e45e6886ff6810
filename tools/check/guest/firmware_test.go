package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bootFirmware boots a machine with the firmware of testdata/firmware as PID 1, and requires an
// exit status. It adds the files, whose keys are paths in the guest. The functions setUp change the
// machine before the boot.
func bootFirmware(t *testing.T, want int, files map[string]string,
	setUp ...func(*machine)) finishedBoot {
	t.Helper()
	var console bytes.Buffer
	dir := t.TempDir()
	m := &machine{
		kernel: fromEnv(t, "LM_GUEST_KERNEL"), initProgram: fromEnv(t, "LM_GUEST_FIRMWARE"),
		files: map[string][]byte{},
		dir:   dir, traceFile: filepath.Join(dir, "trace"), timeout: bootTimeout, stdout: &console,
	}
	for path, source := range files {
		data, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		m.files[path] = data
	}
	for _, f := range setUp {
		f(m)
	}
	exit, err := m.boot()
	if err != nil {
		t.Fatal(err)
	}
	if exit != want {
		t.Fatalf("exit status %d, want %d; the console:\n%s", exit, want, console.String())
	}
	return finishedBoot{m, exit, console.String()}
}

const (
	eduImageFile   = "../../../testdata/images/edu-factorial.lmb"
	twoopImageFile = "../../../testdata/images/wh.twoop.lmb"
)

// guestImages are the files of a guest with the images for both devices.
var guestImages = map[string]string{"/edu.lmb": eduImageFile, "/twoop.lmb": twoopImageFile}

func TestFirmwareInCDrivesItsDevicesFrameByFrame(t *testing.T) {
	t.Parallel()
	r := bootFirmware(t, 0, guestImages)
	for _, want := range []string{
		"firmware: edu frame 12: 12! = 479001600\n", "firmware: edu: 1000 frames right\n",
		"firmware: twoop frame 9: right, sum ",
	} {
		if !strings.Contains(r.console, want) {
			t.Errorf("the console does not have %q:\n%s", want, r.console)
		}
	}
	// QEMU's trace must confirm what the firmware printed: each frame stores its number, then loads
	// only the status register, and then loads the result.
	frame, computing := 0, false
	for _, a := range r.qemuTrace(t, edu) {
		switch {
		case a.store && a.offset == 8 && !computing:
			if a.value != uint64(frame%13) {
				t.Fatalf("frame %d stores the number %d, want %d", frame, a.value, frame%13)
			}
			computing = true
		case !a.store && a.offset == 8 && computing:
			frame, computing = frame+1, false
		case !a.store && a.offset == 0x20 && computing:
		default:
			t.Fatalf("frame %d: unexpected access %+v", frame, a)
		}
	}
	if frame != 1000 || computing {
		t.Errorf("QEMU traced %d frames, want 1000", frame)
	}
}

// TestFirmwareInCDrivesAServedChip replays on a served chip, which the firmware finds by its ids,
// like a card.
func TestFirmwareInCDrivesAServedChip(t *testing.T) {
	t.Parallel()
	r := bootFirmware(t, 0, guestImages, func(m *machine) {
		m.addServed(t, "mock:wormhole")
		m.enableTrace()
		m.args = []string{"card"}
	})
	if !strings.Contains(r.console, "firmware: twoop frame 9: right, sum ") || r.serversErr != nil {
		t.Errorf("the server: %v; the console:\n%s", r.serversErr, r.console)
	}
	log, err := os.ReadFile(r.traceFile)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := parseServedTrace(bytes.NewReader(log), servedRegionName(r.socketPaths[0], 0))
	if err != nil || len(trace) < 10*256 {
		t.Errorf("QEMU traced %d accesses to the chip, want at least 2560; error %v", len(trace),
			err)
	}
}

func TestFirmwareInCEndsWithTheStatusOfItsFailure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		exit  int
		text  string
		files map[string]string
	}{
		{66, "no such file: /edu.lmb", nil},
		{69, "pci:1e52:401e: no such device", map[string]string{"/edu.lmb": twoopImageFile}},
		{66, "no such file: /twoop.lmb", map[string]string{"/edu.lmb": eduImageFile}},
	} {
		t.Run(fmt.Sprint(test.exit, test.text), func(t *testing.T) {
			r := bootFirmware(t, test.exit, test.files)
			if !strings.Contains(r.console, test.text) {
				t.Errorf("the console does not have %q:\n%s", test.text, r.console)
			}
		})
	}
}
