package main

import (
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file starts lmrun for each image of a configuration, starts again with the first image as
// the restart policies specify, and forwards signals to lmrun. In this file, a replay is a process
// that executes lmrun.

// graceTime is a part of the time that the supervisor waits between SIGTERM and SIGKILL. The other
// part is the time that lmrun reports (see stopReport).
const graceTime = 2 * time.Second

// supervisor replays the images of a configuration one after the other. Each replay is a child
// process. Therefore the supervisor notices when a replay ends for any reason, for example when
// the kernel kills it.
type supervisor struct {
	configuration
	configPath    string   // path of the configuration file; empty: the image is in flags
	flags         []string // arguments of lminit except -config, passed to every replay
	checkOnly     bool     // -check is given: only verify the images
	signals       chan os.Signal
	endSignal     os.Signal // the signal that ends the supervisor; nil: no signal yet
	imageRejected bool      // the last replay rejected its image
	devices       []string  // names of the devices of the replay that was started last
}

// supervise replays the images of the configuration at configPath. If configPath is empty, it
// replays the image on the command line. It returns after the last image, after a failure without a
// restart, or after a signal. It returns the exit status, and the action that lminit must then
// perform if it is PID 1: halt, poweroff or reboot.
func (s *supervisor) supervise() (exit int, finalAction string) {
	o, _ := args.Parse(s.flags)
	s.checkOnly, s.signals = o.Check, make(chan os.Signal, 1)
	// If lminit is PID 1, SIGUSR1 halts the machine, SIGUSR2 powers it off, and SIGTERM reboots it,
	// as in the program init of busybox. SIGINT, SIGHUP and SIGQUIT reboot it, too; in busybox, the
	// last two have other meanings. If lminit is not PID 1, each of these signals only ends it.
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1,
		unix.SIGUSR2)
	if err := s.readConfiguration(); err != nil {
		s.logLine(err.Error())
		return hal.CodeOf(err).ExitStatus(), s.onFailure.finalAction
	}
	return s.replayUntilDone()
}

// readConfiguration reads and checks the configuration at configPath. Paths in a configuration are
// relative to the directory of the configuration file. Therefore readConfiguration makes this
// directory the current directory. If configPath is empty, it sets up one replay with the arguments
// in s.flags.
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
		// Check the flags of the command line, too. args.Parse requires the path of an image.
		// Therefore add the word "image" as a path; no file is opened.
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

// replayUntilDone replays all images, and starts again with the first image after each step of the
// restart policies. It returns the exit status of the last attempt and the final action.
func (s *supervisor) replayUntilDone() (exit int, finalAction string) {
	for {
		exit = s.runImagesOnce()
		if s.pollSignal() {
			break
		}
		policy := &s.onSuccess
		if exit != 0 {
			policy = &s.onFailure
		}
		if s.checkOnly || s.wouldFailAgain(exit) || !s.takeNextStep(policy, exit) {
			return exit, policy.finalAction
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

// pollSignal reports whether a signal has arrived since the start of the supervisor. If a signal
// arrived after the previous call, pollSignal stores the signal in s.endSignal. It does not wait
// for a signal.
func (s *supervisor) pollSignal() (received bool) {
	select {
	case s.endSignal = <-s.signals:
	default:
	}
	return s.endSignal != nil
}

// wouldFailAgain reports whether a restart would fail again with the same exit status. This is the
// case after a usage error, a missing permission, or the rejection of an image. It is not the case
// after an error in input data, because the data can be correct at the next attempt.
func (s *supervisor) wouldFailAgain(exit int) bool {
	return exit == hal.Usage.ExitStatus() || exit == hal.Denied.ExitStatus() || s.imageRejected
}

// runImagesOnce prepares the machine and replays the images in their order. It returns the exit
// status of the first preparation or replay that fails, or 0.
func (s *supervisor) runImagesOnce() (exit int) {
	s.imageRejected = false
	if s.devices == nil {
		s.devices = s.devicesOf(s.replays[0])
	}
	for i := 0; i < len(s.preparations) && !s.checkOnly; i++ {
		if err := s.preparations[i].execute(); err != nil {
			s.logLine(preparationError(err))
			return hal.CodeOf(err).ExitStatus()
		}
	}
	for i := 0; i < len(s.replays) && exit == 0 && s.endSignal == nil; i++ {
		s.devices = s.devicesOf(s.replays[i])
		exit = s.runReplay(s.replays[i])
	}
	return exit
}

// preparationError returns the text to print after a preparation has failed. It omits the text
// "internal error", because a failure of the kernel is not a defect of lminit.
func preparationError(err error) string {
	if hal.CodeOf(err) == hal.Internal {
		return faultReason(err)
	}
	return err.Error()
}

// devicesOf returns the names of the devices that the arguments of a replay contain.
func (s *supervisor) devicesOf(arguments []string) []string {
	o, _ := args.Parse(append(slices.Clone(arguments), s.flags...))
	return o.Devices
}

// runReplay starts lmrun with the given flags, followed by s.flags. The path of the image is in one
// of these two lists. runReplay waits for the end of lmrun and returns the exit status of lmrun.
func (s *supervisor) runReplay(flags []string) (exit int) {
	pid, reportFD, err := s.startReplay(flags)
	if err != nil {
		s.logLine("cannot start lmrun: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	defer unix.Close(reportFD)
	return s.awaitReplay(pid, stopReport{fd: reportFD})
}

// startReplay starts the program lmrun in the directory of the program lminit. It returns the
// process id of lmrun, and the read end of the pipe to which lmrun writes its stopReport: the time
// that lmrun may need to stop. This time depends on the image that lmrun has opened. lminit cannot
// compute it, because another process can replace the image file at any time.
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
			// If this process is killed, the kernel also kills lmrun. Otherwise lmrun would still
			// use the device when lminit is started again.
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

// awaitReplay waits for the end of a replay and returns the exit status of the replay. The
// parameter r reads the report of the replay. If this process receives a signal, awaitReplay sends
// SIGTERM to the replay. If the replay does not end within killDelay after that, awaitReplay sends
// SIGKILL to the replay.
func (s *supervisor) awaitReplay(pid int, r stopReport) (exit int) {
	ended := make(chan waitResult)
	go reapChildren(pid, ended)
	var timeout <-chan time.Time
	for {
		select {
		case w := <-ended:
			exit := s.exitStatus(w)
			s.imageRejected = exit == hal.BadImage.ExitStatus() && !r.readIfWritten()
			return exit
		case s.endSignal = <-s.signals:
			s.logLine("stopping after " + unix.SignalName(s.endSignal.(unix.Signal)))
			_ = unix.Kill(pid, unix.SIGTERM)
			// Call killDelay, which reads the report, only after unix.Kill. lmrun writes its report
			// before it installs its signal handler. If there is no report even now, lmrun had no
			// handler when SIGTERM was sent, so SIGTERM has ended lmrun.
			if timeout == nil {
				timeout = time.After(r.killDelay())
			}
		case <-timeout:
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// replayEnvironment returns the environment variables for lmrun. It removes the variables that Go's
// runtime reads, because some of them would cause system calls that a sealed lmrun must not make.
// It adds GOMAXPROCS=1: Go then starts faster and needs fewer threads and less memory.
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

// stopReport reads and contains the report of lmrun: the longest time that lmrun may need to end
// after a signal. With the flag -supervised, lmrun writes this report to a pipe as soon as it has
// accepted the image.
type stopReport struct {
	fd            int    // file descriptor of the read end of the pipe
	maxStopTimeUs uint64 // the reported time, in microseconds; 0 until isReceived is true
	isReceived    bool   // stopReport.readIfWritten has read the report
}

// readIfWritten reads the report if lmrun has written it. It does not wait for the report. It
// returns true if this call or an earlier call has read the report.
func (r *stopReport) readIfWritten() (received bool) {
	var line [32]byte
	if n, err := unix.Read(r.fd, line[:]); err == nil && n > 0 && line[n-1] == '\n' {
		r.maxStopTimeUs, r.isReceived = hal.ParseNumber(string(line[:n-1]), 10, math.MaxUint64)
	}
	return r.isReceived
}

// killDelay returns the time to wait between SIGTERM and SIGKILL. If lmrun has written the report,
// killDelay reads it and returns the sum of the reported time and graceTime. Otherwise it returns
// graceTime.
func (r *stopReport) killDelay() time.Duration {
	r.readIfWritten()
	const maxUs = uint64(math.MaxInt64-graceTime) / uint64(time.Microsecond)
	return graceTime + time.Duration(min(r.maxStopTimeUs, maxUs))*time.Microsecond
}

// waitResult contains the wait status of a replay that has ended, or the error of wait4(2).
type waitResult struct {
	status unix.WaitStatus
	err    error
}

// reapChildren waits until the child process with the given pid has ended, and sends the wait
// status of that process to the channel `ended`. Meanwhile it reaps all other child processes that
// end, because PID 1 is the parent of all orphaned processes and must reap them.
func reapChildren(replayPID int, ended chan<- waitResult) {
	for {
		var w waitResult
		var childPID int
		childPID, w.err = unix.Wait4(-1, &w.status, 0, nil)
		if childPID == replayPID || w.err != nil && w.err != unix.EINTR {
			ended <- w
			return
		}
	}
}

// exitStatus returns the exit status of a replay with the given waitResult. If a signal has ended
// the replay, the returned status depends on the signal. It is 0 for a SIGTERM from the supervisor,
// the exit status of hal.BusFault for SIGBUS, and the exit status of hal.Internal for any other
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

// logLine prints one line to standard error, because lmrun can write tensor data to standard
// output.
func (s *supervisor) logLine(text string) { printLine("lminit: " + text) }
