package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/boards/hosts"
	"lightmetal/hal"
)

const edu = "../../../testdata/images/edu.lmb"

var (
	// verifierPath is the path of lminit, with which bootimage verifies. lmrun is in its folder.
	verifierPath string
	// packedProgram is the path of a small file that replaces lmrun and lminit in boot images,
	// because packing the programs takes seconds. It is never run.
	packedProgram string
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "bootimage-test-")
	if err == nil {
		verifierPath = filepath.Join(dir, "lminit")
		var text []byte
		if text, err = exec.Command("go", "build", "-o", dir, "lightmetal/tools/lmrun",
			"lightmetal/tools/lminit").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	packedProgram = filepath.Join(dir, "packed")
	if err := os.WriteFile(packedProgram, []byte("a program"), 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	exit := m.Run()
	os.RemoveAll(dir)
	os.Exit(exit)
}

// buildImage builds a boot image in a new folder.
func buildImage(t *testing.T, args ...string) (folder string, err error) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "image")
	return folder, buildImageIn(folder, args...)
}

// buildImageIn builds a boot image in a folder.
func buildImageIn(folder string, args ...string) error {
	return run(append([]string{"image", "--lmrun", packedProgram, "--lminit", packedProgram,
		"--verifier", verifierPath, "--out", folder}, args...), io.Discard)
}

// writeTempFile writes a file to a new folder, and returns its path.
func writeTempFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// readFile returns the text of a file. The parts of its path are joined.
func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryBoardGetsTheFilesOfItsBootLoader(t *testing.T) {
	for _, h := range hosts.All() {
		folder, err := buildImage(t, "--board", h.Name, "--load", "0x40400000", edu)
		if err != nil {
			t.Errorf("%s: %v", h.Name, err)
			continue
		}
		if line := readFile(t, folder, "cmdline.txt"); !strings.Contains(line,
			"console="+h.Console.Value+" ") {
			t.Errorf("%s: command line %q, want console=%s", h.Name, line, h.Console.Value)
		}
		if name := map[hosts.BootFormat]string{hosts.BootFIT: "image.its",
			hosts.BootUEFI: "startup.nsh"}[h.Boot.Value]; name != "" &&
			!strings.Contains(readFile(t, folder, name), initramfsGz) {
			t.Errorf("%s: %s does not name the initramfs", h.Name, name)
		}
		sums := readFile(t, folder, "SHA256SUMS")
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(readFile(t, folder, initramfsGz))),
			initramfsGz); !strings.Contains(sums, want) {
			t.Errorf("%s: SHA256SUMS has no line %q:\n%s", h.Name, want, sums)
		}
	}
}

func TestFlagsBecomeAConfiguration(t *testing.T) {
	folder, err := buildImage(t, "--board", "qemu-virt", "--device", "pci:1234:11e8", "--loop", "3",
		"--longest", "2h", "--seal", "--on-failure", "restart 3 reboot", edu)
	want := "on-failure restart 3 reboot\n\nimage /edu.lmb\ndevice pci:1234:11e8\nloop 3\n" +
		"longest 2h\nseal\n"
	got := readFile(t, folder, rootFolder, configName)
	if err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("error %v; configuration %q, want the end %q", err, got, want)
	}
}

func TestInvalidBootImageIsRejected(t *testing.T) {
	truncated := writeTempFile(t, "cut.lmb", readFile(t, edu)[:500])
	writeConfig := func(text string) string { return writeTempFile(t, "c.conf", text) }
	for _, test := range []struct {
		exit int
		want string
		args []string
	}{
		{64, "no board \"pc\"", []string{"--board", "pc", edu}},
		{64, "the image is missing", []string{"--board", "rpi5"}},
		{65, "bad image", []string{"--board", "rpi5", truncated}},
		{64, "lmrun.conf:4: -loop takes", []string{"--board", "rpi5", "--loop", "0", edu}},
		{64, "must have only one line", []string{"--board", "rpi5", "--device", "x\ny", edu}},
		{64, "into the configuration", []string{"--board", "rpi5", "--config",
			writeConfig("image edu.lmb"), "--seal", edu}},
		{64, "lmrun.conf:1: frob is unknown, or must follow a line `image PATH`",
			[]string{"--board", "rpi5", "--config", writeConfig("frob\nimage edu.lmb\n"), edu}},
		{65, "lmrun.conf:2: the file /none.lmb is neither in the boot image",
			[]string{"--board", "rpi5", "--config",
				writeConfig("image edu.lmb\nimage none.lmb\n"), edu}},
		{65, "lmrun.conf:1: the file /vfio.ko is neither in the boot image",
			[]string{"--board", "rpi5", "--config",
				writeConfig("module vfio.ko mode=1\nimage edu.lmb\n"), edu}},
		{65, "the configuration has no line",
			[]string{"--board", "rpi5", "--config", writeConfig("image x.lmb\n"), "--add",
				edu + "=/x.lmb", edu}},
		{65, "the path /edu.lmb occurs twice", []string{"--board", "rpi5", "--add", edu, edu}},
		{65, "must be an absolute path", []string{"--board", "rpi5", "--add", edu + "=x", edu}},
		{66, "no such file", []string{"--board", "rpi5", "none.lmb"}},
		{64, "--load is missing", []string{"--board", "s32g3", edu}},
	} {
		if _, err := buildImage(t, test.args...); err == nil ||
			!strings.Contains(err.Error(), test.want) || exitStatus(err) != test.exit {
			t.Errorf("%q: error %v, exit status %d, want %q, %d", test.args, err, exitStatus(err),
				test.want, test.exit)
		}
	}
}

func TestConfigurationMayLoadPackedModules(t *testing.T) {
	module := writeTempFile(t, "vfio.ko", "a kernel module")
	config := writeTempFile(t, "c.conf", "module /vfio.ko mode=1\nimage /edu.lmb\n")
	if _, err := buildImage(t, "--board", "rpi5", "--config", config, "--add", module+"=/vfio.ko",
		edu); err != nil {
		t.Error(err)
	}
}

func TestImageOnAMountedFileSystemIsAccepted(t *testing.T) {
	config := "mount /dev/mmcblk0p3 /data ext4 ro\nimage /data/model.lmb\nkey /data/key.pub\n" +
		"loop %s\nimage /edu.lmb\n"
	if _, err := buildImage(t, "--board", "rpi5", "--config",
		writeTempFile(t, "c.conf", fmt.Sprintf(config, "7")), edu); err != nil {
		t.Error(err)
	}
	if _, err := buildImage(t, "--board", "rpi5", "--config",
		writeTempFile(t, "c.conf", fmt.Sprintf(config, "x")), edu); err == nil ||
		!strings.Contains(err.Error(), "conf:4: -loop") {
		t.Errorf("loop x: error %v, want \"conf:4: -loop\"", err)
	}
}

func TestForeignFolderIsNotReplaced(t *testing.T) {
	folder := filepath.Dir(writeTempFile(t, "precious", "x"))
	err := buildImageIn(folder, "--board", "rpi5", edu)
	if err == nil || readFile(t, folder, "precious") != "x" {
		t.Errorf("the folder was replaced, or error %v; want an error", err)
	}
	for range 2 { // a folder that bootimage has made is replaced
		if err := buildImageIn(folder+"/image", "--board", "rpi5", edu); err != nil {
			t.Error(err)
		}
	}
}

func TestTimeOfSBOMComesFromTheEnvironment(t *testing.T) {
	var out bytes.Buffer
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	if err := run([]string{"sbom", verifierPath}, &out); err != nil ||
		!strings.Contains(out.String(), `"created": "1970-01-02T00:00:00Z"`) {
		t.Errorf("error %v; the SBOM is\n%s", err, out.String()[:300])
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run([]string{"sbom", verifierPath}, &out); err == nil {
		t.Error("SOURCE_DATE_EPOCH=yesterday: no error")
	}
}

func TestMissingCommandIsAUsageError(t *testing.T) {
	if err := run(nil, io.Discard); !errors.Is(err, hal.Usage) {
		t.Errorf("no command: error %v, want %v", err, hal.Usage)
	}
	var out bytes.Buffer
	if err := run([]string{"boards"}, &out); err != nil ||
		strings.Count(out.String(), "\n") != len(hosts.All()) {
		t.Errorf("boards: error %v, output %q, want %d lines", err, out.String(), len(hosts.All()))
	}
}

// kernelHeader is the part of an arm64 kernel that bootimage checks.
var kernelHeader = strings.Repeat("\x00", 56) + "ARM\x64" + strings.Repeat("\x00", 64)

const twoop = "../../../testdata/images/wh.twoop.lmb"

func TestInputsThatTheBoardCannotUseAreRejected(t *testing.T) {
	short := writeTempFile(t, "a.bin", "short")
	right := writeTempFile(t, "a.bin", strings.Repeat("x", 1024))
	for _, test := range []struct {
		want string
		args []string
	}{
		{"is not an arm64 kernel", []string{"--board", "qemu-virt", "--kernel", edu, edu}},
		{"is not an arm64 kernel", []string{"--board", "qemu-virt", "--kernel", writeTempFile(t,
			"empty", ""),
			edu}},
		{"gunzip", []string{"--board", "qemu-virt", "--kernel",
			writeTempFile(t, "Image.gz", "\x1f\x8b\x08"), edu}},
		{"is not a compiled device tree", []string{"--board", "s32g3", "--load", "0x40400000",
			"--kernel",
			writeTempFile(t, "Image", kernelHeader), "--dtb", edu, edu}},
		{"is larger than the limit of 67108864 bytes",
			[]string{"--board", "qemu-virt", "--kernel", "/dev/zero", edu}},
		{"has 5 bytes, but input a needs 1024", []string{"--board", "qemu-virt", "--add",
			short + "=/a.bin", "--input", "a=/a.bin", twoop}},
		{"lmrun.conf:2: /a.bin has 5 bytes", []string{"--board", "qemu-virt", "--add",
			short + "=/a.bin", "--config",
			writeTempFile(t, "c", "image wh.twoop.lmb\ninput a=/a.bin\n"), twoop}},
		{"no port with room for the BARs of wormhole",
			[]string{"--board", "imx8mp", "--load", "0x40400000", twoop}},
	} {
		if folder, err := buildImage(t, test.args...); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want %q", test.args, err, test.want)
		} else if remaining, _ := os.ReadDir(filepath.Dir(folder)); len(remaining) > 0 {
			t.Errorf("%q: %v remains after the error", test.args, remaining[0])
		}
	}
	for _, args := range [][]string{
		{"--board", "qemu-virt", "--add", right + "=/a.bin", "--input", "a=/a.bin", twoop},
		{"--board", "qemu-virt", "--kernel", writeTempFile(t, "Image", kernelHeader), edu}} {
		if _, err := buildImage(t, args...); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestFailedBuildKeepsThePreviousImage makes a build fail whose output folder has a boot image.
// Then it builds an image there from parts of the previous one.
func TestFailedBuildKeepsThePreviousImage(t *testing.T) {
	folder, err := buildImage(t, "--board", "qemu-virt", edu)
	if err != nil {
		t.Fatal(err)
	}
	sums := readFile(t, folder, "SHA256SUMS")
	again := func(args ...string) error {
		return buildImageIn(folder, append([]string{"--board", "qemu-virt"}, args...)...)
	}
	if err := again("--kernel", edu, edu); err == nil || readFile(t, folder, "SHA256SUMS") != sums {
		t.Errorf("error %v, want one; SHA256SUMS was\n%s\nand is\n%s", err, sums,
			readFile(t, folder, "SHA256SUMS"))
	}
	if err := again("--seal", folder+"/root/edu.lmb"); err != nil ||
		!strings.Contains(readFile(t, folder, rootFolder, configName), "seal") {
		t.Error(err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder has mode %v, want 0755; error %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(folder)); len(entries) != 1 {
		t.Errorf("the folder's parent has %v, want only the folder", entries)
	}
}

func TestInputsInTheFolderOfTheResultAreRejected(t *testing.T) {
	folder, err := buildImage(t, "--board", "qemu-virt", edu)
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(folder, "mine.lmb")
	data, err := os.ReadFile(edu)
	if err == nil {
		err = os.WriteFile(image, data, 0o644)
	}
	link := filepath.Join(t.TempDir(), "link.lmb")
	if err = errors.Join(err, os.Symlink(image, link)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{image}, {link}, {"--add", image + "=/x", edu}, {"--kernel", image, edu},
		{"--config", image, edu}, {"--add", filepath.Join(folder, "root", "edu.lmb") + "=/x", edu},
	} {
		err := buildImageIn(folder, append([]string{"--board", "qemu-virt"}, args...)...)
		if exitStatus(err) != 64 ||
			!strings.Contains(fmt.Sprint(err), "is in the directory of --out") {
			t.Errorf("%v: error %v, want exit status 64 with \"is in the directory of --out\"",
				args, err)
		}
		if _, err := os.Stat(image); err != nil {
			t.Fatalf("%v: the input was removed: %v", args, err)
		}
	}
}
