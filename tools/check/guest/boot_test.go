package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lightmetal/hal"
	newc "lightmetal/tools/ship/bootimage/initramfs"
)

// buildBootImage builds a boot image with tools/ship/bootimage, and returns its directory.
func buildBootImage(t *testing.T, args ...string) string {
	t.Helper()
	kernel, runner := fromEnv(t, "LM_GUEST_KERNEL"), fromEnv(t, "LM_GUEST_LMRUN")
	out := filepath.Join(t.TempDir(), "image")
	program := func(name string) string {
		return goBuild(t, runtime.GOARCH, "lightmetal/tools/"+name)
	}
	program("lmrun") // the verifier runs the lmrun in its own directory
	c := exec.Command(program("ship/bootimage"),
		append([]string{"image", "--lmrun", runner, "--lminit", lminitPath(runner), "--verifier",
			program("lminit"),
			"--kernel", kernel, "--out", out}, args...)...)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("bootimage %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return out
}

// imageBoot is a finished boot of a boot image.
type imageBoot struct {
	*machine
	exit     int
	console  string
	shutdown string // how the machine ended: "reset" or "off"
}

// bootDir boots the unchanged kernel, initramfs and command line in a directory.
func bootDir(t *testing.T, dir string, qemuArgs ...string) imageBoot {
	t.Helper()
	return bootDirWithDrives(t, nil, dir, qemuArgs...)
}

// bootDirWithDrives is like bootDir, for a machine with drives. Their controller is the only NVMe
// controller of the machine.
func bootDirWithDrives(t *testing.T, drives []string, dir string, qemuArgs ...string) imageBoot {
	t.Helper()
	var console bytes.Buffer
	m := machineForDir(t, dir, &console, qemuArgs...)
	m.drives = drives
	exit, err := m.boot()
	if err != nil {
		t.Fatal(err)
	}
	return imageBoot{m, exit, console.String(), shutdownKind(t, m)}
}

// machineForDir returns a machine with the kernel, initramfs and command line in a directory.
func machineForDir(t *testing.T, dir string, console *bytes.Buffer, qemuArgs ...string) *machine {
	t.Helper()
	line, err := os.ReadFile(filepath.Join(dir, "cmdline.txt"))
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{
		kernel: filepath.Join(dir, "Image"), lmrun: fromEnv(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, dir: t.TempDir(), timeout: bootTimeout, stdout: console,
		// QEMU uses the last value of each option. With loglevel=1 and panic=-1, a panic of the
		// kernel is printed and ends QEMU.
		extraArgs: append([]string{"-initrd", filepath.Join(dir, "initramfs.cpio.gz"), "-append",
			strings.TrimSpace(string(line)) + " loglevel=1 panic=-1",
			"-trace", "qemu_system_shutdown_request"}, qemuArgs...),
	}
	m.traceFile = filepath.Join(m.dir, "trace")
	return m
}

// shutdownKind returns how a machine ended: "off" or "reset". QEMU traces an event when the guest
// switches the machine off (ShutdownCause 6). With -no-reboot, it traces none for a reset.
func shutdownKind(t *testing.T, m *machine) string {
	t.Helper()
	trace, err := os.ReadFile(m.traceFile)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(trace, []byte("qemu_system_shutdown_request reason=6")) {
		return "off"
	}
	return "reset"
}

// requireConsole requires an exit status, a kind of shutdown, and all lines of the console, except
// those about a device that lmrun chose. A * matches the rest of a line.
func (b imageBoot) requireConsole(t *testing.T, exit hal.Code, shutdown string, lines ...string) {
	t.Helper()
	got := slices.DeleteFunc(strings.Split(strings.TrimSpace(b.console), "\n"),
		func(line string) bool { return strings.HasPrefix(line, "lmrun: uses -device ") })
	equal := b.exit == exit.ExitStatus() && b.shutdown == shutdown && len(got) == len(lines)
	for i := 0; equal && i < len(lines); i++ {
		prefix, isPrefix := strings.CutSuffix(lines[i], "*")
		equal = got[i] == lines[i] || isPrefix && strings.HasPrefix(got[i], prefix)
	}
	if !equal {
		t.Errorf("exit status %d, want %d; machine %s, want %s; the console:\n%s\nwant\n%s", b.exit,
			exit.ExitStatus(), b.shutdown, shutdown, b.console, strings.Join(lines, "\n"))
	}
}

// writeConfig writes a configuration to a file, and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lmrun.conf")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// failingImage writes an image that computes 12! and fails, because it expects another result.
func failingImage(t *testing.T) string {
	return writeImage(t, eduImage(mainSequence(writeCommand(8, 12),
		pollCommand(0x20, 1, 0, 10_000_000), expectCommand(8, 1))))
}

func TestBootImageReplaysTheCaptureOfEdu(t *testing.T) {
	t.Parallel()
	path, _ := makeImage(t, "import", "--from", "qemu", "--region", "edu-mmio", "--base",
		"0x10000000", "--board", "edu",
		"../../../testdata/captures/edu.qemutrace")
	b := bootDir(t, buildBootImage(t, "--board", "qemu-virt", "--device", "pci:1234:11e8", "--seal",
		path))
	b.requireConsole(t, hal.OK, "off", "lminit: /lmrun.conf: images: 1",
		"lmrun: done: main of /image.lmb*", "lminit: poweroff")
	mustLoad(t, readFile(t, path), edu).requireRun(t, "main", b.qemuTrace(t, edu))
}

func TestBootImageRestartsAndThenReboots(t *testing.T) {
	t.Parallel()
	b := bootDir(t, buildBootImage(t, "--board", "qemu-virt", "--on-failure", "restart 2 reboot",
		failingImage(t)))
	failed := "lmrun: expect failed: main, command 2: *"
	b.requireConsole(t, hal.ExpectFailed, "reset", "lminit: /lmrun.conf: images: 1", failed,
		"lminit: restarting after exit status 76",
		failed, "lminit: restarting after exit status 76", failed, "lminit: reboot")
}

// TestBootImageWithoutAConsoleRestartsAndThenPowersOff boots with a console that the machine does
// not have. Linux then starts PID 1 without open files, so there is no output. QEMU's trace must
// show that the image ran twice and that the machine was switched off. After a panic it would not
// be switched off.
func TestBootImageWithoutAConsoleRestartsAndThenPowersOff(t *testing.T) {
	t.Parallel()
	dir := buildBootImage(t, "--board", "qemu-virt", "--on-failure", "restart 1 poweroff",
		failingImage(t))
	for _, console := range []string{"console=none", "console=ttyS9,115200"} {
		if err := os.WriteFile(filepath.Join(dir, "cmdline.txt"), []byte(console+"\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
		var output bytes.Buffer
		m := machineForDir(t, dir, &output)
		if _, err := m.boot(); err == nil || !strings.Contains(err.Error(), "without a line") ||
			output.Len() != 0 {
			t.Errorf("%s: error %v, output %q; want \"without a line\" and no output", console, err,
				&output)
		}
		stores := 0
		for _, a := range m.qemuTrace(t, edu) {
			if a.store {
				stores++
			}
		}
		if shutdown := shutdownKind(t, m); shutdown != "off" || stores != 2 {
			t.Errorf("%s: machine %s, want off; %d stores, want 2", console, shutdown, stores)
		}
	}
}

// TestBootImageReplaysSeveralImagesUpToAFailure runs a configuration with four images, of which the
// third one fails. The configuration also mounts a file system for an output and reserves huge
// pages.
func TestBootImageReplaysSeveralImagesUpToAFailure(t *testing.T) {
	t.Parallel()
	bad, dir := failingImage(t), t.TempDir()
	factorial, _ := makeImage(t, "asm", "../../../testdata/listings/edu-factorial.lms")
	second := filepath.Join(dir, "second.lmb")
	if err := os.Rename(factorial, second); err != nil {
		t.Fatal(err)
	}
	n := filepath.Join(dir, "n")
	if err := os.WriteFile(n, []byte{6, 0, 0, 0}, 0o644); err != nil {
		t.Fatal(err)
	}
	config := writeConfig(t, "on-success reboot\nhugepages 4\nmount none /out tmpfs\n"+
		"image second.lmb\nsequence compute\ninput n=n\noutput result=/out/result\nloop 2\n"+
		"image second.lmb\nimage /image.lmb\nimage second.lmb\n")
	b := bootDir(t, buildBootImage(t, "--board", "qemu-virt", "--config", config, "--add", n, bad,
		second))
	b.requireConsole(t, hal.ExpectFailed, "off", "lminit: /lmrun.conf: images: 4",
		"lmrun: done: compute of second.lmb, 2 times*", "lmrun: done: main of second.lmb*",
		"lmrun: expect failed: main, command 2: *", "lminit: poweroff")
}

// TestBootImageLoadsModulesAndBindsADriver loads the modules of VFIO, binds vfio-pci to edu, and
// replays an image on edu with the backend vfio.
func TestBootImageLoadsModulesAndBindsADriver(t *testing.T) {
	t.Parallel()
	modules := fromEnv(t, "LM_GUEST_MODULES")
	args, config := []string{"--board", "qemu-virt"}, "on-success reboot\n"
	for _, name := range []string{"vfio.ko", "vfio_virqfd.ko", "vfio_iommu_type1.ko",
		"vfio-pci-core.ko", "vfio-pci.ko"} {
		args = append(args, "--add", filepath.Join(modules, name)+"=/modules/"+name)
		config += "module /modules/" + name + "\n"
	}
	config += "bind vfio-pci 0000:00:02.0\nimage image.lmb\ndevice vfio:0000:00:02.0\nloop 3\n"
	args = append(args, "--config", writeConfig(t, config), writeImage(t, factorialImage()))
	b := bootDir(t, buildBootImage(t, args...), "-M", "virt,iommu=smmuv3,gic-version=3")
	b.requireConsole(t, hal.OK, "reset", "lminit: /lmrun.conf: images: 1",
		"lmrun: done: main of image.lmb, 3 times*", "lminit: reboot")
}

// TestMissingModulesAreNamed boots without the modules of VFIO, and with vfio-pci.ko but without
// the modules that it needs.
func TestMissingModulesAreNamed(t *testing.T) {
	t.Parallel()
	add := filepath.Join(fromEnv(t, "LM_GUEST_MODULES"), "vfio-pci.ko") + "=/modules/vfio-pci.ko"
	const bind = "bind vfio-pci 0000:00:02.0\nimage image.lmb\n"
	for _, test := range []struct {
		config, line string
		exit         hal.Code
	}{
		{bind, "lminit: no such file: /lmrun.conf:1: bind vfio-pci 0000:00:02.0: the kernel " +
			"has no driver vfio-pci; *", hal.NoFile},
		{"module /modules/vfio-pci.ko\n" + bind, "lminit: /lmrun.conf:1: module " +
			"/modules/vfio-pci.ko: the kernel rejects the module: a module that it needs is " +
			"not loaded; *", hal.Internal},
	} {
		dir := buildBootImage(t, "--board", "qemu-virt", "--add", add, "--config",
			writeConfig(t, test.config), writeImage(t, factorialImage()))
		bootDir(t, dir).requireConsole(t, test.exit, "off", "lminit: /lmrun.conf: images: 1",
			test.line, "lminit: poweroff")
	}
}

// TestBadConfigurationIsReportedAndEndsAsConfigured boots with configurations that bootimage would
// reject.
func TestBadConfigurationIsReportedAndEndsAsConfigured(t *testing.T) {
	t.Parallel()
	dir := buildBootImage(t, "--board", "qemu-virt", writeImage(t, factorialImage()))
	for _, test := range []struct{ config, message, action, shutdown string }{
		{"on-failure reboot\n\nfrobnicate 1\nimage /image.lmb\n",
			"lminit: usage: /lmrun.conf:3: frobnicate is unknown, or must follow a line*",
			"lminit: reboot", "reset"},
		{"image /image.lmb\nloop x\n", "lminit: usage: /lmrun.conf:2: -loop takes*",
			"lminit: poweroff", "off"},
	} {
		replaceConfig(t, dir, test.config)
		bootDir(t, dir).requireConsole(t, hal.Usage, test.shutdown, test.message, test.action)
	}
}

// replaceConfig replaces the configuration in the initramfs of a boot image.
func replaceConfig(t *testing.T, dir, config string) {
	t.Helper()
	init, err := os.ReadFile(filepath.Join(dir, "root", "init"))
	if err != nil {
		t.Fatal(err)
	}
	runner, err := os.ReadFile(filepath.Join(dir, "root", "lmrun"))
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(dir, "root", "image.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	var archive, packed bytes.Buffer
	err = errors.Join(newc.Pack(&archive, []newc.File{{Path: "/init", Mode: 0o755, Data: init},
		{Path: "/lmrun", Mode: 0o755, Data: runner},
		{Path: "/image.lmb", Data: image}, {Path: "/lmrun.conf", Data: []byte(config)}}),
		newc.Gzip(&packed, archive.Bytes()),
		os.WriteFile(filepath.Join(dir, "initramfs.cpio.gz"), packed.Bytes(), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// TestFITStartsUnderUBoot boots the FIT image that bootimage builds for boards with U-Boot. It runs
// on U-Boot for QEMU, with the device tree of QEMU's machine.
func TestFITStartsUnderUBoot(t *testing.T) {
	t.Parallel()
	uboot := os.Getenv("LM_GUEST_UBOOT")
	if uboot == "" {
		t.Skip("needs U-Boot for QEMU and mkimage (LM_GUEST_UBOOT is not set); run `./build.sh " +
			"test guest`")
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "board.dtb")
	qemuArgs := []string{"-cpu", "cortex-a72", "-m", "1024", "-nographic", "-no-reboot", "-nic",
		"none", "-bios", uboot}
	dumpTree := append([]string{"-M", "virt,dumpdtb=" + tree}, qemuArgs...)
	if text, err := exec.Command("qemu-system-aarch64", dumpTree...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-system-aarch64 -M virt,dumpdtb=...: %v\n%s", err, text)
	}
	const load, at = "0x44000000", "0x60000000" // RAM of the machine virt starts at 0x40000000
	imageDir := buildBootImage(t, "--board", "imx8mp", "--dtb", tree, "--load", load,
		writeImage(t, factorialImage()))
	qemu := exec.Command("timeout",
		append([]string{"-k", "5", "600", "qemu-system-aarch64", "-M", "virt", "-device",
			"edu,addr=2",
			"-device", "loader,force-raw=on,addr=" + at + ",file=" +
				filepath.Join(imageDir, "image.itb")}, qemuArgs...)...)
	console := answerPrompts(t, qemu, "Hit any key", "\n", "=> ",
		"setenv bootargs console=ttyAMA0 loglevel=1 panic=-1\n", "=> ", "bootm "+at+"\n")
	for _, want := range []string{"Verifying Hash Integrity ... sha256+ OK",
		"lmrun: done: main of /image.lmb", "lmrun: exit 0"} {
		if !strings.Contains(console, want) {
			t.Errorf("the console does not have %q:\n%s", want, console)
		}
	}
}

// answerPrompts runs a program, and writes an answer to it after each expected prompt. It returns
// all text that the program printed. promptsAndAnswers has pairs of a prompt and its answer.
func answerPrompts(t *testing.T, c *exec.Cmd, promptsAndAnswers ...string) string {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	seen, buffer := 0, make([]byte, 4096)
	for {
		n, err := out.Read(buffer)
		all.Write(buffer[:n])
		for len(promptsAndAnswers) > 0 {
			at := strings.Index(all.String()[seen:], promptsAndAnswers[0])
			if at < 0 {
				break
			}
			seen += at + len(promptsAndAnswers[0])
			_, _ = in.Write([]byte(promptsAndAnswers[1]))
			promptsAndAnswers = promptsAndAnswers[2:]
		}
		if err != nil {
			_ = c.Wait()
			return all.String()
		}
	}
}
