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

// kernelCommandLine returns the command line of the kernel. After a panic the kernel resets the
// board, because no one reads its messages.
func (r *request) kernelCommandLine() string {
	line := "panic=10"
	if r.board.Console.IsKnown() {
		line = "console=" + r.board.Console.Value + " " + line
	}
	return strings.TrimSpace(line + " " + r.kernelArguments)
}

// writeBootFiles writes the files that the board's boot loader reads, except the initramfs.
func (r *request) writeBootFiles() {
	for name, host := range map[string]string{"Image": r.kernel, "board.dtb": r.dtb} {
		if host == "" {
			continue
		}
		data := fail.Must(files.Read(host, fileMax))
		if reason := r.unusableReason(name, data); reason != "" {
			fail.On(fmt.Errorf("%s %s", host, reason))
		}
		r.writeFile(name, data, 0o644)
	}
	r.writeFile("cmdline.txt", []byte(r.kernelCommandLine()+"\n"), 0o644)
	switch r.board.Boot.Value {
	case hosts.BootFIT:
		r.writeFIT()
	case hosts.BootUEFI:
		// The UEFI shell runs this script if nothing else boots (UEFI Shell 2.2, 3.3). The kernel's
		// EFI stub accepts initrd= (Linux, Documentation/admin-guide/efi-stub.rst).
		r.writeFile("startup.nsh",
			[]byte("Image "+r.kernelCommandLine()+" initrd=\\"+initramfsGz+"\r\n"),
			0o644)
	default:
		if strings.HasPrefix(r.board.DeviceTree.Value, "broadcom/") {
			// Configuration of the board's firmware, for its first partition
			// (raspberrypi/documentation, computers/config_txt/boot.adoc).
			r.writeFile("config.txt", []byte("arm_64bit=1\nkernel=Image\ninitramfs "+initramfsGz+
				" followkernel\n"), 0o644)
		}
	}
}

// unusableReason returns why the board cannot boot with a file: it is not a kernel, or not a device
// tree. It returns an empty string if the file is usable.
func (r *request) unusableReason(name string, data []byte) string {
	at := func(offset int, magic string) bool {
		return len(data) >= offset+len(magic) && string(data[offset:offset+len(magic)]) == magic
	}
	switch {
	case name == "board.dtb" && !at(0, "\xd0\x0d\xfe\xed"): // Devicetree Specification 0.4, 5.2
		return "is not a compiled device tree (.dtb)"
	case name != "Image":
	case at(0, "\x1f\x8b"):
		return "is a kernel compressed with gzip; decompress the kernel with gunzip"
	// Linux, drivers/firmware/efi/libstub/zboot-header.S
	case at(4, "zimg") && r.board.Boot.Value == hosts.BootUEFI:
	case !at(56, "ARM\x64"): // Linux, Documentation/arch/arm64/booting.rst
		return "is not an arm64 kernel Image"
	}
	return ""
}

// fitSource is the template of the source of a flattened image tree (U-Boot,
// doc/usage/fit/source_file_format.rst): kernel, device tree and initramfs in one file, each with
// its digest.
//
//go:embed image.its
var fitSource string

// writeFIT writes the source of the flattened image tree and, if kernel and device tree are given,
// the tree. U-Boot passes its variable bootargs to the kernel.
func (r *request) writeFIT() {
	load := r.loadAddress
	if load == "" && r.board.LoadAddress.IsKnown() {
		load = fmt.Sprintf("%#x", r.board.LoadAddress.Value)
	}
	if load == "" {
		fail.With(hal.Usage, "--load is missing: the load address of the kernel on %s is unknown; "+
			"in U-Boot, printenv kernel_addr_r prints the address", r.board.Name)
	}
	if _, err := strconv.ParseUint(load, 0, 32); err != nil {
		fail.With(hal.Usage,
			"--load must be a number below 2^32, such as 0x80080000, not %q; "+
				"in U-Boot, printenv kernel_addr_r prints the address", load)
	}
	r.writeFile("image.its",
		fmt.Appendf(nil, fitSource, r.board.Title, load, r.board.DeviceTree.Value),
		0o644)
	if r.kernel == "" || r.dtb == "" {
		return
	}
	mkimage := exec.Command("mkimage", "-f", "image.its", "image.itb")
	mkimage.Dir, mkimage.Env = r.tempDir, append(os.Environ(),
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", sourceDate().Unix()))
	if text, err := mkimage.CombinedOutput(); err != nil {
		fail.On(fmt.Errorf("mkimage (package u-boot-tools) failed: %v\n%s", err, text))
	}
	fail.On(os.Chmod(filepath.Join(r.tempDir, "image.itb"), 0o644))
}
