package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lightmetal/hal/mock"

	"golang.org/x/sys/unix"
)

// guest is the state that the steps of a scenario share.
type guest struct {
	backend string    // of the machine: pci, vfio or tt
	running *exec.Cmd // the lmrun that a step has started
	output  *bytes.Buffer
	random  *rand.Rand // same numbers in every boot
}

func newGuest(backend string) *guest {
	return &guest{backend: backend, random: rand.New(rand.NewPCG(1, 2))}
}

// step is a kind of line in a scenario.
type step struct {
	arguments string // for messages; those in brackets are optional
	run       func(g *guest, args []string) error
}

// requiredCount returns the number of required arguments.
func (s step) requiredCount() int {
	required, _, _ := strings.Cut(s.arguments, "[")
	return len(strings.Fields(required))
}

// steps are all steps by name. Names of devices in their arguments are expanded (deviceName).
var steps = map[string]step{
	// Programs. TEXT is part of the output that the program must print.
	"lmrun":        {"STATUS TEXT ARGUMENT...", runLmrun},
	"locked":       {"DEVICE IMAGE", runWithLockLimit},                    // vfio:
	"answered":     {"STATUS TEXT ANSWERS ARGUMENT...", runAnsweredLmrun}, // answer.go
	"run":          {"STATUS TEXT PROGRAM [ARGUMENT...]", runProgram},
	"show":         {"PREFIX PROGRAM [ARGUMENT...]", showOutput},
	"golden":       {"DEVICE IMAGES [ARGUMENT...]", replayImages},
	"fail-once":    {"FILE TEXT ARGUMENT...", failOnce},
	"start":        {"ARGUMENT...", startLmrun}, // lmrun
	"start-sealed": {"ARGUMENT...", startSealed},
	"ends":         {"STATUS TEXT...", waitAndCheckEnd},
	"kill":         {"[MOST]", kill}, // after a random time up to MOST
	"stop":         {"", stopLmrun},  // by SIGTERM

	// Devices, the kernel and files.
	"ready":         {"[NAME...]", (*guest).prepareDevices},
	"hugepages":     {"COUNT", reserveHugePagesStep},
	"modules":       {"FILE...", insmodStep},
	"bind":          {"DRIVER ADDRESS", bindStep},
	"unbind":        {"DRIVER ADDRESS", unbind},
	"enable":        {"ADDRESS", enable},
	"set-command":   {"ADDRESS BITS", setCommand},
	"clear-command": {"ADDRESS BITS", clearCommand},
	"store-config":  {"ADDRESS OFFSET VALUE", storeConfig},
	"rescan":        {"ADDRESS", rescan},
	"await-master":  {"ADDRESS", awaitBusMasterStep},
	"await-config":  {"ADDRESS OFFSET MASK", awaitConfig},
	"await":         {"ADDRESS BAR OFFSET VALUE", awaitRegister},
	"store":         {"ADDRESS BAR OFFSET VALUE", storeRegister},
	"log":           {"has|lacks TEXT", checkKernelLog},
	"show-file":     {"PREFIX FILE", showFile},
	"show-log":      {"TEXT", showLog},
	"same":          {"FILE FILE", compareFilesStep},
	"copy":          {"FILE FILE", copyFile},
	"truncate":      {"FILE SIZE", truncate},
	"folders":       {"PATH...", makeDirectories},
	"say":           {"TEXT", printText},
	"sleep":         {"TIME", sleep},
}

// runStep runs one line of a scenario.
func (g *guest) runStep(words []string) error {
	s, known := steps[words[0]]
	if !known {
		return errors.New("unknown step")
	}
	args := make([]string, len(words)-1)
	for i := range args {
		var err error
		if args[i], err = g.expandNames(words[1+i]); err != nil {
			return err
		}
	}
	if n := s.requiredCount(); len(args) < n {
		return fmt.Errorf("want at least %d arguments: %s", n, s.arguments)
	}
	return s.run(g, args)
}

// killRunning ends the program that `start` has started, if no step has ended it.
func (g *guest) killRunning() {
	if g.running != nil {
		_ = g.running.Process.Kill()
		g.wait()
	}
}

// wait waits for the program that `start` has started, and returns its exit status.
func (g *guest) wait() (exit int) {
	exit = waitExit(g.running)
	g.running = nil
	return exit
}

// checkEnd fails unless a program ended with one of the statuses, such as 71|75, and printed the
// text.
func checkEnd(statuses, text, output string, exit int) error {
	if slices.Contains(strings.Split(statuses, "|"), strconv.Itoa(exit)) &&
		strings.Contains(output, text) {
		return nil
	}
	return fmt.Errorf("got exit status %d, want %s with %q; it said:\n%s", exit, statuses, text,
		output)
}

func runLmrun(_ *guest, args []string) error {
	output, exit := run("/lmrun", args[2:]...)
	return checkEnd(args[0], args[1], output, exit)
}

// runWithLockLimit runs lmrun as a user with the limit of locked memory that `lm info` prints, and
// with a limit that is one page smaller.
func runWithLockLimit(_ *guest, args []string) error {
	groups, _ := filepath.Glob("/dev/vfio/*")
	for _, path := range append(groups, args[1], "/") {
		if err := os.Chmod(path, 0o777); err != nil {
			return err
		}
	}
	output, exit := run("/lm", "info", "--json", args[1])
	var info struct {
		Reservation struct {
			Locked uint64 `json:"locked_vfio_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(output), &info); err != nil || exit != 0 {
		return fmt.Errorf("lm info: exit status %d, %w; it said:\n%s", exit, err, output)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		return err
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before) }()
	for _, test := range []struct {
		missing      int
		status, text string
	}{{0, "0", "done"}, {os.Getpagesize(), "77", "ulimit -l"}} {
		limit := info.Reservation.Locked - uint64(test.missing)
		err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: before.Max})
		if err != nil {
			return err
		}
		var text strings.Builder
		c := exec.Command("/lmrun", "-device", args[0], args[1])
		c.Stdout, c.Stderr = &text, &text
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
		if err := c.Start(); err != nil {
			return err
		}
		exit := waitExit(c)
		if err := checkEnd(test.status, test.text, text.String(), exit); err != nil {
			return fmt.Errorf("limit of %d bytes: %w", limit, err)
		}
	}
	return nil
}

// failOnce runs lmrun, which must fail, record the fault in a file, and print a text. Then it
// resets the machine. If the file has a record from before the reset, failOnce does nothing. It
// waits for the file, a device that the kernel creates some time after its module is loaded.
func failOnce(g *guest, args []string) error {
	start := make([]byte, 8)
	err := waitFor(args[0], func() bool {
		file, err := os.Open(args[0])
		if err != nil {
			return false
		}
		defer file.Close()
		_, err = io.ReadFull(file, start)
		return err == nil
	})
	if err != nil || string(start) == "LMFAULT1" {
		return err
	}
	flags := []string{"76", args[1], "-faults", args[0]}
	if err := runLmrun(g, append(flags, args[2:]...)); err != nil {
		return err
	}
	fmt.Println("inside: resetting the machine")
	return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func runAnsweredLmrun(_ *guest, args []string) error {
	output, exit, err := runAnswered(args[2], "/lmrun", args[3:]...)
	if err != nil {
		return fmt.Errorf("%w; it said:\n%s", err, output)
	}
	return checkEnd(args[0], args[1], output, exit)
}

func runProgram(_ *guest, args []string) error {
	output, exit := run(args[2], args[3:]...)
	return checkEnd(args[0], args[1], output, exit)
}

// showOutput prints the output of a program, with a prefix, for the host.
func showOutput(_ *guest, args []string) error {
	output, _ := run(args[1], args[2:]...)
	for line := range strings.Lines(output) {
		fmt.Print(args[0], " ", line)
	}
	return nil
}

func showFile(_ *guest, args []string) error {
	text, err := os.ReadFile(args[1])
	for line := range strings.Lines(string(text)) {
		fmt.Print(args[0], " ", line)
	}
	return err
}

// replayImages replays images on a device, and compares their outputs with the files in
// /golden/IMAGE/.
func replayImages(_ *guest, args []string) error {
	images, err := filepath.Glob(args[1])
	if err != nil || len(images) == 0 {
		return fmt.Errorf("%d images, %v", len(images), err)
	}
	for _, image := range images {
		flags := append([]string{"-device", args[0]}, args[2:]...)
		began := time.Now()
		if err := replayGolden(image, flags); err != nil {
			return fmt.Errorf("%s: %w", image, err)
		}
		fmt.Printf("inside: %s on %s: %v\n", image, args[0],
			time.Since(began).Round(time.Millisecond))
	}
	return nil
}

func replayGolden(image string, flags []string) error {
	name := strings.TrimSuffix(strings.TrimPrefix(image, "/images/"), ".lmb")
	files, _ := filepath.Glob("/golden/" + name + "/*") // the pattern is valid
	for _, file := range files {
		flags = append(flags, "-output", filepath.Base(file)+"=/tmp/"+filepath.Base(file))
	}
	output, exit := run("/lmrun", append(flags, image)...)
	if err := checkEnd("0", "done", output, exit); err != nil {
		return err
	}
	for _, file := range files {
		if err := compareFiles(file, "/tmp/"+filepath.Base(file)); err != nil {
			return fmt.Errorf("output %s: %w", file, err)
		}
	}
	return nil
}

// startLmrun starts lmrun.
func startLmrun(g *guest, args []string) error {
	g.running, g.output = exec.Command("/lmrun", args...), new(bytes.Buffer)
	g.running.Stdout, g.running.Stderr = g.output, g.output
	return g.running.Start()
}

// startSealed starts lmrun and waits until it has sealed itself, which happens right before the
// first run.
func startSealed(g *guest, args []string) error {
	if err := startLmrun(g, append([]string{"-seal"}, args...)); err != nil {
		return err
	}
	path, sealed := fmt.Sprintf("/proc/%d/status", g.running.Process.Pid), false
	err := waitFor("lmrun seals itself", func() bool {
		text, err := os.ReadFile(path)
		sealed = strings.Contains(string(text), "\nSeccomp:\t2\n") // SECCOMP_MODE_FILTER
		return sealed || err != nil || strings.Contains(string(text), "\nState:\tZ")
	})
	if err == nil && !sealed {
		exit := g.wait()
		err = fmt.Errorf("lmrun ended with %d before its first run; it said:\n%s", exit, g.output)
	}
	return err
}

func waitAndCheckEnd(g *guest, args []string) error {
	exit := g.wait()
	for _, text := range args[1:] {
		if err := checkEnd(args[0], text, g.output.String(), exit); err != nil {
			return err
		}
	}
	return nil
}

// kill kills the started lmrun, after a random time up to MOST.
func kill(g *guest, args []string) error {
	if len(args) > 0 {
		most, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(g.random.Int64N(int64(most))))
	}
	_ = g.running.Process.Kill()
	const killed = 128 + int(unix.SIGKILL)
	if exit := g.wait(); exit != killed {
		return fmt.Errorf("ended with %d before it was killed; it said:\n%s", exit, g.output)
	}
	return nil
}

func stopLmrun(g *guest, _ []string) error { return g.running.Process.Signal(unix.SIGTERM) }

func reserveHugePagesStep(_ *guest, args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return reserveHugePages(count)
}

func insmodStep(_ *guest, args []string) error { return insmod(args...) }

func bindStep(_ *guest, args []string) error { return bind(args[0], args[1]) }

func awaitBusMasterStep(_ *guest, args []string) error { return awaitBusMaster(args[0]) }

// awaitConfig waits until a register of 4 bytes in configuration space has one of the bits of a
// mask.
func awaitConfig(_ *guest, args []string) error {
	offset, err := strconv.ParseInt(args[1], 0, 64)
	if err != nil {
		return err
	}
	mask, err := strconv.ParseUint(args[2], 0, 32)
	if err != nil {
		return err
	}
	config, err := os.Open(filepath.Join(devicesDir, args[0], "config"))
	if err != nil {
		return err
	}
	defer config.Close()
	var register [4]byte
	return waitFor("the register has a bit of the mask", func() bool {
		_, err = config.ReadAt(register[:], offset)
		return err != nil || binary.LittleEndian.Uint32(register[:])&uint32(mask) != 0
	})
}

func compareFilesStep(_ *guest, args []string) error { return compareFiles(args[0], args[1]) }

func unbind(_ *guest, args []string) error {
	return os.WriteFile("/sys/bus/pci/drivers/"+args[0]+"/unbind", []byte(args[1]), 0)
}

func enable(_ *guest, args []string) error {
	return os.WriteFile(filepath.Join(devicesDir, args[0], "enable"), []byte("1"), 0)
}

func setCommand(_ *guest, args []string) error {
	bits, err := strconv.ParseUint(args[1], 0, 8)
	if err == nil {
		_, err = changeCommandRegister(args[0], 0, byte(bits))
	}
	return err
}

func clearCommand(_ *guest, args []string) error {
	bits, err := strconv.ParseUint(args[1], 0, 8)
	if err == nil {
		_, err = changeCommandRegister(args[0], byte(bits), 0)
	}
	return err
}

// storeConfig stores 4 bytes to configuration space.
func storeConfig(_ *guest, args []string) error {
	var offset int64
	var value uint32
	if _, err := fmt.Sscan(args[1]+" "+args[2], &offset, &value); err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(devicesDir, args[0], "config"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer config.Close()
	_, err = config.WriteAt(binary.LittleEndian.AppendUint32(nil, value), offset)
	return err
}

// rescan removes a device from the kernel's list and lets the kernel find it again.
func rescan(_ *guest, args []string) error {
	err := os.WriteFile(filepath.Join(devicesDir, args[0], "remove"), []byte("1"), 0)
	return errors.Join(err, os.WriteFile("/sys/bus/pci/rescan", []byte("1"), 0))
}

// awaitRegister waits until lmrun or the device has written a value to a register.
func awaitRegister(_ *guest, args []string) error {
	want, err := parseRegister(args)
	if err != nil {
		return err
	}
	a, closeBar, err := openBar(want.address, want.bar)
	if err != nil {
		return err
	}
	defer closeBar()
	got := uint64(0)
	err = waitFor("the register has the value", func() bool {
		got, _ = mock.LoadAt(&a, want.offset, 4)
		return got == want.value
	})
	if err != nil {
		return fmt.Errorf("%w; got %#x", err, got)
	}
	return nil
}

func storeRegister(_ *guest, args []string) error {
	to, err := parseRegister(args)
	if err != nil {
		return err
	}
	a, closeBar, err := openBar(to.address, to.bar)
	if err != nil {
		return err
	}
	defer closeBar()
	mock.StoreAt(&a, to.offset, 4, to.value)
	return nil
}

func checkKernelLog(_ *guest, args []string) error {
	text := strings.Join(kernelLines(), "")
	if strings.Contains(text, args[1]) != (args[0] == "has") {
		return fmt.Errorf("the kernel's log ends with:\n%s", kernelLogEnd())
	}
	return nil
}

// showLog prints the lines of the kernel's log that contain a text, for the host.
func showLog(_ *guest, args []string) error {
	for _, line := range kernelLines() {
		if strings.Contains(line, args[0]) {
			fmt.Print("the kernel says: ", line)
		}
	}
	return nil
}

func copyFile(_ *guest, args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], data, 0o644)
}

func truncate(_ *guest, args []string) error {
	size, err := strconv.ParseInt(args[1], 0, 64)
	if err != nil {
		return err
	}
	return os.Truncate(args[0], size)
}

func makeDirectories(_ *guest, args []string) error {
	for _, path := range args {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func printText(_ *guest, args []string) error {
	fmt.Println(args[0])
	return nil
}

func sleep(_ *guest, args []string) error {
	limit, err := time.ParseDuration(args[0])
	if err == nil {
		time.Sleep(limit)
	}
	return err
}
