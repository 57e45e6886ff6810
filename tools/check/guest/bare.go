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

	// Data in flash 1 start at multiples of flashPage.
	flashPage = 4096

	// bareMemory is the RAM of a machine without an operating system, in MiB. The window for large
	// BARs moves only if it is much larger.
	bareMemory = 256
)

// flashKind is the kind of an entry of flash 1. testdata/firmware/bare/flash.h has the same
// numbers.
type flashKind uint32

const (
	flashImage  flashKind = 1 + iota // the image
	flashInput                       // data of an input, by its name
	flashRun                         // the name of a sequence to run
	flashDump                        // print all bytes of outputs
	flashBudget                      // run in slices with the budget in the data
)

// flashEntry is an entry of flash 1.
type flashEntry struct {
	kind flashKind
	name string
	data []byte
}

// encodeFlash returns the contents of flash 1, as testdata/firmware/bare/flash.h describes them.
func encodeFlash(entries []flashEntry) ([]byte, error) {
	const headerBytes, entryBytes = 16, 24
	flash := append([]byte("LMFLASH1"), make([]byte, 8+entryBytes*len(entries))...)
	binary.LittleEndian.PutUint32(flash[8:], uint32(len(entries)))
	for i, e := range entries {
		nameOffset := len(flash)
		flash = append(flash, e.name...)
		padding := (flashPage - len(flash)%flashPage) % flashPage
		dataOffset := len(flash)
		if len(e.data) > 0 {
			flash = append(flash, make([]byte, padding)...)
			dataOffset = len(flash)
			flash = append(flash, e.data...)
		}
		at := flash[headerBytes+i*entryBytes:]
		for field, n := range []int{int(e.kind), nameOffset, len(e.name), dataOffset,
			len(e.data)} {
			binary.LittleEndian.PutUint32(at[4*field:], uint32(n))
		}
	}
	if len(flash) > flashSize {
		return nil, fmt.Errorf("image and inputs have %d bytes; flash 1 has %d", len(flash),
			flashSize)
	}
	return flash, nil
}

// bareMachine is a machine without an operating system: the firmware of testdata/firmware/bare is
// in flash 0, the image is in flash 1. Of the embedded machine it uses what is about QEMU and
// served devices.
type bareMachine struct {
	*machine
	firmware string // host path
	entries  []flashEntry
	text     string // all that the firmware has printed, after a boot
}

// boot runs the machine until the firmware ends it, and returns the firmware's exit status. QEMU
// has it from the firmware by semihosting.
func (b *bareMachine) boot() (exit int, err error) {
	args, err := b.prepare()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	// The kernel kills QEMU and the servers if the thread that started them ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	served, servers, stop, err := b.serve()
	if err != nil {
		return 0, err
	}
	defer stop()
	for _, s := range servers {
		b.sockets = append(b.sockets, s.socket)
	}
	out := &console{lines: b.stdout}
	var complaints bytes.Buffer
	qemu := exec.CommandContext(ctx, cmp.Or(b.qemu, "qemu-system-aarch64"),
		append(args, served...)...)
	qemu.Stdout, qemu.Stderr, qemu.WaitDelay = out, &complaints, 5*time.Second
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = qemu.Run()
	b.text = out.text.String()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("the firmware did not end within %v\n%s", b.timeout, out.tail())
	case err != nil && !errors.As(err, &ended):
		return 0, fmt.Errorf("qemu-system-aarch64: %w", err)
	}
	exit = qemu.ProcessState.ExitCode()
	// QEMU itself ends with 1 if it cannot start or gives up.
	if said := fmt.Sprintf("exit %d", exit); out.lastLine() != said {
		return 0, fmt.Errorf("QEMU ended with status %d, and the firmware did not print %q\n%s%s",
			exit, said, complaints.String(), out.tail())
	}
	b.served = finish(servers)
	return exit, hal.FileFault("standard output", out.err)
}

// lastLine returns the last line of the console.
func (c *console) lastLine() string {
	lines := strings.Split(strings.TrimSpace(c.text.String()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// prepare writes the files of the machine and returns QEMU's arguments.
func (b *bareMachine) prepare() ([]string, error) {
	code, err := files.Read(b.firmware, flashSize)
	if err != nil {
		return nil, err
	}
	data, err := encodeFlash(b.entries)
	if err != nil {
		return nil, err
	}
	flash0, flash1 := filepath.Join(b.dir, "flash0.img"), filepath.Join(b.dir, "flash1.img")
	nvme := filepath.Join(b.dir, "nvme.img")
	err = errors.Join(writeFlash(flash0, code), writeFlash(flash1, data),
		writeZeros(b.shm(), shmSize), writeZeros(nvme, nvmeSize))
	if err != nil {
		return nil, err
	}
	virt := "virt"
	if len(b.with) > 0 { // a served device reaches memory
		virt += ",memory-backend=ram"
		b.extra = append(b.extra, "-object",
			fmt.Sprintf("memory-backend-memfd,id=ram,share=on,size=%dM", bareMemory))
	}
	args := []string{
		"-M", virt, "-cpu", "cortex-a72", "-smp", "1", "-m", strconv.Itoa(bareMemory),
		"-nographic", "-no-reboot", "-nic", "none",
		// Time passes with instructions, one a nanosecond.
		"-icount", "shift=0,sleep=off",
		"-semihosting-config", "enable=on,target=native",
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=" + escape(flash0),
		"-drive", "if=pflash,unit=1,format=raw,readonly=on,file=" + escape(flash1),
		// Memory begins at 1 GiB, beyond the 28 bits of edu's default mask.
		"-device", "edu,addr=2,dma_mask=0xffffffffffffffff",
		"-object", "memory-backend-file,id=shm,share=on,size=" + strconv.Itoa(shmSize) +
			",mem-path=" + escape(b.shm()),
		"-device", "ivshmem-plain,addr=3,memdev=shm",
		"-drive", "if=none,id=nvme,format=raw,file=" + escape(nvme),
		"-device", "nvme,addr=4,serial=lightmetal,drive=nvme",
	}
	args = append(args, b.extra...)
	if b.trace != "" {
		for _, event := range b.traced() {
			args = append(args, "-trace", event)
		}
		args = append(args, "-D", b.trace)
	}
	return args, nil
}

// writeFlash writes the file of a flash, which the rest of the flash follows as zeros.
func writeFlash(path string, data []byte) error {
	return errors.Join(files.Write(path, data, 0o644, files.Replace),
		os.Truncate(path, flashSize))
}

// runBare is the command `guest bare`: it replays one image on a machine without an operating
// system, and returns the firmware's exit status.
func runBare(args []string) (exit int, err error) {
	b := bareMachine{machine: &machine{stdout: os.Stdout}}
	var inputs, sequences []string
	flags := flag.NewFlagSet("guest bare", flag.ContinueOnError)
	flags.StringVar(&b.firmware, "firmware", "", "the firmware's `file`, as flash 0 has it")
	flags.StringVar(&b.dir, "dir", "", "`folder` for the machine's files, which stay there")
	flags.StringVar(&b.trace, "trace", "", "write QEMU's trace of device accesses to `file`")
	flags.StringVar(&b.qemu, "qemu", "", "QEMU `program`; default: qemu-system-aarch64")
	flags.StringVar(&b.lm, "lm", "", "lm `binary`, for -with")
	flags.DurationVar(&b.timeout, "timeout", time.Minute, "hard limit for the whole run")
	appendTo := func(list *[]string) func(string) error {
		return func(value string) error {
			*list = append(*list, value)
			return nil
		}
	}
	flags.Func("with", "a `device` that lm serve shows to the machine", func(device string) error {
		b.with = append(b.with, []string{device})
		return nil
	})
	flags.Func("input", "`NAME=FILE`: data for an input", appendTo(&inputs))
	flags.Func("sequence", "`name` of a sequence to run, in this order; default: main",
		appendTo(&sequences))
	pack := flags.String("pack", "", "write flash 1 to `file` and end, without a machine")
	dump := flags.Bool("dump", false, "print all bytes of outputs")
	budget := flags.Uint("budget", 0, "run in slices of a cyclic task, of `n` units each")
	if err := flags.Parse(args); err != nil {
		return exitUsage, nil // Parse has printed why
	}
	if *pack == "" && (b.firmware == "" || b.dir == "") || flags.NArg() != 1 {
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
		b.entries = append(b.entries, flashEntry{kind: flashBudget, data: data})
	}
	if *pack != "" {
		data, err := encodeFlash(b.entries)
		if err != nil {
			return exitUsage, err
		}
		return 0, writeFlash(*pack, data)
	}
	exit, err = b.boot()
	if ended := (*unserved)(nil); errors.As(err, &ended) && ended.exit > 0 {
		return ended.exit, err
	} else if err != nil {
		return exitFailed, err
	}
	b.printInstructions()
	if b.served != nil && exit == 0 {
		exit = exitFailed
	}
	return exit, b.served
}

// firstStore matches the firmware's line with the time of the first store into a BAR.
var firstStore = regexp.MustCompile(`first store into a BAR: (\d+) ns after reset`)

// printInstructions prints how many instructions the firmware has executed before its first store
// into a BAR. The firmware reads the processor's counter, which starts at 0 with the machine. With
// -icount shift=0 an instruction takes 1 ns of it, and a step of the counter is 16 ns.
func (b *bareMachine) printInstructions() {
	if found := firstStore.FindStringSubmatch(b.text); found != nil {
		fmt.Fprintf(b.stdout, "%s instructions from reset to the first store into a BAR "+
			"(QEMU -icount shift=0, to within 16)\n", found[1])
	}
}

// flashEntries returns the entries of flash 1 for an image file, inputs NAME=FILE and sequences.
func flashEntries(image string, inputs, sequences []string, dump bool) ([]flashEntry, error) {
	data, err := files.Read(image, flashSize)
	if err != nil {
		return nil, err
	}
	entries := []flashEntry{{kind: flashImage, data: data}}
	for _, input := range inputs {
		name, path, ok := strings.Cut(input, "=")
		if !ok {
			return nil, fmt.Errorf("-input takes NAME=FILE, not %s", input)
		}
		data, err := files.Read(path, flashSize)
		if err != nil {
			return nil, err
		}
		entries = append(entries, flashEntry{flashInput, name, data})
	}
	for _, name := range sequences {
		entries = append(entries, flashEntry{kind: flashRun, name: name})
	}
	if dump {
		entries = append(entries, flashEntry{kind: flashDump})
	}
	return entries, nil
}
