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

// This file starts lmrun for each image of a configuration. After success or failure, it restarts
// from the first image if a restart policy requires this. After a signal, it stops lmrun. In this
// file, a replay is a process that executes lmrun.

// killGraceTime is added to the stop time that lmrun has reported (see stopDurationReport). The sum
// is the time between SIGTERM and SIGKILL.
const killGraceTime = 2 * time.Second

// supervisor replays the images of a configuration one after the other. Each replay is a child
// process. Therefore the supervisor notices when a replay ends for any reason, for example when
// the kernel kills it.
type supervisor struct {
	configuration
	configPath       string   // configuration file; empty: commandLineFlags contain the image
	commandLineFlags []string // arguments of lminit except -config, passed to every replay
	checkOnly        bool     // -check is given: only verify the images
	signals          chan os.Signal
	endSignal        os.Signal // the signal that ends the supervisor; nil: no signal yet
	imageRejected    bool      // the latest replay ended because its image is invalid
	usedDevices      []string  // names of the devices of the latest replay or preparation
}

// supervise replays the images of the configuration at configPath. If configPath is empty, it
// replays the image on the command line. It returns after the last image, after a failure without a
// restart, or after a signal. It returns the exit status, and the action that lminit must then
// perform if it is PID 1: halt, poweroff or reboot.
func (s *supervisor) supervise() (exit int, finalAction string) {
	o, _ := args.Parse(s.commandLineFlags)
	s.checkOnly, s.signals = o.CheckOnly, make(chan os.Signal, 1)
	// Each of these signals ends lminit. If lminit is PID 1, SIGUSR1 also halts the machine,
	// SIGUSR2 powers it off, and the other signals reboot it. The program init of busybox treats
	// SIGUSR1, SIGUSR2 and SIGTERM in the same way.
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1,
		unix.SIGUSR2)
	if err := s.readConfigurationAndChdir(); err != nil {
		s.logLine(err.Error())
		return hal.CodeOf(err).ExitStatus(), s.onFailure.finalAction
	}
	return s.replayUntilDone()
}

// readConfigurationAndChdir reads and checks the configuration at configPath. Then it changes the
// current directory to the directory of the configuration file, because paths in a configuration
// are relative to this directory. If configPath is empty, readConfigurationAndChdir prepares a
// single replay without arguments of its own: it gets only s.commandLineFlags, which every replay
// gets.
func (s *supervisor) readConfigurationAndChdir() error {
	s.configuration = defaultConfiguration
	if s.configPath == "" {
		s.replayArguments = [][]string{nil}
		return nil
	}
	text, err := readFile(s.configPath)
	if err != nil {
		return hal.FileFault(s.configPath, err)
	}
	if s.configuration, err = parseConfiguration(s.configPath, string(text)); err == nil {
		// Check the flags of the command line, too. args.Parse requires the path of an image, but
		// does not open it, so the word "image" suffices.
		_, err = args.Parse(append([]string{"image"}, s.commandLineFlags...))
	}
	if err != nil {
		return err
	}
	s.logLine(s.configPath + ": images: " + strconv.Itoa(len(s.replayArguments)))
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

// wouldFailAgain reports whether a restart would certainly fail again, because the failure was a
// usage error, a missing permission or an invalid image. After invalid input data it returns false,
// because the next data can be valid.
func (s *supervisor) wouldFailAgain(exit int) bool {
	return exit == hal.Usage.ExitStatus() || exit == hal.Denied.ExitStatus() || s.imageRejected
}

// runImagesOnce prepares the machine and replays the images in their order. It returns the exit
// status of the first preparation or replay that fails, or 0.
func (s *supervisor) runImagesOnce() (exit int) {
	s.imageRejected = false
	for i := 0; i < len(s.preparations) && !s.checkOnly; i++ {
		s.usedDevices = s.preparations[i].deviceNames()
		if err := s.preparations[i].execute(); err != nil {
			s.logLine(preparationFailureText(err))
			return hal.CodeOf(err).ExitStatus()
		}
	}
	for i := 0; i < len(s.replayArguments) && exit == 0 && s.endSignal == nil; i++ {
		s.usedDevices = s.deviceNames(s.replayArguments[i])
		exit = s.runReplay(s.replayArguments[i])
	}
	return exit
}

// preparationFailureText returns the text to print after a preparation has failed. For errors of
// the kernel, it omits the words "internal error", which would suggest a defect of lminit.
func preparationFailureText(err error) string {
	if hal.CodeOf(err) == hal.Internal {
		return faultReason(err)
	}
	return err.Error()
}

// deviceNames returns the names of the devices that the arguments of a replay contain.
func (s *supervisor) deviceNames(arguments []string) []string {
	o, _ := args.Parse(append(slices.Clone(arguments), s.commandLineFlags...))
	return o.Devices
}

// runReplay starts lmrun with the arguments in flags and in s.commandLineFlags, one of which is the
// path of the image. It waits for the end of lmrun and returns the exit status of lmrun.
func (s *supervisor) runReplay(flags []string) (exit int) {
	pid, reportFD, err := s.startReplay(flags)
	if err != nil {
		s.logLine("cannot start lmrun: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	defer unix.Close(reportFD)
	return s.awaitReplay(pid, stopDurationReport{fd: reportFD})
}

// startReplay starts the program lmrun in the directory of the program lminit. It returns the
// process id of lmrun, and the read end of a pipe. lmrun writes to this pipe how long it may need
// to stop (see stopDurationReport). lminit cannot compute this time from the image file, because
// the file may have been replaced after lmrun opened it.
func (s *supervisor) startReplay(flags []string) (pid, reportFD int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return 0, 0, err
	}
	words := append(append([]string{"lmrun", "-supervised"}, flags...), s.commandLineFlags...)
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

// awaitReplay waits for the end of a replay and returns the exit status of the replay. If lminit
// receives a signal, awaitReplay sends SIGTERM to the replay. If the replay then does not end
// within r.killDelay(), awaitReplay sends SIGKILL to the replay.
func (s *supervisor) awaitReplay(pid int, r stopDurationReport) (exit int) {
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
			// killDelay must read the report of lmrun after SIGTERM was sent. lmrun writes its
			// report before it installs its signal handler. Therefore, if there is no report now,
			// lmrun had no handler, and SIGTERM has ended it.
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

// stopDurationReport is the report of lmrun about the longest time that it may need to end after a
// signal. With the flag -supervised, lmrun writes this report to a pipe as soon as it has accepted
// the image.
type stopDurationReport struct {
	fd                int    // file descriptor of the read end of the pipe
	maxStopDurationUs uint64 // the reported time, in microseconds; 0 until isReceived is true
	isReceived        bool   // the report has been read from the pipe
}

// readIfWritten reads the report if lmrun has written it, and never waits. It returns true if this
// call or an earlier call has read the report.
func (r *stopDurationReport) readIfWritten() (received bool) {
	var line [32]byte
	if n, err := unix.Read(r.fd, line[:]); err == nil && n > 0 && line[n-1] == '\n' {
		r.maxStopDurationUs, r.isReceived = hal.ParseNumber(string(line[:n-1]), 10, math.MaxUint64)
	}
	return r.isReceived
}

// killDelay returns the time to wait between SIGTERM and SIGKILL. If lmrun has written the report,
// killDelay reads it and returns the sum of the reported time and killGraceTime. Otherwise it
// returns killGraceTime.
func (r *stopDurationReport) killDelay() time.Duration {
	r.readIfWritten()
	const maxUs = uint64(math.MaxInt64-killGraceTime) / uint64(time.Microsecond)
	return killGraceTime + time.Duration(min(r.maxStopDurationUs, maxUs))*time.Microsecond
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
// the replay, exitStatus returns:
//   - 0 for a SIGTERM from the supervisor,
//   - the exit status of hal.BusFault for SIGBUS,
//   - the exit status of hal.Internal for any other signal.
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
