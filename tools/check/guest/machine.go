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
	shmSize  = 1 << 20
	nvmeSize = 16 << 20

	// A kernel takes 2048 bytes of command line with the final zero, and hands
	// 32 arguments to process 1, of which its own name is one.
	commandLineMax = 2047
	initArgsMax    = 31
)

// machine is one boot.
type machine struct {
	kernel, lmrun string            // host paths
	init          string            // host path of process 1, empty: the lminit beside lmrun
	files         map[string][]byte // of the guest, by absolute path
	args          []string          // of process 1
	kernelArgs    string            // the kernel's own, with a blank in front
	linuxNvme     bool              // its driver takes the nvme devices
	virt          string            // QEMU's machine, empty: virt
	processors    int               // 0: two
	qemu          string            // QEMU itself, empty: the system's
	// devices that `lm serve` shows to the machine, with further arguments of that; they need
	// QEMU 10.1
	with    [][]string
	ports   bool     // each of those is in a slot of its own: bus 1, 2, ...
	lm      string   // host path of lm, for those
	modules string   // host folder of the kernel's modules, for devices by vfio:
	extra   []string // further arguments of QEMU
	drives  []string // host files that are /dev/nvme0n1, n2, ...
	serials []string // host files behind /dev/ttyS0, ttyS1, ...
	dir     string   // gets initramfs, ivshmem.bin and nvme.img
	trace   string   // host file for QEMU's trace of accesses, empty: none
	timeout time.Duration
	stdout  io.Writer // gets lmrun's lines as they come
	servers []*served // of the devices of with
	// called with QEMU's arguments for those before the boot; may be nil
	onServed func(qemuArgs []string)
	served   error    // how they ended, after a boot
	sockets  []string // of the servers, as they were
}

// shm is the host's side of the ivshmem device's memory.
func (m *machine) shm() string { return filepath.Join(m.dir, "ivshmem.bin") }

// boot runs the machine until it powers off and gives lmrun's exit status. An
// error means that lmrun did not get as far as having one.
func (m *machine) boot() (exit int, err error) {
	qemuArgs, err := m.prepare()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
	defer cancel()
	// QEMU and the servers must not outlive this process. The kernel means the
	// thread that started them, which therefore has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	more, servers, stop, err := m.serve()
	if err != nil {
		return 0, err
	}
	defer stop()
	m.servers = servers
	if m.onServed != nil {
		m.onServed(more)
	}
	out := &console{lines: m.stdout}
	var complaints bytes.Buffer
	qemu := exec.CommandContext(ctx, cmp.Or(m.qemu, "qemu-system-aarch64"),
		append(qemuArgs, more...)...)
	qemu.Stdout, qemu.Stderr, qemu.WaitDelay = out, &complaints, 5*time.Second
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err = m.run(qemu); err == nil {
		m.served = finish(servers)
		for _, s := range servers {
			m.sockets = append(m.sockets, s.socket)
		}
	}
	switch exit, ended := out.exit(); {
	case ctx.Err() != nil:
		err = fmt.Errorf("the guest did not power off within %v", m.timeout)
	case err != nil:
		err = fmt.Errorf("qemu-system-aarch64: %w", err)
	case !ended:
		err = errors.New("the guest powered off without a line `lmrun: exit N`")
	default:
		return exit, hal.FileFault("standard output", out.err)
	}
	return 0, fmt.Errorf("%w\n%s%s", err, complaints.String(), out.tail())
}

// prepare writes the files the machine needs, and gives QEMU's arguments.
func (m *machine) prepare() ([]string, error) {
	line, err := commandLine(m.kernelArgs, m.args, len(m.drives) == 0 && !m.linuxNvme)
	if err != nil {
		return nil, err
	}
	initrd := filepath.Join(m.dir, "initramfs")
	size, err := m.writeInitramfs(initrd)
	if err != nil {
		return nil, err
	}
	nvme := filepath.Join(m.dir, "nvme.img")
	var shared string // memory that a served device reaches
	if len(m.with) > 0 {
		shared = ",memory-backend=ram"
		m.extra = append(m.extra, "-object",
			fmt.Sprintf("memory-backend-memfd,id=ram,share=on,size=%dM", memory(size)))
	}
	if err := errors.Join(writeZeros(m.shm(), shmSize), writeZeros(nvme, nvmeSize)); err != nil {
		return nil, err
	}
	args := []string{
		"-M", cmp.Or(m.virt, "virt") + shared, "-cpu", "cortex-a72",
		"-smp", strconv.Itoa(cmp.Or(m.processors, 2)), "-m", strconv.Itoa(memory(size)),
		"-nographic", "-no-reboot", "-nic", "none",
		"-kernel", m.kernel, "-initrd", initrd, "-append", line,
		// Guest memory begins at 1 GiB, beyond the 28 bits of edu's default mask.
		"-device", "edu,addr=2,dma_mask=0xffffffffffffffff",
		"-object", "memory-backend-file,id=shm,share=on,size=" + strconv.Itoa(shmSize) +
			",mem-path=" + escape(m.shm()),
		"-device", "ivshmem-plain,addr=3,memdev=shm",
	}
	// The kernel numbers controllers as they come, several at once, so that
	// there is one: no image with drives for its outputs is for the other.
	if len(m.drives) == 0 {
		args = append(args, "-drive", "if=none,id=nvme,format=raw,file="+escape(nvme), "-device",
			"nvme,addr=4,serial=lightmetal,drive=nvme")
	} else {
		args = append(args, "-device", "nvme,addr=5,id=out,serial=outputs,use-intel-id=on")
	}
	for i, path := range m.drives {
		args = append(args,
			"-drive", fmt.Sprintf("if=none,id=out%d,format=raw,file=%s", i, escape(path)),
			"-device", fmt.Sprintf("nvme-ns,bus=out,drive=out%d,nsid=%d", i, i+1))
	}
	for i, path := range m.serials {
		args = append(args, "-chardev", fmt.Sprintf("file,id=tty%d,path=%s", i, escape(path)),
			"-device", fmt.Sprintf("pci-serial,addr=%d,chardev=tty%d", 8+i, i))
	}
	args = append(args, m.extra...)
	if m.trace != "" {
		for _, event := range m.traced() {
			args = append(args, "-trace", event)
		}
		args = append(args, "-D", m.trace)
	}
	return args, nil
}

// traced are the events that tell of accesses, to QEMU's devices and to those
// that others serve.
func (m *machine) traced() []string {
	events := []string{"memory_region_ops_read", "memory_region_ops_write"}
	if len(m.with) > 0 {
		events = append(events, "vfio_region_read", "vfio_region_write")
	}
	return events
}

// programMax bounds what is packed into a guest: a program, an image, a module.
const programMax = 1 << 30

func (m *machine) writeInitramfs(path string) (size int, err error) {
	content := maps.Clone(m.files)
	parts := map[string]string{"/init": m.init}
	if m.init == "" {
		parts = map[string]string{"/init": lminit(m.lmrun), "/lmrun": m.lmrun}
	}
	for guest, host := range parts {
		if content[guest], err = files.Read(host, programMax); err != nil {
			return 0, err
		}
	}
	// that process 1 needs
	list := []initramfs.File{{Path: "/dev/"}, {Path: "/proc/"}, {Path: "/sys/"}, {Path: "/tmp/"}}
	for name, data := range content {
		list = append(list, initramfs.File{Path: name, Mode: 0o755, Data: data})
	}
	var archive bytes.Buffer
	if err := initramfs.Pack(&archive, list); err != nil {
		return 0, err
	}
	return archive.Len(), files.Write(path, archive.Bytes(), 0o644, files.Replace)
}

// lminit is the program that starts an lmrun: it lies beside it, and is called as it.
func lminit(lmrun string) string {
	return filepath.Join(filepath.Dir(lmrun),
		strings.Replace(filepath.Base(lmrun), "lmrun", "lminit", 1))
}

// memory is the guest's, in MiB. The files of an initramfs may take half of
// it, and while they are unpacked the archive is there too.
func memory(initramfsSize int) int { return 512 + 3*(initramfsSize>>20) }

// commandLine is the kernel's, with lmrun's arguments at its end. The kernel
// splits at blanks, knows double quotes, and has no escape for them. With
// freeNvme the kernel leaves nvme devices alone, as a replay on one needs it.
func commandLine(kernel string, args []string, freeNvme bool) (string, error) {
	// loglevel=1 leaves panics. panic=-1 and -no-reboot make them end QEMU.
	line := "console=ttyAMA0 loglevel=1 panic=-1" + kernel
	if freeNvme {
		line += " initcall_blacklist=nvme_init"
	}
	line += " --"
	for _, arg := range args {
		switch {
		case arg == "" || strings.ContainsAny(arg, "\"\n\r\t"):
			return "", fmt.Errorf("%q cannot stand on a kernel's command line", arg)
		case strings.Contains(arg, " "):
			arg = `"` + arg + `"`
		}
		line += " " + arg
	}
	if len(args) > initArgsMax || len(line) > commandLineMax {
		return "",
			fmt.Errorf("lmrun's %d arguments make a kernel command line of %d bytes; %d and %d "+
				"are possible",
				len(args), len(line), initArgsMax, commandLineMax)
	}
	return line, nil
}

// escape doubles commas, which end a value in QEMU's options.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// writeZeros makes a file of size zero bytes, whatever was there.
func writeZeros(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

var (
	exitLine   = regexp.MustCompile(`^lmrun: exit (\d+)$`)
	kernelLine = regexp.MustCompile(`^\[ *\d+\.\d{6}\] `)
)

// console takes the guest's serial line. It passes on whole lines that are
// neither the kernel's nor the closing one, and keeps everything.
type console struct {
	lines io.Writer
	text  strings.Builder
	rest  string // of a line that has not ended
	last  string // the closing line's number, if there was one
	err   error  // the first of lines
}

func (c *console) Write(p []byte) (int, error) {
	c.text.Write(p)
	c.rest += strings.ReplaceAll(string(p), "\r", "")
	for {
		line, rest, whole := strings.Cut(c.rest, "\n")
		if !whole {
			return len(p), nil
		}
		c.rest = rest
		if closing := exitLine.FindStringSubmatch(line); closing != nil {
			c.last = closing[1]
		} else if !kernelLine.MatchString(line) {
			if _, err := fmt.Fprintf(c.lines, "%s\n",
				files.EscapeControls([]byte(line))); c.err == nil {
				c.err = err
			}
		}
	}
}

// exit is the status on the closing line.
func (c *console) exit() (status int, ok bool) {
	status, err := strconv.Atoi(c.last)
	return status, err == nil
}

// tail is the end of what the guest said, for a failure.
func (c *console) tail() string {
	lines := strings.Split(strings.TrimSpace(c.text.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
