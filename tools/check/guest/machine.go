package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"
	"lightmetal/tools/ship/bootimage/initramfs"
)

const (
	shmSize  = 1 << 20  // bytes of the memory of the ivshmem device
	nvmeSize = 16 << 20 // bytes of the namespace of the NVMe device

	// The kernel accepts a command line of 2048 bytes, including the final zero byte. It passes 32
	// arguments to PID 1, including the program's name.
	commandLineBytesMax = 2047
	initArgsCountMax    = 31

	// kernelOptions is the start of each command line. loglevel=1 prints only panics. panic=-1
	// reboots after a panic, which ends QEMU because of -no-reboot. An emulated processor does not
	// speculate: without the kernel's mitigations of speculation, programs that make many system
	// calls take 10 % less time. Without tests of its ciphers, the kernel boots in a fifth less.
	kernelOptions = "console=ttyAMA0 loglevel=1 panic=-1 kpti=off mitigations=off " +
		"cryptomgr.notests"
)

// machine describes an arm64 machine under QEMU, and the results of its boot.
type machine struct {
	kernel, lmrun   string            // paths on the host
	initProgram     string            // path on the host of PID 1; empty: lminit next to lmrun
	files           map[string][]byte // files of the guest, by absolute path
	args            []string          // arguments of PID 1
	kernelArgs      string            // more arguments of the kernel, starting with a blank
	linuxDrivesNVMe bool              // Linux's own driver controls the NVMe devices
	machineType     string            // machine type of QEMU; empty: virt
	processors      int               // number of processors; 0: two
	qemu            string            // path of QEMU; empty: the installed one
	// The devices that `lm serve` adds to the machine. Each element is a device name and further
	// arguments of `lm serve`. They need QEMU 10.1.
	servedDevices [][]string
	rootPorts     bool     // each served device has its own root port: bus 1, 2, ...
	lmProgram     string   // path on the host of lm, which serves the devices
	moduleDir     string   // directory on the host with the kernel's modules, for vfio: devices
	extraArgs     []string // more arguments of QEMU
	drives        []string // files on the host for /dev/nvme0n1, n2, ...
	serials       []string // files on the host for /dev/ttyS0, ttyS1, ...
	dir           string   // directory for initramfs, ivshmem.bin and nvme.img
	traceFile     string   // file on the host for QEMU's trace of accesses; empty: no trace
	timeout       time.Duration
	stdout        io.Writer // receives lmrun's lines while the machine runs
	servers       []*server // the running servers of servedDevices
	// Called before the boot, with QEMU's arguments for the served devices. It may be nil.
	beforeBoot  func(qemuArgs []string)
	serversErr  error    // error of the servers, set after the boot
	socketPaths []string // sockets of the servers, set after the boot
}

// shmPath returns the path of the file that contains the memory of the ivshmem device.
func (m *machine) shmPath() string { return filepath.Join(m.dir, "ivshmem.bin") }

// boot runs the machine until it powers off, and returns lmrun's exit status. It returns an error
// if lmrun did not end with an exit status.
func (m *machine) boot() (status int, err error) {
	qemuArgs, err := m.prepareBoot()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	// QEMU and the servers must not outlive this process. Pdeathsig kills them when the thread that
	// started them ends, so this thread must not end before the boot does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	servedArgs, servers, stop, err := m.startServers()
	if err != nil {
		return 0, err
	}
	defer stop()
	m.servers = servers
	if m.beforeBoot != nil {
		m.beforeBoot(servedArgs)
	}
	guestConsole := &console{out: m.stdout}
	var stderr bytes.Buffer
	qemu := exec.CommandContext(ctx, cmp.Or(m.qemu, "qemu-system-aarch64"),
		append(qemuArgs, servedArgs...)...)
	qemu.Stdout, qemu.Stderr, qemu.WaitDelay = guestConsole, &stderr, 5*time.Second
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err = m.runQEMU(qemu); err == nil {
		m.serversErr = waitForServers(servers)
		for _, s := range servers {
			m.socketPaths = append(m.socketPaths, s.socket)
		}
	}
	switch status, hasStatus := guestConsole.exitStatus(); {
	case ctx.Err() != nil:
		err = fmt.Errorf("the guest did not power off within %v", m.timeout)
	case err != nil:
		err = fmt.Errorf("qemu-system-aarch64: %w", err)
	case !hasStatus:
		err = errors.New("the guest powered off without a line `lmrun: exit N`")
	default:
		return status, hal.FileFault("standard output", guestConsole.writeErr)
	}
	return 0, fmt.Errorf("%w\n%s%s", err, stderr.String(), guestConsole.lastLines())
}

// prepareBoot writes the files that the machine needs, and returns QEMU's arguments.
func (m *machine) prepareBoot() ([]string, error) {
	kernelLine, err := kernelCommandLine(m.kernelArgs, m.args,
		len(m.drives) == 0 && !m.linuxDrivesNVMe)
	if err != nil {
		return nil, err
	}
	initramfsPath := filepath.Join(m.dir, "initramfs")
	size, err := m.writeInitramfs(initramfsPath)
	if err != nil {
		return nil, err
	}
	nvmePath := filepath.Join(m.dir, "nvme.img")
	var memoryOption string // makes the guest's memory accessible to served devices
	if len(m.servedDevices) > 0 {
		memoryOption = ",memory-backend=ram"
		m.extraArgs = append(m.extraArgs, "-object",
			fmt.Sprintf("memory-backend-memfd,id=ram,share=on,size=%dM", memoryMiB(size)))
	}
	err = errors.Join(writeZeros(m.shmPath(), shmSize), writeZeros(nvmePath, nvmeSize))
	if err != nil {
		return nil, err
	}
	args := []string{
		"-M", cmp.Or(m.machineType, "virt") + memoryOption, "-cpu", "cortex-a72",
		"-smp", strconv.Itoa(cmp.Or(m.processors, 2)), "-m", strconv.Itoa(memoryMiB(size)),
		"-nographic", "-no-reboot", "-nic", "none",
		"-kernel", m.kernel, "-initrd", initramfsPath, "-append", kernelLine,
		// Guest memory begins at 1 GiB, beyond the 28 bits of edu's default mask.
		"-device", "edu,addr=2,dma_mask=0xffffffffffffffff",
		"-object", "memory-backend-file,id=shm,share=on,size=" + strconv.Itoa(shmSize) +
			",mem-path=" + escapeCommas(m.shmPath()),
		"-device", "ivshmem-plain,addr=3,memdev=shm",
	}
	// The kernel probes NVMe controllers in parallel, and numbers them in the order in which it
	// finds them. So that the numbers are always the same, the machine has only one: the one for
	// outputs, or the one that images use. No image that has drives for outputs uses NVMe itself.
	if len(m.drives) == 0 {
		args = append(args,
			"-drive", "if=none,id=nvme,format=raw,file="+escapeCommas(nvmePath),
			"-device", "nvme,addr=4,serial=lightmetal,drive=nvme")
	} else {
		args = append(args, "-device", "nvme,addr=5,id=out,serial=outputs,use-intel-id=on")
	}
	for i, path := range m.drives {
		args = append(args,
			"-drive", fmt.Sprintf("if=none,id=out%d,format=raw,file=%s", i, escapeCommas(path)),
			"-device", fmt.Sprintf("nvme-ns,bus=out,drive=out%d,nsid=%d", i, i+1))
	}
	for i, path := range m.serials {
		args = append(args,
			"-chardev", fmt.Sprintf("file,id=tty%d,path=%s", i, escapeCommas(path)),
			"-device", fmt.Sprintf("pci-serial,addr=%d,chardev=tty%d", 8+i, i))
	}
	args = append(args, m.extraArgs...)
	if m.traceFile != "" {
		for _, event := range m.traceEvents() {
			args = append(args, "-trace", event)
		}
		args = append(args, "-D", m.traceFile)
	}
	return args, nil
}

// traceEvents returns the names of QEMU's trace events for accesses to its own devices, and to
// served devices if the machine has any.
func (m *machine) traceEvents() []string {
	events := []string{"memory_region_ops_read", "memory_region_ops_write"}
	if len(m.servedDevices) > 0 {
		events = append(events, "vfio_region_read", "vfio_region_write")
	}
	return events
}

// programBytesMax is the maximum size of each file that is packed into a guest: a program, an
// image, or a module.
const programBytesMax = 1 << 30

// writeInitramfs writes the initramfs of the machine to a file, and returns its size in bytes.
func (m *machine) writeInitramfs(path string) (size int, err error) {
	content := maps.Clone(m.files)
	programs := map[string]string{"/init": m.initProgram}
	if m.initProgram == "" {
		programs = map[string]string{"/init": lminitPath(m.lmrun), "/lmrun": m.lmrun}
	}
	for guestPath, hostPath := range programs {
		if content[guestPath], err = files.Read(hostPath, programBytesMax); err != nil {
			return 0, err
		}
	}
	// PID 1 needs these directories.
	list := []initramfs.File{{Path: "/dev/"}, {Path: "/proc/"}, {Path: "/sys/"}, {Path: "/tmp/"}}
	for name, data := range content {
		list = append(list, initramfs.File{Path: name, Mode: 0o755, Data: data})
	}
	var archive bytes.Buffer
	if err := initramfs.Pack(&archive, list); err != nil {
		return 0, err
	}
	return archive.Len(), files.Write(path, archive.Bytes(), 0o644, files.OpenToReplace)
}

// lminitPath returns the path of the lminit that starts the given lmrun. It is in the same
// directory, and its file name has "lminit" instead of "lmrun".
func lminitPath(lmrun string) string {
	return filepath.Join(filepath.Dir(lmrun),
		strings.Replace(filepath.Base(lmrun), "lmrun", "lminit", 1))
}

// memoryMiB returns the size of the guest's memory in MiB. The files of an initramfs may take half
// of the memory, and while the kernel unpacks them, the archive is in memory, too.
func memoryMiB(initramfsSize int) int { return 512 + 3*(initramfsSize>>20) }

// kernelCommandLine returns the kernel's command line, which ends with the arguments of PID 1. The
// kernel splits it at blanks and interprets double quotes, but has no escape for a double quote. If
// noNVMeDriver is true, Linux's NVMe driver does not start, so that a replay can use the device.
func kernelCommandLine(kernelArgs string, args []string, noNVMeDriver bool) (string, error) {
	line := kernelOptions + kernelArgs
	if noNVMeDriver {
		line += " initcall_blacklist=nvme_init"
	}
	line += " --"
	for _, arg := range args {
		switch {
		case arg == "" || strings.ContainsAny(arg, "\"\n\r\t"):
			return "", fmt.Errorf("lmrun argument %q is empty, or has a quote, tab or newline; "+
				"a kernel command line cannot contain it", arg)
		case strings.Contains(arg, " "):
			arg = `"` + arg + `"`
		}
		line += " " + arg
	}
	if len(args) > initArgsCountMax || len(line) > commandLineBytesMax {
		return "", fmt.Errorf("lmrun has %d arguments, and the kernel command line %d bytes; "+
			"the limits are %d arguments and %d bytes",
			len(args), len(line), initArgsCountMax, commandLineBytesMax)
	}
	return line, nil
}

// escapeCommas doubles the commas of a path, because a single comma ends a value in QEMU's options.
func escapeCommas(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// writeZeros writes a file that consists of `size` zero bytes. It replaces the contents of an
// existing file.
func writeZeros(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

var (
	// exitLinePattern matches the guest's last line, which contains lmrun's exit status.
	exitLinePattern = regexp.MustCompile(`^lmrun: exit (\d+)$`)
	// kernelLinePattern matches the lines of the kernel's log, which start with a time.
	kernelLinePattern = regexp.MustCompile(`^\[ *\d+\.\d{6}\] `)
)

// console receives the text of the guest's serial port. It copies complete lines to out, except the
// kernel's lines and the line with the exit status. It keeps the whole text.
type console struct {
	out         io.Writer // receives the complete lines
	text        strings.Builder
	partialLine string // start of a line whose end has not arrived yet
	exitNumber  string // number in the line with the exit status; empty: no such line
	writeErr    error  // first error of a write to out
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (int, error) {
	c.text.Write(p)
	c.partialLine += strings.ReplaceAll(string(p), "\r", "")
	for {
		line, afterLine, complete := strings.Cut(c.partialLine, "\n")
		if !complete {
			return len(p), nil
		}
		c.partialLine = afterLine
		if match := exitLinePattern.FindStringSubmatch(line); match != nil {
			c.exitNumber = match[1]
		} else if !kernelLinePattern.MatchString(line) {
			if _, err := fmt.Fprintf(c.out, "%s\n",
				files.EscapeControls([]byte(line))); c.writeErr == nil {
				c.writeErr = err
			}
		}
	}
}

// exitStatus returns the exit status in the line that matched exitLinePattern; ok is false if there
// was no such line.
func (c *console) exitStatus() (status int, ok bool) {
	status, err := strconv.Atoi(c.exitNumber)
	return status, err == nil
}

// lastLines returns the last 40 lines of the console's text, for an error message.
func (c *console) lastLines() string {
	lines := strings.Split(strings.TrimSpace(c.text.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
