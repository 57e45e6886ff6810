package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb"
)

func TestCommandLineRefusesWhatAKernelCannotHandOn(t *testing.T) {
	if line, err := commandLine("", []string{"-output", "y=/dev/nvme1n1", "a b"},
		false); err != nil ||
		!strings.HasSuffix(line, ` -- -output y=/dev/nvme1n1 "a b"`) {
		t.Errorf("got %q, %v", line, err)
	}
	fits := strings.Repeat("x", commandLineMax-len("console=ttyAMA0 loglevel=1 panic=-1 -- "))
	if _, err := commandLine("", []string{fits}, false); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{fits + "x"}, {""}, {"a\nb"}, {`"`},
		slices.Repeat([]string{"x"}, initArgsMax+1)} {
		if _, err := commandLine("", args, false); err == nil {
			t.Errorf("accepted %.20q", args)
		}
	}
}

func TestConsolePassesOnOnlyTheRunnersLines(t *testing.T) {
	var out bytes.Buffer
	c := console{lines: &out}
	for _, piece := range []string{"[    0.000000] Booting\r\nlmrun: do",
		"ne\r\n{}\nlmrun: exit 0 of 3\r\nlmrun: ex",
		"it 76\r\n[    1.500000] reboot: Power down\r\n"} {
		if _, err := io.WriteString(&c, piece); err != nil {
			t.Fatal(err)
		}
	}
	if want := "lmrun: done\n{}\nlmrun: exit 0 of 3\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if exit, ok := c.exit(); exit != 76 || !ok {
		t.Errorf("got exit %d, %v, want 76", exit, ok)
	}
	if _, ok := (&console{}).exit(); ok {
		t.Error("a console without a closing line has an exit status")
	}
}

func TestHostFilesInFlagsBecomeTheGuests(t *testing.T) {
	dir := t.TempDir()
	x := filepath.Join(dir, "x.bin")
	if err := os.WriteFile(x, []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	image := &lmb.Image{Tensors: []lmb.Tensor{{Name: "y", DType: gen.DTypeUint32,
		Shape: []uint32{3}}}}
	m := &machine{dir: dir, files: map[string][]byte{}}
	outputs, err := m.bind([]string{"-json", "-input", "x=" + x, "--output=y=/out", "-loop", "2"},
		image)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(m.args, " "),
		"-json -input x=/input/0 -output y=/dev/nvme0n1 -loop 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if string(m.files["/input/0"]) != "data" || len(outputs) != 1 || outputs[0].size != 12 ||
		outputs[0].path != "/out" {
		t.Errorf("got files %q and outputs %+v", m.files, outputs)
	}
	if _, err := m.bind([]string{"-input", "x=" + dir + "/none"},
		image); hal.CodeOf(err) != hal.NoFile {
		t.Errorf("missing input: got %v", err)
	}
	for _, flags := range [][]string{{"-input"}, {"-output", "y"}} {
		if _, err := m.bind(flags, image); err == nil {
			t.Errorf("accepted %v", flags)
		}
	}
}

func TestOutputThatWasNotWrittenIsNotFetched(t *testing.T) {
	dir := t.TempDir()
	o := output{drive: filepath.Join(dir, "drive"), path: filepath.Join(dir, "y"), size: 4}
	if err := o.create(); err != nil {
		t.Fatal(err)
	}
	if err := o.fetch(); err == nil {
		t.Error("fetched an untouched drive")
	}
	f, err := os.OpenFile(o.drive, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("fourmore"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := o.fetch(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(o.path); string(got) != "four" {
		t.Errorf("got %q, want four", got)
	}
}

// TestOutputOfASerialLineIsWhatWasWritten: the line puts a carriage return
// before each newline, and the last run counts.
func TestOutputOfASerialLineIsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	o := output{drive: filepath.Join(dir, "drive"), path: filepath.Join(dir, "y"), size: 6,
		serial: true}
	if err := o.create(); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"\r\r\n\r\nabc": "\r\n\nabc",
		"before123456": "123456", "12345": ""} {
		if err := os.WriteFile(o.drive, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(o.path)
		err := o.fetch()
		if got, _ := os.ReadFile(o.path); string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%q becomes %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestOutputsOfAnImageThatDrivesNVMeGoToSerialLines, as the kernel leaves NVMe
// to the replay then.
func TestOutputsOfAnImageThatDrivesNVMeGoToSerialLines(t *testing.T) {
	m := &machine{dir: t.TempDir(), files: map[string][]byte{}}
	image := &lmb.Image{Devices: []lmb.Device{{Vendor: 0x1b36, Device: 0x0010}}}
	if _, err := m.bind([]string{"-output", "y=/out", "-output=z=/other"}, image); err != nil ||
		len(m.drives) != 0 || len(m.serials) != 2 ||
		strings.Join(m.args, " ") != "-output y=/dev/ttyS0 -output z=/dev/ttyS1" {
		t.Errorf("%v, %+v", err, m)
	}
	if _, err := m.bind([]string{"-output", "a=/1", "-output", "b=/2", "-output", "c=/3"},
		image); err == nil {
		t.Error("five serial lines")
	}
}

// full is where nothing more can be written.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestConsoleKeepsTheErrorOfItsReader(t *testing.T) {
	c := &console{lines: full{}}
	if n, err := c.Write([]byte("a line\nlmrun: exit 0\n")); n != 21 || err != nil {
		t.Errorf("QEMU's output was taken with %d, %v", n, err)
	}
	if exit, ended := c.exit(); exit != 0 || !ended || !errors.Is(c.err, syscall.ENOSPC) {
		t.Errorf("exit %d, %v, error %v", exit, ended, c.err)
	}
}

// TestAServerThatNeverListensGivesItsStatus and what it said.
func TestAServerThatNeverListensGivesItsStatus(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"lmrun": "", "lminit": "", "image": "",
		"lm": "#!/bin/sh\necho lm: bad image: x >&2\nexit 65\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exit, err := run([]string{"-kernel", "none", "-dir", folder, "-lmrun", folder + "/lmrun", "-lm",
		folder + "/lm", "-with", "mock:x", folder + "/image"})
	if exit != 65 || err == nil || err.Error() != "lm serve --device mock:x: lm: bad image: x\n" {
		t.Errorf("exit %d, %v", exit, err)
	}
}
