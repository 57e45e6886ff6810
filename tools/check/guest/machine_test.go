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

func TestKernelCommandLineRejectsInvalidArguments(t *testing.T) {
	if line, err := kernelCommandLine("", []string{"-output", "y=/dev/nvme1n1", "a b"},
		false); err != nil ||
		!strings.HasSuffix(line, ` -- -output y=/dev/nvme1n1 "a b"`) {
		t.Errorf("command line %q, error %v, want the end with -output and \"a b\"", line, err)
	}
	longestArgument := strings.Repeat("x", commandLineBytesMax-len(kernelOptions+" -- "))
	if _, err := kernelCommandLine("", []string{longestArgument}, false); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{longestArgument + "x"}, {""}, {"a\nb"}, {`"`},
		slices.Repeat([]string{"x"}, initArgsCountMax+1)} {
		if _, err := kernelCommandLine("", args, false); err == nil {
			t.Errorf("kernelCommandLine accepted the arguments %.20q", args)
		}
	}
}

func TestConsoleCopiesOnlyLinesOfLmrun(t *testing.T) {
	var out bytes.Buffer
	c := console{out: &out}
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
	if exit, ok := c.exitStatus(); exit != 76 || !ok {
		t.Errorf("got exit status %d, %v, want 76", exit, ok)
	}
	if _, ok := (&console{}).exitStatus(); ok {
		t.Error("exitStatus returned a status without a line that has one")
	}
}

func TestHostFilesInFlagsAreReplacedByGuestFiles(t *testing.T) {
	dir := t.TempDir()
	x := filepath.Join(dir, "x.bin")
	if err := os.WriteFile(x, []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	image := &lmb.Image{Tensors: []lmb.Tensor{{Name: "y", DType: gen.DTypeUint32,
		Shape: []uint32{3}}}}
	m := &machine{dir: dir, files: map[string][]byte{}}
	outputs, err := m.replaceHostFiles([]string{"-json", "-input", "x=" + x, "--output=y=/out",
		"-loop", "2"}, image)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(m.args, " "),
		"-json -input x=/input/0 -output y=/dev/nvme0n1 -loop 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if string(m.files["/input/0"]) != "data" || len(outputs) != 1 || outputs[0].size != 12 ||
		outputs[0].userPath != "/out" {
		t.Errorf("got files %q and outputs %+v", m.files, outputs)
	}
	if _, err := m.replaceHostFiles([]string{"-input", "x=" + dir + "/none"},
		image); hal.CodeOf(err) != hal.NoFile {
		t.Errorf("missing input file: error %v, want code %v", err, hal.NoFile)
	}
	for _, flags := range [][]string{{"-input"}, {"-output", "y"}} {
		if _, err := m.replaceHostFiles(flags, image); err == nil {
			t.Errorf("replaceHostFiles accepted the flags %v", flags)
		}
	}
}

func TestUnwrittenOutputIsNotCopied(t *testing.T) {
	dir := t.TempDir()
	o := output{deviceFile: filepath.Join(dir, "drive"), userPath: filepath.Join(dir, "y"), size: 4}
	if err := o.createDeviceFile(); err != nil {
		t.Fatal(err)
	}
	if err := o.copyToUser(); err == nil {
		t.Error("copyToUser copied a drive to which nothing was written")
	}
	f, err := os.OpenFile(o.deviceFile, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("fourmore"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := o.copyToUser(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(o.userPath); string(got) != "four" {
		t.Errorf("got %q, want four", got)
	}
}

// TestOutputOfSerialPortIsWhatLmrunWrote checks that the carriage returns that a serial port
// inserts are removed, and that the output of the last run is used.
func TestOutputOfSerialPortIsWhatLmrunWrote(t *testing.T) {
	dir := t.TempDir()
	o := output{deviceFile: filepath.Join(dir, "drive"), userPath: filepath.Join(dir, "y"), size: 6,
		isSerial: true}
	if err := o.createDeviceFile(); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"\r\r\n\r\nabc": "\r\n\nabc",
		"before123456": "123456", "12345": ""} {
		if err := os.WriteFile(o.deviceFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(o.userPath)
		err := o.copyToUser()
		if got, _ := os.ReadFile(o.userPath); string(got) != want || (err == nil) != (want != "") {
			t.Errorf("serial port with %q: output %q, error %v; want %q", text, got, err, want)
		}
	}
}

// TestOutputsOfNVMeImageGoToSerialPorts checks the outputs of an image that uses the NVMe device
// itself.
func TestOutputsOfNVMeImageGoToSerialPorts(t *testing.T) {
	m := &machine{dir: t.TempDir(), files: map[string][]byte{}}
	image := &lmb.Image{Devices: []lmb.Device{{Vendor: 0x1b36, Device: 0x0010}}}
	flags := []string{"-output", "y=/out", "-output=z=/other"}
	if _, err := m.replaceHostFiles(flags, image); err != nil ||
		len(m.drives) != 0 || len(m.serials) != 2 ||
		strings.Join(m.args, " ") != "-output y=/dev/ttyS0 -output z=/dev/ttyS1" {
		t.Errorf("error %v, machine %+v; want two serial ports and no drive", err, m)
	}
	flags = []string{"-output", "a=/1", "-output", "b=/2", "-output", "c=/3"}
	if _, err := m.replaceHostFiles(flags, image); err == nil {
		t.Error("replaceHostFiles accepted three more outputs, which need five serial ports")
	}
}

// fullWriter is a writer that always fails, as if no space were left.
type fullWriter struct{}

// Write implements io.Writer.
func (fullWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestConsoleReportsFailedWrites(t *testing.T) {
	c := &console{out: fullWriter{}}
	if n, err := c.Write([]byte("a line\nlmrun: exit 0\n")); n != 21 || err != nil {
		t.Errorf("Write returned %d, %v, want 21 without an error", n, err)
	}
	exit, ok := c.exitStatus()
	if exit != 0 || !ok || !errors.Is(c.writeErr, syscall.ENOSPC) {
		t.Errorf("exit status %d, found %v, error %v; want 0, true, %v", exit, ok, c.writeErr,
			syscall.ENOSPC)
	}
}

// TestServerThatNeverListensSetsTheExitStatus also checks that the message has the server's text.
func TestServerThatNeverListensSetsTheExitStatus(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"lmrun": "", "lminit": "", "image": "",
		"lm": "#!/bin/sh\necho lm: bad image: x >&2\nexit 65\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exit, err := runGuest([]string{"-kernel", "none", "-dir", dir, "-lmrun", dir + "/lmrun",
		"-lm", dir + "/lm", "-with", "mock:x", dir + "/image"},
		&machine{files: map[string][]byte{}})
	if exit != 65 || err == nil || err.Error() != "lm serve --device mock:x: lm: bad image: x\n" {
		t.Errorf("exit status %d, error %v; want 65 with the message of lm", exit, err)
	}
}
