package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// firmwareOn boots the firmware of testdata/firmware as process 1. Set up may
// add to the machine.
func firmwareOn(t *testing.T, want int, files map[string]string, setUp ...func(*machine)) replayed {
	t.Helper()
	var console bytes.Buffer
	dir := t.TempDir()
	m := &machine{
		kernel: tool(t, "LM_GUEST_KERNEL"), init: tool(t, "LM_GUEST_FIRMWARE"),
		files: map[string][]byte{},
		dir:   dir, trace: filepath.Join(dir, "trace"), timeout: bootLimit, stdout: &console,
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
		t.Fatalf("exit status %d, want %d; the console says:\n%s", exit, want, console.String())
	}
	return replayed{m, exit, console.String()}
}

const (
	eduImageFile   = "../../../testdata/images/edu-factorial.lmb"
	twoopImageFile = "../../../testdata/images/wh.twoop.lmb"
)

func TestFirmwareInCDrivesItsDevicesFrameByFrame(t *testing.T) {
	t.Parallel()
	r := firmwareOn(t, 0, map[string]string{"/edu.lmb": eduImageFile, "/twoop.lmb": twoopImageFile})
	for _, want := range []string{
		"firmware: edu frame 12: 12! = 479001600\n", "firmware: edu: 1000 frames right\n",
		"firmware: twoop frame 9: right, sum ",
	} {
		if !strings.Contains(r.console, want) {
			t.Errorf("the console does not say %q:\n%s", want, r.console)
		}
	}
	// What the firmware says of edu, QEMU has seen: each frame's own number,
	// and nothing between number and result but looks at the status.
	frame, computing := 0, false
	for _, a := range r.qemuTrace(t, edu) {
		switch {
		case a.store && a.offset == 8 && !computing:
			if a.value != uint64(frame%13) {
				t.Fatalf("frame %d starts with %d", frame, a.value)
			}
			computing = true
		case !a.store && a.offset == 8 && computing:
			frame, computing = frame+1, false
		case !a.store && a.offset == 0x20 && computing:
		default:
			t.Fatalf("frame %d: %+v", frame, a)
		}
	}
	if frame != 1000 || computing {
		t.Errorf("QEMU saw %d frames, want 1000", frame)
	}
}

// TestFirmwareInCDrivesAServedChip, found by its ids as a card is.
func TestFirmwareInCDrivesAServedChip(t *testing.T) {
	t.Parallel()
	r := firmwareOn(t, 0, map[string]string{"/edu.lmb": eduImageFile, "/twoop.lmb": twoopImageFile},
		func(m *machine) {
			m.serveTo(t, "mock:wormhole")
			m.traceIt()
			m.args = []string{"card"}
		})
	if !strings.Contains(r.console, "firmware: twoop frame 9: right, sum ") || r.served != nil {
		t.Errorf("the server: %v; the console says:\n%s", r.served, r.console)
	}
	log, err := os.ReadFile(r.trace)
	if err != nil {
		t.Fatal(err)
	}
	if trace, err := parseServed(bytes.NewReader(log), servedRegion(r.sockets[0], 0)); err != nil ||
		len(trace) < 10*256 {
		t.Errorf("QEMU saw %d accesses to the chip, %v", len(trace), err)
	}
}

func TestFirmwareInCEndsWithTheStatusOfWhatFailed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		exit  int
		says  string
		files map[string]string
	}{
		{66, "no such file: /edu.lmb", nil},
		{69, "pci:1e52:401e: no such device", map[string]string{"/edu.lmb": twoopImageFile}},
		{66, "no such file: /twoop.lmb", map[string]string{"/edu.lmb": eduImageFile}},
	} {
		t.Run(fmt.Sprint(test.exit, test.says), func(t *testing.T) {
			if r := firmwareOn(t, test.exit, test.files); !strings.Contains(r.console, test.says) {
				t.Errorf("the console does not say %q:\n%s", test.says, r.console)
			}
		})
	}
}
