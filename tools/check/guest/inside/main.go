// Inside is PID 1 of the guests of most tests. It runs scenarios (steps.go lists their steps).
// Like lmrun as PID 1, it ends with a line `lmrun: exit N` and powers the machine off:
//
//	scenarios MACHINE BACKEND [NAME]   those in /scenarios for a kind of machine, or one of them
//	STEP ARGUMENT...                   a single step
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"lightmetal/tools/check/guest/scenario"

	"golang.org/x/sys/unix"
)

// childModes are functions that this program runs as its own child process, by its first argument.
// They return the exit status.
var childModes = map[string]func(args []string) int{}

func main() {
	if os.Getpid() != 1 {
		os.Exit(childModes[os.Args[1]](os.Args[2:]))
	}
	for _, m := range [...]struct{ kind, path string }{{"proc", "/proc"}, {"sysfs", "/sys"},
		{"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}} {
		_ = os.MkdirAll(m.path, 0o755)
		if err := unix.Mount(m.kind, m.path, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			fmt.Println("inside: mounting", m.path, err)
		}
	}
	signal.Ignore(syscall.SIGPIPE)
	exit := 0
	if args := os.Args[1:]; args[0] != "scenarios" {
		exit = runScenario(&scenario.Scenario{Steps: []scenario.Step{{Words: args}}}, "pci")
	} else if err := runScenarios(args[1], args[2], args[3:]); err != nil {
		fmt.Println("inside:", err)
		exit = 1
	}
	fmt.Printf("lmrun: exit %d\n", exit)
	unix.Sync()
	// our output precedes the kernel's last messages
	_ = unix.IoctlSetInt(1, unix.TCSBRK, 1)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// runScenarios runs the scenarios for a machine, in the order of the files' names. A scenario
// that fails does not end the others.
func runScenarios(machine, backend string, only []string) error {
	paths, err := filepath.Glob("/scenarios/*.txt")
	if err != nil {
		return err
	}
	failed := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := scenario.Parse(filepath.Base(path), string(text))
		if err != nil {
			return err
		}
		for _, s := range f.Scenarios {
			if slices.Contains(s.Machines, machine) && (len(only) == 0 || only[0] == s.Name) {
				failed += runScenario(&s, backend)
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d scenarios failed", failed)
	}
	return nil
}

// runScenario runs the steps of a scenario and prints how it ended, for the host. It returns 1 if
// a step failed.
func runScenario(s *scenario.Scenario, backend string) (failed int) {
	fmt.Println("scenario", s.Name)
	g, began := newGuest(backend), time.Now()
	defer g.killRunning()
	for _, step := range s.Steps {
		if step.Words[0] == "host" {
			continue
		}
		if err := g.runStep(step.Words); err != nil {
			fmt.Printf("FAILED %s: %s: %v\n", step.Place, strings.Join(step.Words, " "), err)
			return 1
		}
	}
	fmt.Println("passed after", time.Since(began).Round(time.Millisecond))
	return 0
}

// runLimit bounds every program that a step starts, and every wait for one. However slow the host
// is, only a program that hangs takes so long.
const runLimit = 2 * time.Minute

// waitFor polls until a condition holds.
func waitFor(what string, holds func() bool) error {
	for end := time.Now().Add(runLimit); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within %v", what, runLimit)
		}
	}
	return nil
}

// run starts a program, waits for it and returns what it printed on both outputs
// and its exit status, or 128 and the number of the signal that ended it.
func run(program string, args ...string) (output string, exit int) {
	text := new(strings.Builder)
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = text, text
	if err := c.Start(); err != nil {
		return err.Error(), 127
	}
	exit = waitExit(c)
	return text.String(), exit
}

// spawn starts a program whose output goes to the console.
func spawn(program string, args ...string) (*exec.Cmd, error) {
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stdout
	return c, c.Start()
}

// waitExit waits for a program and returns its exit status. After runLimit, it kills the program.
func waitExit(c *exec.Cmd) (exit int) {
	limit := time.AfterFunc(runLimit, func() {
		fmt.Println("inside: still running, and killed:", c.Args)
		_ = c.Process.Kill()
	})
	defer limit.Stop()
	_ = c.Wait()
	return exitStatus(c.ProcessState)
}

func exitStatus(state *os.ProcessState) int {
	if wait := state.Sys().(syscall.WaitStatus); wait.Signaled() {
		return 128 + int(wait.Signal())
	}
	return state.ExitCode()
}
