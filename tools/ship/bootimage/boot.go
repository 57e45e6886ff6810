package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"lightmetal/boards/hosts"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"
)

// commandLine is the kernel's. After a panic it resets, since nobody reads it.
func (r *request) commandLine() string {
	line := "panic=10"
	if r.board.Console.Known() {
		line = "console=" + r.board.Console.Value + " " + line
	}
	return strings.TrimSpace(line + " " + r.append)
}

// writeBoot writes what the board's boot loader reads beside the initramfs.
func (r *request) writeBoot() {
	for name, host := range map[string]string{"Image": r.kernel, "board.dtb": r.dtb} {
		if host == "" {
			continue
		}
		data := fail.Must(files.Read(host, fileMax))
		if reason := r.strange(name, data); reason != "" {
			fail.On(fmt.Errorf("%s %s", host, reason))
		}
		r.write(name, data, 0o644)
	}
	r.write("cmdline.txt", []byte(r.commandLine()+"\n"), 0o644)
	switch r.board.Boot.Value {
	case hosts.FIT:
		r.writeFIT()
	case hosts.UEFI:
		// Run by the UEFI shell where nothing else boots (UEFI Shell 2.2, 3.3).
		// The kernel's EFI stub takes initrd= (Linux, Documentation/admin-guide/efi-stub.rst).
		r.write("startup.nsh", []byte("Image "+r.commandLine()+" initrd=\\"+initramfsGz+"\r\n"),
			0o644)
	default:
		if strings.HasPrefix(r.board.DeviceTree.Value, "broadcom/") {
			// The firmware's own configuration, for its first partition
			// (raspberrypi/documentation, computers/config_txt/boot.adoc).
			r.write("config.txt", []byte("arm_64bit=1\nkernel=Image\ninitramfs "+initramfsGz+
				" followkernel\n"), 0o644)
		}
	}
}

// strange says why a file is no kernel, or no device tree, that the board boots.
func (r *request) strange(name string, data []byte) string {
	at := func(offset int, magic string) bool {
		return len(data) >= offset+len(magic) && string(data[offset:offset+len(magic)]) == magic
	}
	switch {
	case name == "board.dtb" && !at(0, "\xd0\x0d\xfe\xed"): // Devicetree Specification 0.4, 5.2
		return "is not a device tree (.dtb)"
	case name != "Image":
	case at(0, "\x1f\x8b"):
		return "is a kernel with gzip; use gunzip to get the Image"
	// Linux, drivers/firmware/efi/libstub/zboot-header.S
	case at(4, "zimg") && r.board.Boot.Value == hosts.UEFI:
	case !at(56, "ARM\x64"): // Linux, Documentation/arch/arm64/booting.rst
		return "is not an arm64 kernel Image"
	}
	return ""
}

// fit is a flattened image tree (U-Boot, doc/usage/fit/source_file_format.rst):
// kernel, device tree and initramfs in one file, each with its digest.
//
//go:embed image.its
var fit string

// writeFIT writes the source of the tree, and the tree where kernel and device
// tree are given. U-Boot passes its variable bootargs to the kernel.
func (r *request) writeFIT() {
	load := r.load
	if load == "" && r.board.LoadAddress.Known() {
		load = fmt.Sprintf("%#x", r.board.LoadAddress.Value)
	}
	if load == "" {
		fail.With(hal.Usage, "--load is needed: the load address of the kernel on %s is not known",
			r.board.Name)
	}
	if _, err := strconv.ParseUint(load, 0, 32); err != nil {
		fail.With(hal.Usage,
			"--load must be a number below 2^32, such as 0x80080000 (U-Boot prints it with "+
				"printenv kernel_addr_r), not %q", load)
	}
	r.write("image.its", fmt.Appendf(nil, fit, r.board.Title, load, r.board.DeviceTree.Value),
		0o644)
	if r.kernel == "" || r.dtb == "" {
		return
	}
	mkimage := exec.Command("mkimage", "-f", "image.its", "image.itb")
	mkimage.Dir, mkimage.Env = r.dir, append(os.Environ(),
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", sourceDate().Unix()))
	if text, err := mkimage.CombinedOutput(); err != nil {
		fail.On(fmt.Errorf("mkimage of u-boot-tools: %v\n%s", err, text))
	}
	fail.On(os.Chmod(filepath.Join(r.dir, "image.itb"), 0o644))
}
