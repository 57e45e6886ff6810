package main

import (
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

const (
	restartPause = 100 * time.Millisecond // between a failure and the next start
	graceTime    = 2 * time.Second        // from SIGTERM to SIGKILL, beyond what the replay reports
)

// This file runs the replays of a configuration, restarts them, and passes signals on.

// supervisor replays images one after the other, each in a child process, so that it learns
// of every end, also by the kill of a seal.
type supervisor struct {
	configuration
	configPath    string   // of the configuration, empty: a command line
	flags         []string // of the command line, for every image
	checkOnly     bool     // only verify, with -check
	signals       chan os.Signal
	endSignal     os.Signal // the signal that ends the supervisor, or nil
	imageRejected bool      // the last replay rejected its image, so a restart would fail again
}

// supervise executes a configuration, or a command line if path is empty, until it is done,
// fails, or a signal ends it. It returns the exit status, and how to leave the machine: halt,
// poweroff or reboot.
func (s *supervisor) supervise() (exit int, then string) {
	o, _ := args.Parse(s.flags)
	s.checkOnly, s.signals = o.Check, make(chan os.Signal, 1)
	// PID 1 handles them as busybox's init does: SIGUSR1 halts, SIGUSR2 powers off, the
	// others reboot.
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1,
		unix.SIGUSR2)
	if err := s.readConfiguration(); err != nil {
		s.logLine(err.Error())
		return hal.CodeOf(err).ExitStatus(), s.failure.finalAction
	}
	return s.replayUntilDone()
}

// read reads the configuration and changes to its directory, where paths in it begin.
func (s *supervisor) readConfiguration() error {
	s.configuration = defaultConfiguration
	if s.configPath == "" {
		s.replays = [][]string{nil}
		return nil
	}
	text, err := readFile(s.configPath)
	if err != nil {
		return hal.FileFault(s.configPath, err)
	}
	if s.configuration, err = parseConfiguration(s.configPath, string(text)); err == nil {
		_, err = args.Parse(append([]string{"image"}, s.flags...)) // for each image
	}
	if err != nil {
		return err
	}
	s.logLine(s.configPath + ": images: " + strconv.Itoa(len(s.replays)))
	if slash := strings.LastIndexByte(s.configPath, '/'); slash >= 0 {
		err = hal.FileFault(s.configPath, unix.Chdir(s.configPath[:slash+1]))
	}
	return err
}

// run replays all images, and again as on-success or on-failure says.
func (s *supervisor) replayUntilDone() (exit int, then string) {
	for {
		exit = s.runImagesOnce()
		if s.pollSignal() {
			break
		}
		end := &s.success
		if exit != 0 {
			end = &s.failure
		}
		if end.restarts == 0 || s.checkOnly || s.wouldFailAgain(exit) {
			return exit, end.finalAction
		}
		if end.restarts > 0 {
			end.restarts--
		}
		s.logLine("restart after exit " + strconv.Itoa(exit))
		if exit != 0 {
			time.Sleep(restartPause)
		}
		if s.pollSignal() {
			break
		}
	}
	switch s.endSignal {
	case unix.SIGUSR1:
		return exit, "halt"
	case unix.SIGUSR2:
		return exit, "poweroff"
	}
	return exit, "reboot"
}

// pollSignal receives a signal that came between two replays, and reports whether one ends
// the supervisor.
func (s *supervisor) pollSignal() bool {
	select {
	case s.endSignal = <-s.signals:
	default:
	}
	return s.endSignal != nil
}

// wouldFailAgain reports whether a restart would have the same failure: a mistake, a missing
// permission, or an image that was rejected. Input data that did not fit may fit the next
// time.
func (s *supervisor) wouldFailAgain(exit int) bool {
	return exit == hal.Usage.ExitStatus() || exit == hal.Denied.ExitStatus() || s.imageRejected
}

// runImagesOnce prepares the machine and replays every image, up to the first that fails.
func (s *supervisor) runImagesOnce() (exit int) {
	s.imageRejected = false
	for i := 0; i < len(s.preparations) && !s.checkOnly; i++ {
		if err := s.preparations[i].execute(); err != nil {
			s.logLine(err.Error())
			return hal.CodeOf(err).ExitStatus()
		}
	}
	for i := 0; i < len(s.replays) && exit == 0 && s.endSignal == nil; i++ {
		exit = s.runReplay(s.replays[i])
	}
	return exit
}

// runReplay runs lmrun for one image and returns its exit status.
func (s *supervisor) runReplay(flags []string) int {
	pid, reports, err := s.startReplay(flags)
	if err != nil {
		s.logLine("starting the replay: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	defer unix.Close(reports)
	return s.awaitReplay(pid, stopReport{fd: reports})
}

// startReplay starts lmrun, which is in the directory of this program. It returns the
// reading end of the pipe through which lmrun reports that it accepts the image, and how
// long its end can take. The image's file is not read again at the end: it may be another
// by then.
func (s *supervisor) startReplay(flags []string) (pid, reports int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return 0, 0, err
	}
	words := append(append([]string{"lmrun", "-supervised"}, flags...), s.flags...)
	attributes := &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2, uintptr(pipe[1])},
		Env:   replayEnvironment(syscall.Environ()),
		Sys: &syscall.SysProcAttr{
			// If this process is killed, the next one must not find the device in use.
			Pdeathsig: syscall.SIGKILL,
			// A terminal's SIGINT reaches this process only, which then ends the replay.
			Setpgid: true,
		},
	}
	pid, err = syscall.ForkExec(filepath.Join(filepath.Dir(self), "lmrun"), words, attributes)
	unix.Close(pipe[1])
	if err != nil {
		unix.Close(pipe[0])
	}
	return pid, pipe[0], err
}

// awaitReplay waits for the end of a replay, passes signals on to it, and kills it if it has
// not ended in time after one. It returns the exit status.
func (s *supervisor) awaitReplay(pid int, r stopReport) int {
	over := make(chan waitResult)
	go reapChildren(pid, over)
	var timeout <-chan time.Time
	for {
		select {
		case w := <-over:
			exit := s.exitStatus(w)
			s.imageRejected = exit == hal.BadImage.ExitStatus() && !r.poll()
			return exit
		case s.endSignal = <-s.signals:
			s.logLine("ending on " + unix.SignalName(s.endSignal.(unix.Signal)))
			_ = unix.Kill(pid, unix.SIGTERM)
			// Read after the signal: a replay that has not reported yet has not installed
			// its handler either, so the signal ends it.
			if timeout == nil {
				timeout = time.After(r.killDelay())
			}
		case <-timeout:
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// environment removes the variables of Go's runtime, since some would end a sealed replay,
// and adds GOMAXPROCS=1: Go then starts faster, with fewer threads and less memory.
func replayEnvironment(variables []string) []string {
	kept := []string{"GOMAXPROCS=1"}
	for _, variable := range variables {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOTRACEBACK":
		default:
			kept = append(kept, variable)
		}
	}
	return kept
}

// report is what lmrun -supervised writes after it has accepted the image: the number of
// microseconds that its end can take after a signal.
type stopReport struct {
	fd         int
	stopUs     uint64
	isReceived bool
}

// read reads the report, and reports whether it has come.
func (r *stopReport) poll() bool {
	var line [32]byte
	if n, err := unix.Read(r.fd, line[:]); err == nil && n > 0 && line[n-1] == '\n' {
		r.stopUs, r.isReceived = hal.ParseNumber(string(line[:n-1]), 10, math.MaxUint64)
	}
	return r.isReceived
}

// grace returns the time from SIGTERM to SIGKILL. Without a report it is the shortest.
func (r *stopReport) killDelay() time.Duration {
	r.poll()
	const most = uint64(math.MaxInt64-graceTime) / uint64(time.Microsecond)
	return graceTime + time.Duration(min(r.stopUs, most))*time.Microsecond
}

// waited is how a replay ended, or the error of waiting for it.
type waitResult struct {
	status unix.WaitStatus
	err    error
}

// reapChildren waits for children, also those that PID 1 inherits, until the one with pid has
// ended.
func reapChildren(pid int, over chan<- waitResult) {
	for {
		var w waitResult
		var ended int
		ended, w.err = unix.Wait4(-1, &w.status, 0, nil)
		if ended == pid || w.err != nil && w.err != unix.EINTR {
			over <- w
			return
		}
	}
}

// exitStatus returns the exit status of a replay. If a signal ended it, that is 0 for a
// SIGTERM that the supervisor sent, a bus fault for SIGBUS, and else an internal error.
func (s *supervisor) exitStatus(w waitResult) int {
	switch {
	case w.err != nil:
		s.logLine("waiting for the replay: " + w.err.Error())
		return hal.Internal.ExitStatus()
	case !w.status.Signaled():
		return w.status.ExitStatus()
	case s.endSignal != nil && w.status.Signal() == unix.SIGTERM:
		return 0
	}
	s.logLine("the replay was ended by signal " + unix.SignalName(w.status.Signal()))
	if w.status.Signal() == unix.SIGBUS {
		return hal.BusFault.ExitStatus()
	}
	return hal.Internal.ExitStatus()
}

// log prints a line to standard error, since standard output is the replay's.
func (s *supervisor) logLine(text string) { printLine("lminit: " + text) }
