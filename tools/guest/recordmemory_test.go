package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
)

// behindAnIOMMU has a guest replay an image on a device by VFIO.
func behindAnIOMMU(t *testing.T, image, device string, setUp func(*machine)) {
	t.Helper()
	var console bytes.Buffer
	m := &machine{kernel: tool(t, "LM_GUEST_NEW_KERNEL"), modules: tool(t, "LM_GUEST_NEW_MODULES"), lmrun: tool(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, kernelArgs: " hugepages=32", dir: t.TempDir(), timeout: bootLimit, stdout: &console}
	if setUp != nil {
		setUp(m)
	}
	if exit, err := m.replay(image, []string{"-device", device}); err != nil || exit != 0 {
		t.Fatalf("exit %d, %v\n%s", exit, err, &console)
	}
}

// TestMemoryThatTheVendorsDriverPinsIsRecorded, of a program that a core of the
// chip moves data for: what is imported of the record has it moved again. That it
// is unpinned, and pinned anew, and that the driver resets the card, is in a
// record too.
func TestMemoryThatTheVendorsDriverPinsIsRecorded(t *testing.T) {
	onDriver(t, func(t *testing.T, m *machine, c *card) {
		withRecorder(t, m)
		m.addHosted(t, c)
		m.files["/arguments"] = []byte("/lmrun\n-device\ntt:/dev/tenstorrent/0\n/images/hosted.lmb")
	}, func(c *card) []string { return []string{"record", c.ids, "tt"} }, func(t *testing.T, m *machine, c *card, console string) {
		_, file := recordsOf(t, console)
		path, image := made(t, "import", "--from", "record", saved(t, file))
		hosts, relocated := 0, 0
		for _, w := range image.Windows {
			if w.Kind == gen.WindowKindHost {
				hosts++
			}
		}
		for _, command := range image.Sequences[0].Commands {
			if command.Opcode == gen.OpcodeAddress {
				relocated++
			}
		}
		if hosts == 0 || relocated < 3 {
			t.Errorf("%d windows of host memory, %d relocations", hosts, relocated)
		}
		if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "replay", "--device", "mock:"+c.board, path).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	onDriver(t, func(t *testing.T, m *machine, _ *card) {
		withRecorder(t, m)
		m.addProgram(t, "../recorder/testdata/pins.c")
		m.files["/arguments"] = []byte("/program\n/dev/tenstorrent/0")
	}, func(c *card) []string { return []string{"record", c.ids, "tt"} }, func(t *testing.T, _ *machine, _ *card, console string) {
		_, file := recordsOf(t, console)
		zip, err := gzip.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for text := bufio.NewScanner(zip); text.Scan(); {
			if line := text.Text(); strings.HasPrefix(line, "MEM") {
				got = append(got, line)
			} else if strings.HasPrefix(line, "HR") || strings.Contains(line, "RESET_DEVICE") {
				got = append(got, line[strings.LastIndex(line, " ")+1:])
			}
		}
		for i, text := range []string{"pinned1", "pinned2"} {
			_, rest, _ := strings.Cut(console, "= MEM ")
			if i == 1 {
				_, rest, _ = strings.Cut(rest, "= MEM ")
			}
			mem, _, _ := strings.Cut(rest, "\n")
			want = append(want, "MEM "+strings.TrimSpace(mem), fmt.Sprintf("%x00", text))
		}
		if want = append(want, "not"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
