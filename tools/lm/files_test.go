package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb"

	"golang.org/x/sys/unix"
)

// asLMVariable is an environment variable. If it is set, the test program runs as lm.
const asLMVariable = "LM_TEST_LM"

// lmProcess runs lm in a process of its own. Its standard output goes to the file stdout, or to out
// if stdout is nil.
func lmProcess(t *testing.T, stdout *os.File, args ...string) (exit int, out, errs string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), asLMVariable+"=1")
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	if stdout != nil {
		c.Stdout = stdout
	}
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), o.String(), e.String()
}

// testdataPath returns the absolute path of a file in the testdata directory of the repository.
func testdataPath(t *testing.T, elements ...string) string {
	t.Helper()
	return filepath.Join(append([]string{repositoryRoot, "testdata"}, elements...)...)
}

var repositoryRoot = func() string { path, _ := filepath.Abs("../.."); return path }()

// snapshot returns a text with the name, mode, size and checksum of every file in the working
// directory.
func snapshot(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, _ := e.Info()
		text.WriteString(e.Name() + " " + info.Mode().String() + " ")
		data, _ := os.ReadFile(e.Name())
		fmt.Fprintf(&text, "%d %x\n", len(data), sha256.Sum256(data))
	}
	return text.String()
}

// TestOutputsGoToDevicesAndToStandardOutput also checks that lm does not replace a device node with
// a file.
func TestOutputsGoToDevicesAndToStandardOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	twoop := testdataPath(t, "images", "wh.twoop.lmb")
	for _, line := range []string{"replay --device mock:wormhole --output d=/dev/null --profile " +
		"/dev/null " + twoop, "report -o /dev/null " + twoop} {
		if exit, _, stderr := lm(t, strings.Fields(line)...); exit != 0 {
			t.Errorf("lm %s: exit status %d, want 0; %s", line, exit, stderr)
		}
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("/dev/null is %v (%v), want a character device", info, err)
	}
	if err := os.WriteFile("f.lms", []byte(edu+"main:\n  write.4 r+0x4 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if exit, _, stderr := lm(t, "asm", "f.lms"); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	image := string(mustRead(t, "f.lmb"))
	for _, line := range []string{"asm f.lms -o -", "asm f.lms -o /dev/stdout"} {
		if exit, stdout, stderr := lmProcess(t, nil, strings.Fields(line)...); exit != 0 ||
			stdout != image {
			t.Errorf("lm %s: exit status %d, want 0; %d bytes of %d, %s", line, exit, len(stdout),
				len(image), stderr)
		}
	}
	golden, _, _ := lmProcess(t, nil, "replay", "--device", "mock:wormhole", "--output", "d=d.bin",
		twoop)
	for _, flag := range []string{"--json=false", "--json"} {
		exit, stdout, stderr := lmProcess(t, nil, "replay", flag, "--device", "mock:wormhole",
			"--output", "d=-", twoop)
		if exit != golden || stdout != string(mustRead(t, "d.bin")) ||
			!strings.Contains(stderr, "done") {
			t.Errorf("lm replay %s --output d=-: exit status %d, want %d; %d bytes on standard "+
				"output; stderr: %s", flag, exit, golden, len(stdout), stderr)
		}
	}
}

// TestStandardOutputThatCannotBeWrittenIsAnInputOutputError tries every command that prints.
func TestStandardOutputThatCannotBeWrittenIsAnInputOutputError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	image, folder := testdataPath(t, "images", "edu.lmb"), t.TempDir()
	for _, line := range []string{"--help", "info --help", "info " + image, "info --json " + image,
		"dump " + image, "dump --json " + image, "verify " + image,
		"verify --json " + image, "report " + image, "report --json " + image,
		"diff " + image + " " + image, "replay --device mock:edu " + image,
		"replay --json --device mock:edu " + image, "check-board --list",
		"check-board --list --json", "check-board --collect", "sign --new-key " + folder + "/k",
		"replay --device mock:edu --json --loop 0 " + image,
		"asm -o - " + testdataPath(t, "listings", "edu-factorial.lms"), "completion bash",
		"import --from qemu --region edu-mmio --base 0x10000000 --board edu -o " + folder + "/x " +
			testdataPath(t, "captures", "edu.qemutrace")} {
		exit, _, stderr := lmProcess(t, full, strings.Fields(line)...)
		if exit != 74 || !strings.Contains(stderr, "standard output: no space left on device") ||
			strings.Count(stderr, "no space") != 1 {
			t.Errorf("lm %s > /dev/full: exit status %d, want 74; %s", line, exit, stderr)
		}
	}
}

// TestEndlessInputsAreRejected names an endless file, a pipe without a writer and a directory as
// every kind of input.
func TestEndlessInputsAreRejected(t *testing.T) {
	t.Chdir(t.TempDir())
	image, twoop, trace := testdataPath(t, "images", "edu.lmb"),
		testdataPath(t, "images", "wh.twoop.lmb"), testdataPath(t, "captures", "edu.qemutrace")
	if err := errors.Join(syscall.Mkfifo("pipe", 0o600),
		os.WriteFile("f.lms", []byte(edu+"main:\n  copy.4 r+0x80 <- file \"pipe\"\n"), 0o600),
		os.WriteFile("long.lms", bytes.Repeat([]byte("x"), 64<<20), 0o600),
		os.Mkdir("folder", 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"/dev/zero", "pipe", "folder"} {
		for _, line := range []string{"info BAD", "dump BAD", "verify BAD",
			"verify --key BAD " + image, "asm -o x BAD",
			"import --from qemu --region r --base 0 --board edu -o x BAD",
			"import --from mmiotrace --board edu -o x BAD", "import --from record -o x BAD",
			"import --summary --from qemu BAD", "import --summary --from mmiotrace BAD",
			"import --from qemu --region edu-mmio --base 0x10000000 --board edu --host " +
				"h=0x1000,BAD -o x " + trace,
			"replay --device mock:wormhole --input a=BAD " + twoop, "report --profile BAD " + twoop,
			"sign --key BAD " + twoop, "sign --key BAD -o x BAD",
			"check-board --kernel-config BAD", "diff BAD " + image, "capture BAD -o x"} {
			exit, _, stderr := lm(t, strings.Fields(strings.ReplaceAll(line, "BAD", bad))...)
			if exit != 64 && exit != 65 && exit != 74 || stderr == "" {
				t.Errorf("lm %s with %s: exit status %d, want 64, 65 or 74; stderr: %s", line, bad,
					exit, stderr)
			}
		}
	}
	for _, line := range []string{"asm -o x f.lms", "asm -o x long.lms"} {
		if exit, _, stderr := lm(t, strings.Fields(line)...); exit != 65 || len(stderr) > 1000 {
			t.Errorf("lm %s: exit status %d, want 65; %.300s", line, exit, stderr)
		}
	}
}

// TestTraceFromAPipeIsLimited checks the limit on the bytes that lm reads from a pipe, however
// short the lines are.
func TestTraceFromAPipeIsLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	in := openFile(path)
	defer in.Close()
	if in.remaining != pipeMax || in.limit != pipeMax {
		t.Errorf("the limits of the pipe are %d and %d bytes, want %d", in.remaining, in.limit,
			int64(pipeMax))
	}
	in.remaining = 8
	if _, err := writer.WriteString(strings.Repeat("\n", 20)); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(in); len(data) != 8 || hal.CodeOf(err) != hal.BadImage ||
		!strings.Contains(fmt.Sprint(err), "put the data into a file") {
		t.Errorf("read %d bytes, error %v; want 8 bytes and an error", len(data), err)
	}
}

func TestTraceFromAPipeWithoutAWriterIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"mmiotrace", "qemu", "record"} {
		if exit, _, stderr := lm(t, "import", "--from", from, "--board", "edu", path, "-o",
			path+".lmb"); exit != 74 || !strings.Contains(stderr, "the pipe is empty and has no "+
			"writer") {
			t.Errorf("%s: exit status %d, want 74; %s", from, exit, stderr)
		}
	}
}

func TestListingReadsFilesOnlyBelowItsFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "link") // the working directory is a symbolic link
	if err := os.Symlink(t.TempDir(), folder); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	if err := errors.Join(os.MkdirAll("in/below", 0o755),
		os.WriteFile("secret", []byte("1234"), 0o600),
		os.WriteFile("in/below/data", []byte("1234"), 0o600),
		os.Symlink("../secret", "in/link"), os.Symlink("in", "also")); err != nil {
		t.Fatal(err)
	}
	for path, inside := range map[string]bool{"below/data": true, "../secret": false,
		folder + "/secret": false, folder + "/in/below/data": true, "link": false,
		"../in/below/data": true, "/etc/passwd": false} {
		if err := os.WriteFile("in/f.lms", []byte(edu+"main:\n  copy.4 r+0x80 <- file \""+path+
			"\" from 0 size 4\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{"in/f.lms", "also/f.lms", folder + "/in/f.lms"} {
			exit, _, stderr := lm(t, "asm", "-o", "x", source)
			if (exit == 0) != inside || !inside && !strings.Contains(stderr, "--anywhere") {
				t.Errorf("asm %s, which reads %s: exit status %d, want success: %v; stderr: %s",
					source, path, exit, inside, stderr)
			}
		}
		if exit, _, stderr := lm(t, "asm", "--anywhere", "-o", "x", "in/f.lms"); exit != 0 {
			t.Errorf("asm --anywhere with %s: exit status %d, want 0; %s", path, exit, stderr)
		}
	}
}

// hostile has control characters. Tests use it in names of files, in flags and as bytes of other
// texts. The text after its line feed must not begin a line of output.
const hostile = "x\x1b[2J\u009b31m\x07\u0085\u2028\u202ey\nforged: valid, checksum 0badcafe"

// hostileImages returns an image with valid names and notes, and the same image with the bytes of
// hostile in place of its notes.
func hostileImages(t *testing.T) (image, forged []byte) {
	t.Helper()
	const tensors = "tensor a input uint32[1] = uint32 1\ntensor d output uint32[1] = uint32 7\n"
	unlike := strings.Repeat("N", len(hostile))
	image = assembleBytes(t, "lightmetal 1\norigin tool \""+unlike+"\" source \""+unlike+"\"\n"+
		strings.TrimPrefix(edu, "lightmetal 1\n")+"window "+unlike+" bar0 offset 0 size 4KiB\n"+
		tensors+
		"main:\n  begin \""+unlike+
		"\"\n  copy.4 r+0x4 <- a[0:4]\n  copy.4 d[0:4] <- r+0x4\n  end \""+unlike+"\"\n"+
		"bad:\n  expect.4 r+0x0 == 0x1\nslow:\n  poll.4 r+0x20 & 0x80 == 0x80 within 1ms\n")
	forged = bytes.ReplaceAll(image, []byte(unlike), []byte(hostile))
	if bytes.Equal(image, forged) {
		t.Fatal("the notes are not in the image as they are")
	}
	lmb.Stamp(forged, binary.LittleEndian.Uint64(forged[32:]))
	return image, forged
}

// TestNoPathBringsControlCharactersToATerminal runs all commands with file names, flags, texts and
// notes of an image that have control characters.
func TestNoPathBringsControlCharactersToATerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	file, forged := hostileImages(t)
	raw := "x\x9b\x1b[2J\x85y\n"
	for name, data := range map[string][]byte{"i.lmb": file, "n.lmb": forged, hostile: []byte(raw),
		hostile + ".lmb": file, "raw": []byte(raw), "f.lms": []byte(edu + "main:\n  " + raw),
		"g.lms": []byte(raw),
		"m":     []byte("VERSION 20070824\n" + raw),
		"q":     []byte("1@1.0:memory_region_ops_read " + raw),
		"a.npy": []byte("\x93NUMPY\x01\x00\x10\x00{'" + raw), "p": []byte(`{"` + raw)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := [][]string{
		{"info", "i.lmb"},
		{"info", "--json", "i.lmb"},
		{"dump", "i.lmb"},
		{"dump", "--json", "i.lmb"},
		{"verify", "i.lmb"},
		{"report", "i.lmb"},
		{"report", "--json", "i.lmb"},
		{"report", "--sequence", hostile, "i.lmb"},
		{"diff", "i.lmb", testdataPath(t, "images", "edu.lmb")},
		{"replay", "--device", "mock:edu", "i.lmb"},
		{"replay", "--device", "mock:edu", "--profile", "x", "i.lmb"},
		{"replay", "--json", "--device", "mock:edu", "--profile", "x", "i.lmb"},
		{"replay", "--device", "mock:edu", "--check-golden", "i.lmb"},
		{"replay", "--device", "mock:edu", "--sequence", "bad", "i.lmb"},
		{"replay", "--device", "mock:edu", "--sequence", "slow", "i.lmb"},
		{"replay", "--device", "mock:edu", "--sequence", "none", "i.lmb"},
		{"replay", "--device", "mock:edu", "--input", "n=x", "i.lmb"},
		{"replay", "--device", "mock:edu", "--input", "a=raw", "i.lmb"},
		{"replay", "--device", "mock:edu", "--input", "a=a.npy", "i.lmb"},
		{"replay", "--device", "mock:edu", "--output", hostile + "=x", "i.lmb"},
		{"replay", "i.lmb"},
		{"replay", "--device", "mock:" + hostile, "i.lmb"},
		{"replay", "--device", hostile, "i.lmb"},
		{"info", "n.lmb"},
		{"dump", "n.lmb"},
		{"verify", "n.lmb"},
		{"report", "n.lmb"},
		{"diff", "n.lmb", "i.lmb"},
		{"trim", "--marks", "-o", "y", "n.lmb"},
		{"replay", "--device", "mock:edu", "n.lmb"},
		{"replay", "--device", "mock:edu", "--profile", "x", "n.lmb"},
		{"info", hostile + ".lmb"},
		{"verify", hostile + ".lmb"},
		{"verify", "--together", hostile + ".lmb", "i.lmb"},
		{"dump", hostile + ".lmb"},
		{"report", hostile + ".lmb"},
		{"report", "-o", "page", hostile + ".lmb"},
		{"replay", "--device", "mock:edu", hostile + ".lmb"},
		{"trim", "--marks", "-o", hostile + "2.lmb", "i.lmb"},
		{"dump", "-o", hostile + ".lms", "i.lmb"}, {"sign", "--new-key", hostile + ".key"},
		{"asm", "f.lms"}, {"asm", "g.lms"}, {"asm", hostile}, {"info", hostile},
		{"verify", "--key", "raw", "i.lmb"},
		{"sign", "--in-place", "--key", "raw", "i.lmb"},
		{"import", "--from", "mmiotrace", "m"}, {"import", "--from", "mmiotrace", "--summary", "m"},
		{"import", "--from", "qemu", "--region", "r", "--base", "0", "--board", "edu", "q"},
		{"import", "--from", "record", "raw"}, {"import", "--from", hostile, "raw"},
		{"import", "--from", "qemu", "--board", hostile, "q"},
		{"report", "--profile", "p", "i.lmb"}, {"check-board", hostile},
		{"check-board", "--kernel-config", "raw"}, {"capture", "raw"}, {hostile},
		{"info", "--" + hostile}, {"info", hostile + "none"},
	}
	for _, args := range lines {
		exit, stdout, stderr := lm(t, args...)
		for _, text := range []string{stdout, stderr} {
			if at := strings.IndexFunc(text, isControl); at >= 0 ||
				strings.ToValidUTF8(text, "") != text {
				t.Errorf("lm %q: exit status %d, output with a control character or invalid "+
					"UTF-8: %q", args, exit, text[max(0, at-40):])
			}
			if strings.Contains("\n"+text, "\nforged") {
				t.Errorf("lm %q: exit status %d, a line of output begins with text of a file: %q",
					args, exit, text)
			}
		}
	}
}

// isControl reports whether r is a control character other than a line feed or a tab.
func isControl(r rune) bool { return r != '\n' && r != '\t' && fbs.IsHidden(r) }

// TestResourceLimitIsNamedInTheError runs lm with few file descriptors or little memory. lm must
// fail with its own exit status and error, not with exit status 2 and an error of the Go runtime.
func TestResourceLimitIsNamedInTheError(t *testing.T) {
	image := testdataPath(t, "images", "edu.lmb")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Children do not inherit the descriptors that this process inherited.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	for limit, want := range map[string]string{"-n 4": "ulimit -n", "-n 5": "ulimit -n",
		"-n 8": "ulimit -n", "-n 12": "ulimit -n", "-v 2000000": "ulimit -v"} {
		c := exec.Command("sh", "-c", "ulimit "+limit+` && exec "$0" "$@"`, self, "replay",
			"--device", "mock:edu", image)
		c.Env = append(os.Environ(), asLMVariable+"=1")
		text, _ := c.CombinedOutput()
		if exit := c.ProcessState.ExitCode(); exit != 74 && exit != 70 ||
			!strings.Contains(string(text), want) {
			t.Errorf("ulimit %s: exit status %d, want 70 or 74 and %q in %.300s", limit, exit, want,
				text)
		}
	}
}

// TestOutputsAreWrittenAfterAllChecksPass makes the golden check, the sequence of --after and the
// opening of a second output fail. In each case no output may change.
func TestOutputsAreWrittenAfterAllChecksPass(t *testing.T) {
	t.Chdir(t.TempDir())
	twoop := testdataPath(t, "images", "wh.twoop.lmb")
	if err := errors.Join(os.WriteFile("a.bin", bytes.Repeat([]byte{7}, 1024), 0o600),
		os.WriteFile("d.bin", []byte("old"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t)
	for line, code := range map[string]int{"--check-golden --input a=a.bin --output d=d.bin": 76,
		"--after none --output d=d.bin": 64, "--output d=d.bin --output d=none/d.bin": 66} {
		exit, _, stderr := lm(t,
			append(append([]string{"replay", "--device", "mock:wormhole"}, strings.Fields(line)...),
				twoop)...)
		if after := snapshot(t); exit != code || after != before {
			t.Errorf("%s: exit status %d, want %d; stderr: %s\nthe folder was\n%s\nand is\n%s",
				line, exit, code, stderr, before, after)
		}
	}
	if exit, _, stderr := lm(t, "replay", "--device", "mock:wormhole", "--input", "a=a.bin",
		"--output", "d=d.bin", twoop); exit != 0 || len(mustRead(t, "d.bin")) != 1024 {
		t.Errorf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
}
