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

// A replay is a process that executes lmrun for one image.

// killGraceTime is added to the stop time that lmrun reports, before SIGKILL.
const killGraceTime = 2 * time.Second

// supervisor replays images one after the other. Each replay is a child process, so that its end is
// noticed however it ends, for example if the kernel kills it.
type supervisor struct {
	configuration
	configPath       string   // empty: commandLineFlags contain the image
	commandLineFlags []string // passed to every replay
	checkOnly        bool     // -check
	signals          chan os.Signal
	endSignal        os.Signal // ends the supervisor; nil: none yet
	imageRejected    bool      // by the latest replay, as invalid
	usedDevices      []string  // of the latest replay or preparation
}

// supervise replays the images of the configuration, or the one of the command line, until none is
// left, a failure has no restart, or a signal arrives. finalAction is for PID 1: halt, poweroff or
// reboot.
func (s *supervisor) supervise() (exit int, finalAction string) {
	o, _ := args.Parse(s.commandLineFlags)
	s.checkOnly, s.signals = o.CheckOnly, make(chan os.Signal, 1)
	// Each of these ends lminit. As in busybox's init, SIGUSR1 makes PID 1 halt the machine,
	// SIGUSR2 power it off, and the others reboot it.
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1,
		unix.SIGUSR2)
	if err := s.readConfigurationAndChdir(); err != nil {
		s.logLine(err.Error())
		return hal.CodeOf(err).ExitStatus(), s.onFailure.finalAction
	}
	return s.replayUntilDone()
}

// readConfigurationAndChdir also enters the directory of the configuration, because its paths are
// relative to it. Without a configuration, one replay gets s.commandLineFlags.
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
		// args.Parse does not open the image, so the word "image" suffices.
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

// replayUntilDone returns the exit status of the last attempt and the final action.
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

// pollSignal reports whether a signal has arrived, without waiting, and keeps it in s.endSignal.
func (s *supervisor) pollSignal() (received bool) {
	select {
	case s.endSignal = <-s.signals:
	default:
	}
	return s.endSignal != nil
}

// wouldFailAgain reports whether a restart certainly fails again. After invalid input data it may
// succeed: the next data can be valid.
func (s *supervisor) wouldFailAgain(exit int) bool {
	return exit == hal.Usage.ExitStatus() || exit == hal.Denied.ExitStatus() || s.imageRejected
}

// runImagesOnce returns the exit status of the first preparation or replay that fails, or 0.
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

// preparationFailureText omits "internal error" from errors of the kernel, which are no defect of
// lminit.
func preparationFailureText(err error) string {
	if hal.CodeOf(err) == hal.Internal {
		return faultReason(err)
	}
	return err.Error()
}

func (s *supervisor) deviceNames(arguments []string) []string {
	return s.options(arguments).Devices
}

func (s *supervisor) options(arguments []string) args.Options {
	o, _ := args.Parse(append(slices.Clone(arguments), s.commandLineFlags...))
	return o
}

func (s *supervisor) runReplay(flags []string) (exit int) {
	pid, pipe, err := s.startReplay(flags)
	if err != nil {
		s.logLine("cannot start lmrun: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	defer unix.Close(pipe)
	return s.awaitReplay(pid, pipe)
}

// replayProgram returns lmrun-signed for an image with a key, if it is there, and lmrun otherwise:
// an lmrun that cannot check signatures rejects -key.
func (s *supervisor) replayProgram(directory string, flags []string) string {
	signed := filepath.Join(directory, "lmrun-signed")
	if s.options(flags).KeyFile != "" && unix.Access(signed, unix.X_OK) == nil {
		return signed
	}
	return filepath.Join(directory, "lmrun")
}

// startReplay starts lmrun from the directory of lminit. reportFD is where it reports how long it
// may need to stop: lminit cannot compute that, because the image's file may have been replaced
// since.
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
			// If lminit is killed, the kernel also kills lmrun, which would still use the device
			// when lminit is started again.
			Pdeathsig: syscall.SIGKILL,
			// In its own process group, lmrun gets no SIGINT of Control-C: lminit sends it SIGTERM.
			Setpgid: true,
		},
	}
	pid, err = syscall.ForkExec(s.replayProgram(filepath.Dir(self), flags), words, attributes)
	unix.Close(pipe[1])
	if err != nil {
		unix.Close(pipe[0])
	}
	return pid, pipe[0], err
}

// awaitReplay passes a signal on as SIGTERM, and kills the replay after killDelay.
func (s *supervisor) awaitReplay(pid, pipe int) (exit int) {
	ended := make(chan waitResult)
	go reapChildren(pid, ended)
	var timeout <-chan time.Time
	for {
		select {
		case w := <-ended:
			exit := s.exitStatus(w)
			_, imageID, accepted := readReport(pipe)
			if exit != 0 && imageID != "" {
				s.logLine("image " + imageID + " ended with exit status " + strconv.Itoa(exit))
			}
			s.imageRejected = exit == hal.BadImage.ExitStatus() && !accepted
			return exit
		case s.endSignal = <-s.signals:
			s.logLine("stopping after " + unix.SignalName(s.endSignal.(unix.Signal)))
			_ = unix.Kill(pid, unix.SIGTERM)
			// Only after SIGTERM: lmrun reports before it installs its handler, so without a report
			// there was no handler, and SIGTERM has ended it.
			if timeout == nil {
				timeout = time.After(killDelay(pipe))
			}
		case <-timeout:
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// replayEnvironment removes the variables of Go's runtime: some cause system calls that a sealed
// lmrun must not make. With GOMAXPROCS=1, Go starts faster and needs fewer threads and less memory.
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

// readReport reads from the pipe how long lmrun may need to end after a signal, and the checksum of
// the image. With -supervised, lmrun writes both as soon as it has accepted the image. readReport
// never waits.
func readReport(pipe int) (us uint64, imageID string, ok bool) {
	var lines [64]byte
	n, _ := unix.Read(pipe, lines[:])
	first, second, ok := strings.Cut(string(lines[:max(n, 0)]), "\n")
	if ok {
		us, ok = hal.ParseNumber(first, 10, math.MaxUint64)
	}
	return us, strings.TrimSuffix(second, "\n"), ok
}

// killDelay returns the time between SIGTERM and SIGKILL: what lmrun has written to the pipe, and
// killGraceTime.
func killDelay(pipe int) time.Duration {
	us, _, _ := readReport(pipe)
	const maxUs = uint64(math.MaxInt64-killGraceTime) / uint64(time.Microsecond)
	return killGraceTime + time.Duration(min(us, maxUs))*time.Microsecond
}

// waitResult is what wait4(2) returned for a replay.
type waitResult struct {
	status unix.WaitStatus
	err    error
}

// reapChildren waits for the replay. It reaps all other children, too: PID 1 is the parent of
// orphaned processes.
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

// exitStatus returns the status of a replay. The supervisor's own SIGTERM is a success, and SIGBUS,
// of a device that is gone, is hal.BusFault.
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

// logLine uses standard error, because lmrun can write tensor data to standard output.
func (s *supervisor) logLine(text string) { printLine("lminit: " + text) }
