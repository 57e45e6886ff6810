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
	restartPause = 100 * time.Millisecond // pause between a failure and the restart
	// graceTime is the time between SIGTERM and SIGKILL, in addition to the time that lmrun
	// reports.
	graceTime = 2 * time.Second
)

// This file starts lmrun for each image of a configuration, starts again after failures, and
// forwards signals to lmrun. In this file, a replay is a process of lmrun.

// supervisor replays the images of a configuration one after the other. Each replay is a child
// process, therefore the supervisor notices any end, including a kill by the kernel.
type supervisor struct {
	configuration
	configPath    string   // path of the configuration; empty: use the command line
	flags         []string // flags of the command line, which apply to every image
	checkOnly     bool     // -check is given: only verify the images
	signals       chan os.Signal
	endSignal     os.Signal // the signal that ends the supervisor; nil: no signal yet
	imageRejected bool      // the last replay rejected its image
}

// supervise executes the configuration at configPath, or the command line if configPath is empty.
// It returns after the last image, after a failure without a restart, or after a signal. The
// results are the exit status, and the action that PID 1 must take: halt, poweroff or reboot.
func (s *supervisor) supervise() (exit int, finalAction string) {
	o, _ := args.Parse(s.flags)
	s.checkOnly, s.signals = o.Check, make(chan os.Signal, 1)
	// As in busybox's init, SIGUSR1 halts the machine, SIGUSR2 powers it off, and the other
	// signals reboot it.
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1,
		unix.SIGUSR2)
	if err := s.readConfiguration(); err != nil {
		s.logLine(err.Error())
		return hal.CodeOf(err).ExitStatus(), s.failure.finalAction
	}
	return s.replayUntilDone()
}

// readConfiguration reads the configuration. It then changes to the directory of the file, since
// paths in a configuration are relative to that directory.
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
		// Check the flags of the command line once: they are the same for each image.
		_, err = args.Parse(append([]string{"image"}, s.flags...))
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

// replayUntilDone replays all images, and repeats this as on-success and on-failure specify. It
// returns the last exit status and the final action.
func (s *supervisor) replayUntilDone() (exit int, finalAction string) {
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
		s.logLine("restart after exit status " + strconv.Itoa(exit))
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

// pollSignal checks for a signal without waiting. It reports whether any signal has been
// received, now or earlier.
func (s *supervisor) pollSignal() bool {
	select {
	case s.endSignal = <-s.signals:
	default:
	}
	return s.endSignal != nil
}

// wouldFailAgain reports whether a restart would fail in the same way: after a usage error, a
// missing permission, or a rejected image. Invalid input data do not count, since they may be
// valid at the next attempt.
func (s *supervisor) wouldFailAgain(exit int) bool {
	return exit == hal.Usage.ExitStatus() || exit == hal.Denied.ExitStatus() || s.imageRejected
}

// runImagesOnce prepares the machine and replays the images in order. It stops at the first
// failure and returns the exit status.
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

// runReplay runs lmrun with the flags of one image and returns the exit status of lmrun.
func (s *supervisor) runReplay(flags []string) int {
	pid, reportFD, err := s.startReplay(flags)
	if err != nil {
		s.logLine("cannot start lmrun: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	defer unix.Close(reportFD)
	return s.awaitReplay(pid, stopReport{fd: reportFD})
}

// startReplay starts lmrun, which must be in the directory of this program. It returns the
// process id of lmrun and the read end of the pipe through which lmrun sends its stopReport.
// The report describes the image that lmrun has opened; the file may be replaced later.
func (s *supervisor) startReplay(flags []string) (pid, reportFD int, err error) {
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
			// If this process is killed, kill lmrun as well: lmrun must not keep the device
			// busy when lminit is started again.
			Pdeathsig: syscall.SIGKILL,
			// Put lmrun into its own process group: a terminal then sends SIGINT to this
			// process only, which sends SIGTERM to lmrun.
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

// awaitReplay waits for the end of a replay and returns its exit status. If this process receives
// a signal, awaitReplay sends SIGTERM to the replay, and SIGKILL if the replay does not end in
// time.
func (s *supervisor) awaitReplay(pid int, r stopReport) int {
	ended := make(chan waitResult)
	go reapChildren(pid, ended)
	var timeout <-chan time.Time
	for {
		select {
		case w := <-ended:
			exit := s.exitStatus(w)
			s.imageRejected = exit == hal.BadImage.ExitStatus() && !r.poll()
			return exit
		case s.endSignal = <-s.signals:
			s.logLine("stopping after " + unix.SignalName(s.endSignal.(unix.Signal)))
			_ = unix.Kill(pid, unix.SIGTERM)
			// killDelay reads the report and must be called after Kill: a replay that has
			// not reported by then had no signal handler, therefore SIGTERM has ended it.
			if timeout == nil {
				timeout = time.After(r.killDelay())
			}
		case <-timeout:
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// replayEnvironment returns the environment of lmrun: the given variables without those of Go's
// runtime, since some of them would end a sealed lmrun, and GOMAXPROCS=1. With GOMAXPROCS=1, Go
// starts faster and needs fewer threads and less memory.
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

// stopReport is the report that lmrun -supervised writes to a pipe after it has accepted the
// image: the longest time from a signal to the end of lmrun.
type stopReport struct {
	fd         int    // read end of the pipe
	stopUs     uint64 // the time that lmrun reported, in microseconds; 0 until isReceived is set
	isReceived bool   // the report has been read
}

// poll reads the report without waiting, and returns whether the report has been received, now
// or earlier.
func (r *stopReport) poll() bool {
	var line [32]byte
	if n, err := unix.Read(r.fd, line[:]); err == nil && n > 0 && line[n-1] == '\n' {
		r.stopUs, r.isReceived = hal.ParseNumber(string(line[:n-1]), 10, math.MaxUint64)
	}
	return r.isReceived
}

// killDelay returns the time to wait between SIGTERM and SIGKILL: the reported time and
// graceTime, or graceTime alone if no report has been received.
func (r *stopReport) killDelay() time.Duration {
	r.poll()
	const maxUs = uint64(math.MaxInt64-graceTime) / uint64(time.Microsecond)
	return graceTime + time.Duration(min(r.stopUs, maxUs))*time.Microsecond
}

// waitResult is the wait status of an ended replay, or the error of wait4(2).
type waitResult struct {
	status unix.WaitStatus
	err    error
}

// reapChildren reaps ended child processes until the child with the given pid has ended, and then
// sends its wait status to ended. PID 1 must also reap orphaned processes, which it inherits.
func reapChildren(pid int, ended chan<- waitResult) {
	for {
		var w waitResult
		var childPID int
		childPID, w.err = unix.Wait4(-1, &w.status, 0, nil)
		if childPID == pid || w.err != nil && w.err != unix.EINTR {
			ended <- w
			return
		}
	}
}

// exitStatus returns the exit status of a replay. If a signal ended the replay, the status is 0
// for a SIGTERM from the supervisor, the status of hal.BusFault for SIGBUS, and the status of
// hal.Internal for any other signal.
func (s *supervisor) exitStatus(w waitResult) int {
	switch {
	case w.err != nil:
		s.logLine("cannot wait for the end of lmrun: " + w.err.Error())
		return hal.Internal.ExitStatus()
	case !w.status.Signaled():
		return w.status.ExitStatus()
	case s.endSignal != nil && w.status.Signal() == unix.SIGTERM:
		return 0
	}
	s.logLine("lmrun was ended by " + unix.SignalName(w.status.Signal()))
	if w.status.Signal() == unix.SIGBUS {
		return hal.BusFault.ExitStatus()
	}
	return hal.Internal.ExitStatus()
}

// logLine prints a line to standard error. Standard output belongs to lmrun.
func (s *supervisor) logLine(text string) { printLine("lminit: " + text) }
