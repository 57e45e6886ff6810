package main

import (
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
	pauseTime = 100 * time.Millisecond // between a failure and the next start
	graceTime = 2 * time.Second        // from SIGTERM to SIGKILL, beyond what the replay may take
)

// supervisor replays images one after the other, each in a child, so that
// whatever becomes of it, a seal that kills included, is noticed.
type supervisor struct {
	configuration
	path    string   // of the configuration, empty: a command line
	flags   []string // of the command line, for every image
	check   bool     // and nothing else
	signals chan os.Signal
	ended   os.Signal // the one that ends this, or nil
}

// supervise carries out a configuration, or a command line where path is
// empty, until that is done, has failed or is ended by a signal. It gives the
// exit status, and what is to become of the machine.
func (s *supervisor) supervise() (exit int, then string) {
	o, _ := args.Parse(s.flags)
	s.check, s.signals = o.Check, make(chan os.Signal, 1)
	// To process 1 they mean what they mean to busybox's init: SIGUSR1 halt,
	// SIGUSR2 power off, the others reboot.
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	if err := s.read(); err != nil {
		s.say(err.Error())
		return hal.CodeOf(err).Exit(), s.failure.then
	}
	return s.run()
}

// read reads the configuration; paths in it begin at its folder.
func (s *supervisor) read() error {
	s.configuration = powersOff
	if s.path == "" {
		s.replays = [][]string{nil}
		return nil
	}
	text, err := readFile(s.path)
	if err != nil {
		return hal.FileFault(s.path, err)
	}
	if s.configuration, err = configure(s.path, string(text)); err == nil {
		_, err = args.Parse(append([]string{"image"}, s.flags...)) // for each image
	}
	if err != nil {
		return err
	}
	s.say(s.path + ": images: " + strconv.Itoa(len(s.replays)))
	if slash := strings.LastIndexByte(s.path, '/'); slash >= 0 {
		err = hal.FileFault(s.path, unix.Chdir(s.path[:slash+1]))
	}
	return err
}

func (s *supervisor) run() (exit int, then string) {
	for {
		exit = s.attempt()
		if s.look() {
			break
		}
		end := &s.success
		if exit != 0 {
			end = &s.failure
		}
		if end.restarts == 0 || s.check || s.hopeless(exit) { // what is only checked is checked once
			return exit, end.then
		}
		if end.restarts > 0 {
			end.restarts--
		}
		s.say("restart after exit " + strconv.Itoa(exit))
		if exit != 0 {
			time.Sleep(pauseTime)
		}
		if s.look() {
			break
		}
	}
	if then = map[os.Signal]string{unix.SIGUSR1: "halt", unix.SIGUSR2: "poweroff"}[s.ended]; then == "" {
		then = "reboot"
	}
	return exit, then
}

// look takes a signal that came between two replays, and tells whether one
// ends this.
func (s *supervisor) look() bool {
	select {
	case s.ended = <-s.signals:
	default:
	}
	return s.ended != nil
}

// attempt makes the machine ready and replays every image, up to the first
// that fails.
func (s *supervisor) attempt() (exit int) {
	for i := 0; i < len(s.preparations) && !s.check; i++ {
		if err := s.preparations[i].prepare(); err != nil {
			s.say(err.Error())
			return hal.CodeOf(err).Exit()
		}
	}
	for i := 0; i < len(s.replays) && exit == 0 && s.ended == nil; i++ {
		exit = s.replay(s.replays[i])
	}
	return exit
}

// replay runs lmrun, which lies beside this program, for one image and gives its exit status.
func (s *supervisor) replay(flags []string) int {
	words := append(append([]string{"lmrun"}, flags...), s.flags...)
	self, err := os.Executable()
	if err != nil {
		s.say("finding lmrun: " + err.Error())
		return hal.Internal.Exit()
	}
	// One processor from the start: Go makes less for it, and starts sooner. Where
	// this process is killed, the next one must not find the device in use.
	pid, err := syscall.ForkExec(filepath.Join(filepath.Dir(self), "lmrun"), words, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2}, Env: append(syscall.Environ(), "GOMAXPROCS=1"),
		// A terminal's SIGINT comes once, from here.
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}})
	if err != nil {
		s.say("starting the replay: " + err.Error())
		return hal.Internal.Exit()
	}
	over := make(chan unix.WaitStatus)
	go reap(pid, over)
	for {
		select {
		case status := <-over:
			return s.exit(status)
		case s.ended = <-s.signals:
			s.say("ending on " + unix.SignalName(s.ended.(unix.Signal)))
			_ = unix.Kill(pid, unix.SIGTERM)
			grace, _ := longest(words[1:])
			time.AfterFunc(grace, func() { _ = unix.Kill(pid, unix.SIGKILL) })
		}
	}
}

// reap takes every child that ends, and those that process 1 inherits, until
// the one of pid has.
func reap(pid int, over chan<- unix.WaitStatus) {
	for {
		var status unix.WaitStatus
		if ended, err := unix.Wait4(-1, &status, 0, nil); ended == pid || err != nil && err != unix.EINTR {
			over <- status
			return
		}
	}
}

// exit is the status of a replay. One that a signal ended counts as a bus
// fault for SIGBUS, as done where that was asked for, else as internal.
func (s *supervisor) exit(status unix.WaitStatus) int {
	switch {
	case !status.Signaled():
		return status.ExitStatus()
	case s.ended != nil && status.Signal() == unix.SIGTERM:
		return 0
	}
	s.say("the replay was ended by signal " + unix.SignalName(status.Signal()))
	if status.Signal() == unix.SIGBUS {
		return hal.BusFault.Exit()
	}
	return hal.Internal.Exit()
}

// say tells people; standard output is the replay's.
func (s *supervisor) say(text string) { print(2, "lminit: "+text+"\n") }
