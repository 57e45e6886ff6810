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

// This file starts lmrun for each image of a configuration, restarts after failures, and forwards
// signals to lmrun. In this file, a replay is a process that executes lmrun.

const (
	restartPause = 100 * time.Millisecond // pause between a failure and the restart
	// graceTime is added to the time that lmrun reports in its stopReport. The sum is the time
	// between SIGTERM and SIGKILL.
	graceTime = 2 * time.Second
)

// supervisor replays the images of a configuration one after the other. Each replay is a child
// process. Therefore the supervisor notices when a replay ends for any reason, for example when
// the kernel kills it.
type supervisor struct {
	configuration
	configPath    string   // path of the configuration file; empty: flags contains the image
	flags         []string // arguments on the command line of lminit, passed to every replay
	checkOnly     bool     // -check is given: only verify the images
	signals       chan os.Signal
	endSignal     os.Signal // the signal that ends the supervisor; nil: no signal yet
	imageRejected bool      // the last replay rejected its image
}

// supervise replays the images of the configuration at configPath. If configPath is empty, it
// replays the image on the command line. It returns after the last image, after a failure without
// a restart, or after a signal. The results are the exit status, and the action that PID 1 must
// perform then: halt, poweroff or reboot.
func (s *supervisor) supervise() (exit int, finalAction string) {
	o, _ := args.Parse(s.flags)
	s.checkOnly, s.signals = o.Check, make(chan os.Signal, 1)
	// Handle the same signals as init of busybox: SIGUSR1 halts the machine, SIGUSR2 powers off
	// the machine, and the other signals reboot the machine.
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1,
		unix.SIGUSR2)
	if err := s.readConfiguration(); err != nil {
		s.logLine(err.Error())
		return hal.CodeOf(err).ExitStatus(), s.failure.finalAction
	}
	return s.replayUntilDone()
}

// readConfiguration reads and checks the configuration at configPath. It then makes the directory
// of the configuration file the current directory, because paths in a configuration are relative
// to that directory. If configPath is empty, it sets up one replay with the arguments in flags.
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
		// Check the flags of the command line, too. Their image is in the configuration, so that
		// args.Parse needs some other text for it.
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

// replayUntilDone replays all images, and restarts as often as the restart policies specify. It
// returns the last exit status and the final action.
func (s *supervisor) replayUntilDone() (exit int, finalAction string) {
	for {
		exit = s.runImagesOnce()
		if s.pollSignal() {
			break
		}
		policy := &s.success
		if exit != 0 {
			policy = &s.failure
		}
		if policy.restarts == 0 || s.checkOnly || s.wouldFailAgain(exit) {
			return exit, policy.finalAction
		}
		if policy.restarts > 0 {
			policy.restarts--
		}
		s.logLine("restarting after exit status " + strconv.Itoa(exit))
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

// pollSignal stores a signal that has arrived in s.endSignal. It does not wait for a signal. It
// reports whether a signal has arrived since the start of the supervisor.
func (s *supervisor) pollSignal() bool {
	select {
	case s.endSignal = <-s.signals:
	default:
	}
	return s.endSignal != nil
}

// wouldFailAgain reports whether a restart is useless, because it would fail with the same exit
// status. This is the case after a usage error, a missing permission, or the rejection of an
// image. It is not the case after an error in input data, because they can be correct at the next
// attempt.
func (s *supervisor) wouldFailAgain(exit int) bool {
	return exit == hal.Usage.ExitStatus() || exit == hal.Denied.ExitStatus() || s.imageRejected
}

// runImagesOnce prepares the machine and replays the images in their order. It returns the exit
// status of the first preparation or replay that fails, or 0.
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

// runReplay starts lmrun with the given flags, which include the path of an image. It waits for
// the end of lmrun and returns the exit status of lmrun.
func (s *supervisor) runReplay(flags []string) int {
	pid, reportFD, err := s.startReplay(flags)
	if err != nil {
		s.logLine("cannot start lmrun: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	defer unix.Close(reportFD)
	return s.awaitReplay(pid, stopReport{fd: reportFD})
}

// startReplay starts the program lmrun in the directory of this program. It returns the process id
// of lmrun, and the read end of the pipe to which lmrun writes its stopReport. lminit cannot
// compute the reported time itself, because the time depends on the image that lmrun has opened:
// another process can replace the file of the image at any time.
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
			// If this process is killed, the kernel also kills lmrun. Otherwise lmrun would
			// still use the device when lminit is started again.
			Pdeathsig: syscall.SIGKILL,
			// Start lmrun in a new process group. After Control-C, the terminal then sends
			// SIGINT only to this process, and this process sends SIGTERM to lmrun.
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

// awaitReplay waits for the end of a replay and returns its exit status. The parameter r is the
// report to read from the replay. If this process receives a signal, awaitReplay sends SIGTERM to
// the replay. If the replay does not end in time, awaitReplay sends SIGKILL to it.
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
			// Call killDelay, which reads the report, only after Kill. lmrun writes the report
			// before it installs its signal handler. If killDelay finds no report, lmrun had no
			// handler when SIGTERM was sent, and SIGTERM has ended it.
			if timeout == nil {
				timeout = time.After(r.killDelay())
			}
		case <-timeout:
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// replayEnvironment returns the environment variables for lmrun: the given variables without those
// that Go's runtime reads, and GOMAXPROCS=1. Some variables of Go's runtime would cause system
// calls that a sealed lmrun must not make. With GOMAXPROCS=1, Go starts faster and needs fewer
// threads and less memory.
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

// stopReport is the report of the longest time from a signal to the end of lmrun. lmrun writes
// this report to a pipe after it has accepted the image, if the flag -supervised is given.
type stopReport struct {
	fd         int    // file descriptor of the read end of the pipe
	stopUs     uint64 // the reported time, in microseconds; 0 until isReceived is true
	isReceived bool   // poll has read the report
}

// poll reads the report if lmrun has written it. It does not wait for the report. It reports
// whether this call or an earlier one has read the report.
func (r *stopReport) poll() bool {
	var line [32]byte
	if n, err := unix.Read(r.fd, line[:]); err == nil && n > 0 && line[n-1] == '\n' {
		r.stopUs, r.isReceived = hal.ParseNumber(string(line[:n-1]), 10, math.MaxUint64)
	}
	return r.isReceived
}

// killDelay reads the report if lmrun has written it, and returns the time to wait between SIGTERM
// and SIGKILL. This is the sum of the reported time and graceTime, or only graceTime without a
// report.
func (r *stopReport) killDelay() time.Duration {
	r.poll()
	const maxUs = uint64(math.MaxInt64-graceTime) / uint64(time.Microsecond)
	return graceTime + time.Duration(min(r.stopUs, maxUs))*time.Microsecond
}

// waitResult contains the wait status of a replay that has ended, or the error of wait4(2).
type waitResult struct {
	status unix.WaitStatus
	err    error
}

// reapChildren waits until the child process with the given pid has ended, and sends the wait
// status of that process to the channel ended. Meanwhile it reaps all other child processes that
// end, because PID 1 is the parent of all orphaned processes and must reap them.
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

// exitStatus returns the exit status of a replay with the given waitResult. If a signal has ended
// the replay, the result depends on the signal. It is 0 for a SIGTERM from the supervisor, the
// exit status of hal.BusFault for SIGBUS, and the exit status of hal.Internal for any other
// signal.
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

// logLine prints one line to standard error, since lmrun can write tensor data to standard output.
func (s *supervisor) logLine(text string) { printLine("lminit: " + text) }
