package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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
)

const (
	// flashSize is the size of each of the two flashes of QEMU's virt machine: QEMU accepts files
	// of exactly this size (hw/arm/virt.c, base_memmap).
	flashSize = 64 << 20

	// flashDataAlignment is the alignment, in bytes, of the data of entries in flash 1.
	flashDataAlignment = 4096

	// bareMemoryMiB is the size, in MiB, of the RAM of a machine without an operating system. QEMU
	// moves the address window for large BARs only if the RAM is much larger.
	bareMemoryMiB = 256
)

// flashKind is the kind of an entry of flash 1. testdata/firmware/bare/flash.h has the same
// numbers.
type flashKind uint32

const (
	flashKindImage  flashKind = 1 + iota // the image
	flashKindInput                       // data of an input, by its name
	flashKindRun                         // the name of a sequence to run
	flashKindDump                        // print all bytes of outputs
	flashKindBudget                      // run in slices with the budget in the data
)

// flashEntry is an entry of flash 1.
type flashEntry struct {
	kind flashKind
	name string // name of an input or a sequence; otherwise empty
	data []byte // image, data of an input, or budget; otherwise empty
}

// encodeFlash returns the contents of flash 1, as testdata/firmware/bare/flash.h describes them.
func encodeFlash(entries []flashEntry) ([]byte, error) {
	const headerBytes, entryBytes = 16, 24
	flash := append([]byte("LMFLASH1"), make([]byte, 8+entryBytes*len(entries))...)
	binary.LittleEndian.PutUint32(flash[8:], uint32(len(entries)))
	for i, e := range entries {
		nameOffset := len(flash)
		flash = append(flash, e.name...)
		padding := (flashDataAlignment - len(flash)%flashDataAlignment) % flashDataAlignment
		dataOffset := len(flash)
		if len(e.data) > 0 {
			flash = append(flash, make([]byte, padding)...)
			dataOffset = len(flash)
			flash = append(flash, e.data...)
		}
		entry := flash[headerBytes+i*entryBytes:]
		for field, n := range []int{int(e.kind), nameOffset, len(e.name), dataOffset,
			len(e.data)} {
			binary.LittleEndian.PutUint32(entry[4*field:], uint32(n))
		}
	}
	if len(flash) > flashSize {
		return nil, fmt.Errorf("image and inputs have %d bytes; flash 1 has %d", len(flash),
			flashSize)
	}
	return flash, nil
}

// bareMachine is a machine without an operating system: the firmware of testdata/firmware/bare is
// in flash 0, and the image is in flash 1. It uses only those fields of the embedded machine that
// are about QEMU and served devices.
type bareMachine struct {
	*machine
	firmwarePath string // path of the firmware on the host
	entries      []flashEntry
	consoleText  string // all text that the firmware has printed, set after the boot
}

// boot runs the machine until the firmware ends it, and returns the firmware's exit status. The
// firmware passes the exit status to QEMU through semihosting.
func (b *bareMachine) boot() (status int, err error) {
	args, err := b.prepareBoot()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	// The kernel kills QEMU and the servers if the thread that started them ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	servedArgs, servers, stop, err := b.startServers()
	if err != nil {
		return 0, err
	}
	defer stop()
	for _, s := range servers {
		b.socketPaths = append(b.socketPaths, s.socket)
	}
	guestConsole := &console{out: b.stdout}
	var stderr bytes.Buffer
	qemu := exec.CommandContext(ctx, cmp.Or(b.qemu, "qemu-system-aarch64"),
		append(args, servedArgs...)...)
	qemu.Stdout, qemu.Stderr, qemu.WaitDelay = guestConsole, &stderr, 5*time.Second
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = qemu.Run()
	b.consoleText = guestConsole.text.String()
	var exitError *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("the firmware did not end within %v\n%s", b.timeout,
			guestConsole.lastLines())
	case err != nil && !errors.As(err, &exitError):
		return 0, fmt.Errorf("qemu-system-aarch64: %w", err)
	}
	status = qemu.ProcessState.ExitCode()
	// QEMU itself ends with status 1 if it cannot start, or ends after an error.
	if wantLine := fmt.Sprintf("exit %d", status); guestConsole.lastLine() != wantLine {
		return 0, fmt.Errorf("QEMU ended with status %d, and the firmware did not print %q\n%s%s",
			status, wantLine, stderr.String(), guestConsole.lastLines())
	}
	b.serversErr = waitForServers(servers)
	return status, hal.FileFault("standard output", guestConsole.writeErr)
}

// lastLine returns the last line of the console.
func (c *console) lastLine() string {
	lines := strings.Split(strings.TrimSpace(c.text.String()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// prepareBoot writes the files of the machine, and returns QEMU's arguments.
func (b *bareMachine) prepareBoot() ([]string, error) {
	firmware, err := files.Read(b.firmwarePath, flashSize)
	if err != nil {
		return nil, err
	}
	data, err := encodeFlash(b.entries)
	if err != nil {
		return nil, err
	}
	flash0, flash1 := filepath.Join(b.dir, "flash0.img"), filepath.Join(b.dir, "flash1.img")
	nvmePath := filepath.Join(b.dir, "nvme.img")
	err = errors.Join(writeFlash(flash0, firmware), writeFlash(flash1, data),
		writeZeros(b.shmPath(), shmSize), writeZeros(nvmePath, nvmeSize))
	if err != nil {
		return nil, err
	}
	machineType := "virt"
	if len(b.servedDevices) > 0 { // make the memory accessible to served devices
		machineType += ",memory-backend=ram"
		b.extraArgs = append(b.extraArgs, "-object",
			fmt.Sprintf("memory-backend-memfd,id=ram,share=on,size=%dM", bareMemoryMiB))
	}
	args := []string{
		"-M", machineType, "-cpu", "cortex-a72", "-smp", "1", "-m", strconv.Itoa(bareMemoryMiB),
		"-nographic", "-no-reboot", "-nic", "none",
		// The clock counts instructions: each takes one nanosecond.
		"-icount", "shift=0,sleep=off",
		"-semihosting-config", "enable=on,target=native",
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=" + escapeCommas(flash0),
		"-drive", "if=pflash,unit=1,format=raw,readonly=on,file=" + escapeCommas(flash1),
		// Memory begins at 1 GiB, beyond the 28 bits of edu's default mask.
		"-device", "edu,addr=2,dma_mask=0xffffffffffffffff",
		"-object", "memory-backend-file,id=shm,share=on,size=" + strconv.Itoa(shmSize) +
			",mem-path=" + escapeCommas(b.shmPath()),
		"-device", "ivshmem-plain,addr=3,memdev=shm",
		"-drive", "if=none,id=nvme,format=raw,file=" + escapeCommas(nvmePath),
		"-device", "nvme,addr=4,serial=lightmetal,drive=nvme",
	}
	args = append(args, b.extraArgs...)
	if b.traceFile != "" {
		for _, event := range b.traceEvents() {
			args = append(args, "-trace", event)
		}
		args = append(args, "-D", b.traceFile)
	}
	return args, nil
}

// writeFlash writes the file of a flash: first the data, then zeros up to flashSize.
func writeFlash(path string, data []byte) error {
	return errors.Join(files.Write(path, data, 0o644, files.OpenToReplace),
		os.Truncate(path, flashSize))
}

// runBare executes the command `guest bare` with the given arguments: it replays one image on a
// machine without an operating system, and returns the firmware's exit status.
func runBare(args []string, b *bareMachine) (status int, err error) {
	var inputs, sequences []string
	flags := flag.NewFlagSet("guest bare", flag.ContinueOnError)
	flags.StringVar(&b.firmwarePath, "firmware", "", "`file` with the contents of flash 0")
	flags.StringVar(&b.dir, "dir", "", "`directory` for the machine's files, which are kept")
	flags.StringVar(&b.traceFile, "trace", "", "write QEMU's trace of device accesses to `file`")
	flags.StringVar(&b.qemu, "qemu", "",
		"QEMU `program`; default: the installed qemu-system-aarch64")
	flags.StringVar(&b.lmProgram, "lm", "", "lm `binary`, required by -with")
	flags.DurationVar(&b.timeout, "timeout", time.Minute, "time limit of the whole run")
	appendTo := func(list *[]string) func(string) error {
		return func(value string) error {
			*list = append(*list, value)
			return nil
		}
	}
	flags.Func("with", "add a `device` served by lm serve", func(device string) error {
		b.servedDevices = append(b.servedDevices, []string{device})
		return nil
	})
	flags.Func("input", "`NAME=FILE`: data of an input", appendTo(&inputs))
	flags.Func("sequence", "`name` of a sequence to run, in this order; default: main",
		appendTo(&sequences))
	pack := flags.String("pack", "", "write flash 1 to `file`, and boot no machine")
	dump := flags.Bool("dump", false, "print all bytes of outputs")
	budget := flags.Uint("budget", 0, "run in slices of `n` units each, as a cyclic task does")
	if err := flags.Parse(args); err != nil {
		return exitUsage, nil // Parse has printed why
	}
	if *pack == "" && (b.firmwarePath == "" || b.dir == "") || flags.NArg() != 1 {
		return exitUsage, errors.New("usage: guest bare -firmware FILE -dir DIR [flags] IMAGE.lmb")
	}
	b.entries, err = flashEntries(flags.Arg(0), inputs, sequences, *dump)
	if errors.Is(err, fs.ErrNotExist) || hal.CodeOf(err) == hal.NoFile {
		return exitNoFile, err
	} else if err != nil {
		return exitUsage, err
	}
	if *budget > 0 {
		data := binary.LittleEndian.AppendUint32(nil, uint32(*budget))
		b.entries = append(b.entries, flashEntry{kind: flashKindBudget, data: data})
	}
	if *pack != "" {
		data, err := encodeFlash(b.entries)
		if err != nil {
			return exitUsage, err
		}
		return 0, writeFlash(*pack, data)
	}
	status, err = b.boot()
	var startError *serverStartError
	if errors.As(err, &startError) && startError.status > 0 {
		return startError.status, err
	} else if err != nil {
		return exitFailed, err
	}
	b.printInstructionCount()
	if b.serversErr != nil && status == 0 {
		status = exitFailed
	}
	return status, b.serversErr
}

// firstStorePattern matches the firmware's line with the time of the first store into a BAR.
var firstStorePattern = regexp.MustCompile(`first store into a BAR: (\d+) ns after reset`)

// printInstructionCount prints how many instructions the firmware executed before its first store
// into a BAR. The firmware reads the processor's counter, which is 0 when the machine starts. With
// -icount shift=0, each instruction takes 1 ns, and the counter advances in steps of 16 ns.
func (b *bareMachine) printInstructionCount() {
	if found := firstStorePattern.FindStringSubmatch(b.consoleText); found != nil {
		fmt.Fprintf(b.stdout, "%s instructions from reset to the first store into a BAR "+
			"(QEMU -icount shift=0, to within 16)\n", found[1])
	}
}

// flashEntries returns the entries of flash 1 for an image file, for inputs in the form NAME=FILE,
// and for the names of sequences.
func flashEntries(image string, inputs, sequences []string, dump bool) ([]flashEntry, error) {
	data, err := files.Read(image, flashSize)
	if err != nil {
		return nil, err
	}
	var entries []flashEntry
	if len(data) > 0 { // an empty file is no image
		entries = append(entries, flashEntry{kind: flashKindImage, data: data})
	}
	for _, input := range inputs {
		name, path, ok := strings.Cut(input, "=")
		if !ok {
			return nil, fmt.Errorf("-input requires NAME=FILE, not %s", input)
		}
		data, err := files.Read(path, flashSize)
		if err != nil {
			return nil, err
		}
		entries = append(entries, flashEntry{flashKindInput, name, data})
	}
	for _, name := range sequences {
		entries = append(entries, flashEntry{kind: flashKindRun, name: name})
	}
	if dump {
		entries = append(entries, flashEntry{kind: flashKindDump})
	}
	return entries, nil
}
