package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	steps["kills"] = step{"COUNT SEED", killAtRandomTimes}
	steps["signals"] = step{"", checkInitSignals}
	childModes["orphan"] = orphan
	childModes["sleep"] = func([]string) int { time.Sleep(200 * time.Millisecond); return 0 }
}

// factorialArgs returns lmrun's arguments for computing a factorial on edu, from /tmp/n to
// /tmp/result.
func factorialArgs(flags ...string) []string {
	return append([]string{"-sequence", "compute", "-input", "n=/tmp/n", "-output",
		"result=/tmp/result", "/images/factorial.lmb"}, flags...)
}

// checkFactorial runs lmrun with an input, and compares the output with a factorial computed here.
func checkFactorial(n uint32) error {
	_ = os.Remove("/tmp/result")
	if err := os.WriteFile("/tmp/n", binary.LittleEndian.AppendUint32(nil, n), 0o644); err != nil {
		return err
	}
	if output, exit := run("/lmrun", factorialArgs()...); exit != 0 {
		return fmt.Errorf("exit %d: %s", exit, output)
	}
	want := uint32(1)
	for i := uint32(2); i <= n; i++ {
		want *= i
	}
	got, err := os.ReadFile("/tmp/result")
	if err == nil && !bytes.Equal(got, binary.LittleEndian.AppendUint32(nil, want)) {
		err = fmt.Errorf("%d! is %x, want %d", n, got, want)
	}
	return err
}

// killAtRandomTimes kills lmrun at random times, and checks a complete run after each kill. It
// kills single runs, endless runs, and lminit with an endless run. The random numbers depend only
// on SEED.
func killAtRandomTimes(_ *guest, args []string) error {
	count, _ := strconv.Atoi(args[0])
	seed, _ := strconv.ParseUint(args[1], 10, 64)
	random := rand.New(rand.NewPCG(seed, 0))
	var runTime time.Duration // duration of a run with a warm page cache
	for range 2 {
		began := time.Now()
		if err := checkFactorial(5); err != nil {
			return fmt.Errorf("before any kill: %w", err)
		}
		runTime = time.Since(began)
	}
	killed, began := 0, time.Now()
	for i := range count {
		program, victim := "/lmrun", factorialArgs()
		switch i % 3 {
		case 1:
			victim = factorialArgs("-loop", "forever")
		case 2:
			program, victim = "/lminit", []string{"-config", "/endless.conf"}
		}
		c := exec.Command(program, victim...)
		if err := c.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(random.Int64N(int64(runTime))))
		_ = c.Process.Kill()
		_ = c.Wait()
		if exitStatus(c.ProcessState) == 128+int(syscall.SIGKILL) {
			killed++
		}
		if !reapOrphans() {
			return fmt.Errorf("kill %d of lmrun %q: its child lives on", i, victim)
		}
		if err := checkFactorial(random.Uint32N(13)); err != nil {
			return fmt.Errorf("after kill %d of lmrun %q: %w", i, victim, err)
		}
	}
	fmt.Printf("inside: killed %d of %d within a run's %v; %v\n", killed, count, runTime,
		time.Since(began))
	if killed < count*2/3 {
		return errors.New("not killed often enough in the middle")
	}
	return nil
}

// reapOrphans waits for processes that a killed lmrun leaves to PID 1. They should end with lmrun.
// It reports whether all have ended.
func reapOrphans() bool {
	for end := time.Now().Add(runLimit); time.Now().Before(end); {
		switch pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); {
		case err == unix.ECHILD:
			return true
		case pid <= 0:
			time.Sleep(100 * time.Microsecond)
		}
	}
	return false
}

// checkInitSignals makes lminit PID 1 of a PID namespace and sends it signals. If lminit then asks
// the kernel for a reboot, the kernel ends it with SIGHUP; for the other requests, it ends it with
// SIGINT (pid_namespaces(7)).
func checkInitSignals(*guest, []string) error {
	for _, test := range []struct {
		signal, death syscall.Signal
		want          string
	}{
		{syscall.SIGTERM, syscall.SIGHUP, "lminit: reboot"},
		{syscall.SIGINT, syscall.SIGHUP, "lminit: reboot"},
		{syscall.SIGUSR1, syscall.SIGINT, "lminit: halt"},
		{syscall.SIGUSR2, syscall.SIGINT, "lminit: poweroff"},
	} {
		output, death := signalInit(test.signal)
		// The line of a finished replay is missing if the signal arrives before the replay begins.
		text := replayDone.ReplaceAllString(chosenDevice.ReplaceAllString(output, ""), "")
		want := []string{"lminit: /endless.conf: images: 1",
			"lminit: stopping after " + unix.SignalName(test.signal), "lmrun: exit 0", test.want}
		if death != test.death || !strings.HasPrefix(text, strings.Join(want, "\n")) {
			return fmt.Errorf("%v: died of %v, want %v; said\n%s", test.signal, death, test.death,
				output)
		}
		if err := checkFactorial(7); err != nil {
			return fmt.Errorf("after %v: %w", test.signal, err)
		}
	}
	return nil
}

var replayDone = regexp.MustCompile(`(?m)^lmrun: done: main of \S*factorial\.lmb, \d+ times.*\n`)

var chosenDevice = regexp.MustCompile(`(?m)^lmrun: uses -device .*\n`)

// signalInit starts an endless replay as PID 1 of a PID namespace, makes it the parent of an
// orphan, and sends it the signal.
func signalInit(signal syscall.Signal) (text string, death syscall.Signal) {
	printed := new(strings.Builder)
	c := exec.Command("/lminit", "-config", "/endless.conf")
	c.Stdout, c.Stderr = printed, printed
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if err := c.Start(); err != nil {
		return err.Error(), 0
	}
	pid := strconv.Itoa(c.Process.Pid)
	for end := time.Now().Add(runLimit); len(childrenOf(pid)) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if output, exit := run("/init", "orphan", pid); exit != 0 {
		printed.WriteString("orphan: " + output)
	}
	_ = c.Process.Signal(signal)
	waitExit(c)
	return printed.String(), c.ProcessState.Sys().(syscall.WaitStatus).Signal()
}

// childrenOf lists the children of a process, zombies included.
func childrenOf(pid string) (children []string) {
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range list {
		text, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(text), ") ") // state and parent follow the name
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == pid {
			children = append(children, path)
		}
	}
	return children
}

// orphan enters the PID namespace of a PID 1 and starts a program there, whose parent ends at once.
// It fails if that PID 1 does not reap the program.
func orphan(args []string) int {
	if len(args) == 2 { // in the namespace: the parent of the orphan
		c := exec.Command("/init", "sleep")
		if err := c.Start(); err != nil {
			return 1
		}
		return 0
	}
	space, err := os.Open("/proc/" + args[0] + "/ns/pid")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	runtime.LockOSThread() // only this thread enters
	if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWPID); err != nil {
		fmt.Println(err)
		return 1
	}
	if output, exit := run("/init", "orphan", args[0], "inner"); exit != 0 {
		fmt.Println("inner", exit, output)
		return 1
	}
	for end := time.Now().Add(runLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if len(childrenOf(args[0])) == 1 {
			return 0
		}
	}
	fmt.Println("children of process 1 after the orphan's end:", childrenOf(args[0]))
	return 1
}
