package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	newc "lightmetal/tools/ship/bootimage/initramfs"
)

// buildBootImage builds a boot image in $dir/image with tools/ship/bootimage.
func (h *hostRun) buildBootImage(args []string) error {
	kernel, runner := fromEnv(h.t, "LM_GUEST_KERNEL"), fromEnv(h.t, "LM_GUEST_LMRUN")
	program := func(name string) string {
		return goBuild(h.t, runtime.GOARCH, "lightmetal/tools/"+name)
	}
	program("lmrun") // the verifier runs the lmrun in its own directory
	return h.run("0", "", program("ship/bootimage"), append([]string{"image", "--lmrun", runner,
		"--lminit", lminitPath(runner), "--verifier", program("lminit"), "--kernel", kernel,
		"--out", filepath.Join(h.dir, "image")}, args...)...)
}

// addDrives adds drives to the next boot. Their controller is then the only NVMe controller.
func (h *hostRun) addDrives(args []string) error {
	count, err := strconv.Atoi(args[0])
	for i := range count {
		h.drives = append(h.drives, filepath.Join(h.dir, fmt.Sprint("drive", i)))
		err = errors.Join(err, writeZeros(h.drives[i], 4096))
	}
	return err
}

// bootImage boots the unchanged kernel, initramfs and command line of the boot image. It requires
// an exit status, how the machine ended, and all lines of the console, except those about a device
// that lmrun chose. A * matches the rest of a line. A machine without a console has the status
// none.
func (h *hostRun) bootImage(args []string) error {
	line := readFile(h.t, filepath.Join(h.dir, "image/cmdline.txt"))
	// QEMU uses the last value of each option. With loglevel=1 and panic=-1, a panic of the kernel
	// is printed and ends QEMU.
	m := &machine{
		kernel: filepath.Join(h.dir, "image/Image"), lmrun: fromEnv(h.t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, dir: h.dir, drives: h.drives,
		traceFile: filepath.Join(h.dir, "trace"),
		extraArgs: append([]string{"-initrd", filepath.Join(h.dir, "image/initramfs.cpio.gz"),
			"-append", strings.TrimSpace(string(line)) + " loglevel=1 panic=-1",
			"-trace", "qemu_system_shutdown_request"}, h.qemuArgs...),
	}
	exit, err := h.bootMachine(m)
	status := fmt.Sprint(exit)
	if err != nil && strings.Contains(err.Error(), "without a line") {
		status, err = "none", nil
	}
	if err != nil {
		return err
	}
	// QEMU traces an event when the guest switches the machine off (ShutdownCause 6). With
	// -no-reboot, it traces none for a reset.
	shutdown := "reset"
	if bytes.Contains(readFile(h.t, m.traceFile), []byte("qemu_system_shutdown_request reason=6")) {
		shutdown = "off"
	}
	got := slices.DeleteFunc(strings.Split(strings.TrimSpace(h.output), "\n"),
		func(line string) bool { return strings.HasPrefix(line, "lmrun: uses -device ") })
	equal := slices.EqualFunc(got, args[2:], func(line, want string) bool {
		prefix, isPrefix := strings.CutSuffix(want, "*")
		return line == want || isPrefix && strings.HasPrefix(line, prefix)
	})
	if status != args[0] || shutdown != args[1] || !equal {
		return fmt.Errorf("exit status %s, machine %s; the console:\n%s", status, shutdown,
			h.output)
	}
	return nil
}

// replaceConfig replaces the configuration in the initramfs of the boot image.
func (h *hostRun) replaceConfig(args []string) error {
	root := filepath.Join(h.dir, "image/root")
	list := []newc.File{{Path: "/lmrun.conf", Data: []byte(args[0])}}
	images, _ := filepath.Glob(root + "/*.lmb") // the pattern is valid
	for _, path := range append(images, root+"/init", root+"/lmrun") {
		list = append(list, newc.File{Path: "/" + filepath.Base(path), Mode: 0o755,
			Data: readFile(h.t, path)})
	}
	var archive, packed bytes.Buffer
	return errors.Join(newc.Pack(&archive, list), newc.Gzip(&packed, archive.Bytes()),
		os.WriteFile(filepath.Join(h.dir, "image/initramfs.cpio.gz"), packed.Bytes(), 0o644))
}

// TestFITStartsUnderUBoot boots the FIT image that bootimage builds for boards with U-Boot. It
// runs on U-Boot for QEMU, with the device tree of QEMU's machine.
func TestFITStartsUnderUBoot(t *testing.T) {
	t.Parallel()
	uboot := os.Getenv("LM_GUEST_UBOOT")
	if uboot == "" {
		t.Skip("needs U-Boot for QEMU and mkimage (LM_GUEST_UBOOT is not set); run `./build.sh " +
			"test guest`")
	}
	tree := filepath.Join(t.TempDir(), "board.dtb")
	qemuArgs := []string{"-cpu", "cortex-a72", "-m", "1024", "-nographic", "-no-reboot", "-nic",
		"none", "-bios", uboot}
	dumpTree := append([]string{"-M", "virt,dumpdtb=" + tree}, qemuArgs...)
	if text, err := exec.Command("qemu-system-aarch64", dumpTree...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-system-aarch64 -M virt,dumpdtb=...: %v\n%s", err, text)
	}
	const load, at = "0x44000000", "0x60000000" // RAM of the machine virt starts at 0x40000000
	h := newHostRun(t, nil, "")
	if err := h.buildBootImage(append([]string{"--board", "imx8mp", "--dtb", tree, "--load", load},
		h.expand([]string{"$dir/images/identified.lmb"})...)); err != nil {
		t.Fatal(err)
	}
	qemu := exec.Command("timeout",
		append([]string{"-k", "5", "600", "qemu-system-aarch64", "-M", "virt", "-device",
			"edu,addr=2",
			"-device", "loader,force-raw=on,addr=" + at + ",file=" +
				filepath.Join(h.dir, "image/image.itb")}, qemuArgs...)...)
	console := answerPrompts(t, qemu, "Hit any key", "\n", "=> ",
		"setenv bootargs console=ttyAMA0 loglevel=1 panic=-1\n", "=> ", "bootm "+at+"\n")
	for _, want := range []string{"Verifying Hash Integrity ... sha256+ OK",
		"lmrun: done: main of /identified.lmb", "lmrun: exit 0"} {
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
