package main

import (
	"bytes"
	"encoding/binary"
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
	"time"

	"golang.org/x/sys/unix"
)

// guest is what the steps of a scenario share.
type guest struct {
	backend string    // of the machine: pci, vfio or tt
	running *exec.Cmd // what `start` started
	said    *bytes.Buffer
	random  *rand.Rand // the same in every boot
}

func newGuest(backend string) *guest {
	return &guest{backend: backend, random: rand.New(rand.NewPCG(1, 2))}
}

// step is what a line of a scenario does.
type step struct {
	arguments string // for messages; those in brackets may be missing
	run       func(g *guest, args []string) error
}

// required is the number of arguments that may not be missing.
func (s step) required() int {
	required, _, _ := strings.Cut(s.arguments, "[")
	return len(strings.Fields(required))
}

// steps are all steps. Names of devices in their arguments are replaced (deviceName).
var steps = map[string]step{
	// Programs. TEXT is part of what the program must say on either output.
	"lmrun":        {"STATUS TEXT ARGUMENT...", lmrun},
	"answered":     {"STATUS TEXT ANSWERS ARGUMENT...", answered}, // answer.go
	"run":          {"STATUS TEXT PROGRAM [ARGUMENT...]", runProgram},
	"show":         {"PREFIX PROGRAM [ARGUMENT...]", show},
	"golden":       {"DEVICE IMAGES [ARGUMENT...]", golden},
	"fail-once":    {"FILE TEXT ARGUMENT...", failOnce},
	"start":        {"ARGUMENT...", start}, // lmrun
	"start-sealed": {"ARGUMENT...", startSealed},
	"ends":         {"STATUS TEXT...", ends},
	"kill":         {"[MOST]", kill}, // after a random time
	"stop":         {"", stop},       // by SIGTERM

	// Devices, the kernel and files.
	"ready":         {"[NAME...]", (*guest).ready},
	"hugepages":     {"COUNT", hugePages},
	"modules":       {"FILE...", loadModules},
	"bind":          {"DRIVER ADDRESS", bindDriver},
	"unbind":        {"DRIVER ADDRESS", unbind},
	"enable":        {"ADDRESS", enable},
	"set-command":   {"ADDRESS BITS", setCommand},
	"clear-command": {"ADDRESS BITS", clearCommand},
	"await-master":  {"ADDRESS", masterAwaited},
	"await-config":  {"ADDRESS OFFSET MASK", configAwaited},
	"await":         {"ADDRESS BAR OFFSET VALUE", await},
	"store":         {"ADDRESS BAR OFFSET VALUE", store},
	"log":           {"has|lacks TEXT", kernelLogHas},
	"show-file":     {"PREFIX FILE", showFile},
	"show-log":      {"TEXT", showLog},
	"same":          {"FILE FILE", filesEqual},
	"copy":          {"FILE FILE", copyFile},
	"truncate":      {"FILE SIZE", truncate},
	"folders":       {"PATH...", folders},
	"say":           {"TEXT", say},
	"sleep":         {"TIME", sleep},
}

// runStep runs a step.
func (g *guest) runStep(words []string) error {
	s, known := steps[words[0]]
	if !known {
		return errors.New("unknown step")
	}
	args := make([]string, len(words)-1)
	for i := range args {
		var err error
		if args[i], err = g.expand(words[1+i]); err != nil {
			return err
		}
	}
	if n := s.required(); len(args) < n {
		return fmt.Errorf("want at least %d arguments: %s", n, s.arguments)
	}
	return s.run(g, args)
}

// killRunning ends what `start` started and no step has ended.
func (g *guest) killRunning() {
	if g.running != nil {
		_ = g.running.Process.Kill()
		g.wait()
	}
}

// wait waits for what `start` started, and returns its exit status.
func (g *guest) wait() (exit int) {
	exit = finish(g.running)
	g.running = nil
	return exit
}

// checkEnd fails unless a program ended with one of the statuses, such as 71|75, and said a text.
func checkEnd(statuses, text, output string, exit int) error {
	if slices.Contains(strings.Split(statuses, "|"), strconv.Itoa(exit)) &&
		strings.Contains(output, text) {
		return nil
	}
	return fmt.Errorf("got exit status %d, want %s with %q; it said:\n%s", exit, statuses, text,
		output)
}

func lmrun(_ *guest, args []string) error {
	output, exit := run("/lmrun", args[2:]...)
	return checkEnd(args[0], args[1], output, exit)
}

// failOnce runs lmrun, which must fail, record that in a device and say a text, and resets the
// machine. If the device has a record from before the reset, it does nothing. It waits for the
// device, which the kernel makes after its module is loaded.
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
	if err := lmrun(g, append(flags, args[2:]...)); err != nil {
		return err
	}
	fmt.Println("inside: resetting the machine")
	return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func answered(_ *guest, args []string) error {
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

// show prints what a program says, with a prefix, for the host.
func show(_ *guest, args []string) error {
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

// golden replays images on a device, and compares their outputs with the files in
// /golden/IMAGE/.
func golden(_ *guest, args []string) error {
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
	files, _ := filepath.Glob("/golden/" + name + "/*") // the pattern is right
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

// start starts lmrun.
func start(g *guest, args []string) error {
	g.running, g.said = exec.Command("/lmrun", args...), new(bytes.Buffer)
	g.running.Stdout, g.running.Stderr = g.said, g.said
	return g.running.Start()
}

// startSealed starts lmrun and waits until it has sealed itself, which it does right before the
// first run.
func startSealed(g *guest, args []string) error {
	if err := start(g, append([]string{"-seal"}, args...)); err != nil {
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
		err = fmt.Errorf("lmrun ended with %d before its first run; it said:\n%s", exit, g.said)
	}
	return err
}

func ends(g *guest, args []string) error {
	exit := g.wait()
	for _, text := range args[1:] {
		if err := checkEnd(args[0], text, g.said.String(), exit); err != nil {
			return err
		}
	}
	return nil
}

// kill kills what was started, within a time.
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
		return fmt.Errorf("ended with %d before it was killed; it said:\n%s", exit, g.said)
	}
	return nil
}

func stop(g *guest, _ []string) error { return g.running.Process.Signal(unix.SIGTERM) }

func hugePages(_ *guest, args []string) error {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return reserveHugePages(count)
}

func loadModules(_ *guest, args []string) error { return insmod(args...) }

func bindDriver(_ *guest, args []string) error { return bind(args[0], args[1]) }

func masterAwaited(_ *guest, args []string) error { return awaitMaster(args[0]) }

// configAwaited waits until a register of 4 bytes in configuration space has one of the bits of a
// mask.
func configAwaited(_ *guest, args []string) error {
	offset, err := strconv.ParseInt(args[1], 0, 64)
	if err != nil {
		return err
	}
	mask, err := strconv.ParseUint(args[2], 0, 32)
	if err != nil {
		return err
	}
	config, err := os.Open(filepath.Join(devices, args[0], "config"))
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

func filesEqual(_ *guest, args []string) error { return compareFiles(args[0], args[1]) }

func unbind(_ *guest, args []string) error {
	return os.WriteFile("/sys/bus/pci/drivers/"+args[0]+"/unbind", []byte(args[1]), 0)
}

func enable(_ *guest, args []string) error {
	return os.WriteFile(filepath.Join(devices, args[0], "enable"), []byte("1"), 0)
}

func setCommand(_ *guest, args []string) error {
	bits, err := strconv.ParseUint(args[1], 0, 8)
	if err == nil {
		_, err = changeCommand(args[0], 0, byte(bits))
	}
	return err
}

func clearCommand(_ *guest, args []string) error {
	bits, err := strconv.ParseUint(args[1], 0, 8)
	if err == nil {
		_, err = changeCommand(args[0], byte(bits), 0)
	}
	return err
}

// await waits until a register has a value, from lmrun or from the device.
func await(_ *guest, args []string) error {
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
		got, _ = a.Load(want.offset, 4)
		return got == want.value
	})
	if err != nil {
		return fmt.Errorf("%w; got %#x", err, got)
	}
	return nil
}

func store(_ *guest, args []string) error {
	to, err := parseRegister(args)
	if err != nil {
		return err
	}
	a, closeBar, err := openBar(to.address, to.bar)
	if err != nil {
		return err
	}
	defer closeBar()
	a.Store(to.offset, 4, to.value)
	return nil
}

func kernelLogHas(_ *guest, args []string) error {
	text := strings.Join(kernelLines(), "")
	if strings.Contains(text, args[1]) != (args[0] == "has") {
		return fmt.Errorf("the kernel's log ends with:\n%s", kernelLog())
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

func folders(_ *guest, args []string) error {
	for _, path := range args {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func say(_ *guest, args []string) error {
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
