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
	steps["kills"] = step{"COUNT SEED", kills}
	steps["signals"] = step{"", signals}
	children["orphan"] = orphan
	children["sleep"] = func([]string) int { time.Sleep(200 * time.Millisecond); return 0 }
}

// compute are lmrun's arguments for a factorial of edu's: n in, result out.
func compute(flags ...string) []string {
	return append([]string{"-sequence", "compute", "-input", "n=/tmp/n", "-output",
		"result=/tmp/result", "/images/factorial.lmb"}, flags...)
}

// computes runs lmrun whole with an input of its own and holds its output
// against a computation here.
func computes(n uint32) error {
	_ = os.Remove("/tmp/result")
	if err := os.WriteFile("/tmp/n", binary.LittleEndian.AppendUint32(nil, n), 0o644); err != nil {
		return err
	}
	if output, exit := run("/lmrun", compute()...); exit != 0 {
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

// kills kills lmrun at moments that a seed gives, and runs it whole after each:
// alone and under a supervisor, in one run and in endless ones.
func kills(_ *guest, args []string) error {
	count, _ := strconv.Atoi(args[0])
	seed, _ := strconv.ParseUint(args[1], 10, 64)
	random := rand.New(rand.NewPCG(seed, 0))
	var whole time.Duration // of a run, when the page cache is warm
	for range 2 {
		began := time.Now()
		if err := computes(5); err != nil {
			return fmt.Errorf("before any kill: %w", err)
		}
		whole = time.Since(began)
	}
	killed, began := 0, time.Now()
	for i := range count {
		program, victim := "/lmrun", compute()
		switch i % 3 {
		case 1:
			victim = compute("-loop", "forever")
		case 2:
			program, victim = "/lminit", []string{"-config", "/endless.conf"}
		}
		c := exec.Command(program, victim...)
		if err := c.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(random.Int64N(int64(whole))))
		_ = c.Process.Kill()
		_ = c.Wait()
		if status(c.ProcessState) == 128+int(syscall.SIGKILL) {
			killed++
		}
		if !allGone() {
			return fmt.Errorf("kill %d of lmrun %q: its child lives on", i, victim)
		}
		if err := computes(random.Uint32N(13)); err != nil {
			return fmt.Errorf("after kill %d of lmrun %q: %w", i, victim, err)
		}
	}
	fmt.Printf("inside: killed %d of %d within a run's %v; %v\n", killed, count, whole,
		time.Since(began))
	if killed < count*2/3 {
		return errors.New("not killed often enough in the middle")
	}
	return nil
}

// allGone waits for what a killed lmrun leaves to process 1, which should die
// with it.
func allGone() bool {
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

// signals makes lminit process 1 of a name space of its own. What it asks of
// the machine is told to its parent by the signal that it dies of: SIGHUP for
// a reboot, SIGINT for the others (pid_namespaces(7)).
func signals(*guest, []string) error {
	for _, test := range []struct {
		signal, death syscall.Signal
		says          string
	}{
		{syscall.SIGTERM, syscall.SIGHUP, "lminit: reboot"},
		{syscall.SIGINT, syscall.SIGHUP, "lminit: reboot"},
		{syscall.SIGUSR1, syscall.SIGINT, "lminit: halt"},
		{syscall.SIGUSR2, syscall.SIGINT, "lminit: poweroff"},
	} {
		said, death := processOne(test.signal)
		// The replay ends in order, unless the signal comes before it has begun.
		text := replayDone.ReplaceAllString(said, "")
		want := []string{"lminit: /endless.conf: images: 1",
			"lminit: stopping after " + unix.SignalName(test.signal), "lmrun: exit 0", test.says}
		if death != test.death || !strings.HasPrefix(text, strings.Join(want, "\n")) {
			return fmt.Errorf("%v: died of %v, want %v; said\n%s", test.signal, death, test.death,
				said)
		}
		if err := computes(7); err != nil {
			return fmt.Errorf("after %v: %w", test.signal, err)
		}
	}
	return nil
}

var replayDone = regexp.MustCompile(`(?m)^lmrun: done: main of \S*factorial\.lmb, \d+ times.*\n`)

// processOne starts an endless replay, leaves it an orphan to reap, and sends
// the signal.
func processOne(signal syscall.Signal) (text string, death syscall.Signal) {
	said := new(strings.Builder)
	c := exec.Command("/lminit", "-config", "/endless.conf")
	c.Stdout, c.Stderr = said, said
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if err := c.Start(); err != nil {
		return err.Error(), 0
	}
	pid := strconv.Itoa(c.Process.Pid)
	for end := time.Now().Add(runLimit); len(childrenOf(pid)) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if output, exit := run("/init", "orphan", pid); exit != 0 {
		said.WriteString("orphan: " + output)
	}
	_ = c.Process.Signal(signal)
	finish(c)
	return said.String(), c.ProcessState.Sys().(syscall.WaitStatus).Signal()
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

// orphan enters the name space of a process 1, starts a program there, whose
// parent is ended at once, and wants it reaped.
func orphan(args []string) int {
	if len(args) == 2 { // in the name space: the parent
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
	runtime.LockOSThread() // which alone enters
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
