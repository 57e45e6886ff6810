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

// supervisor replays images one after the other, each in a child, so that
// whatever becomes of it, a seal that kills included, is noticed.
type supervisor struct {
	configuration
	path    string   // of the configuration, empty: a command line
	flags   []string // of the command line, for every image
	check   bool     // and nothing else
	signals chan os.Signal
	ended   os.Signal // the one that ends this, or nil
	refused bool      // the last replay refused its image, for which no restart is a remedy
}

// supervise carries out a configuration, or a command line where path is
// empty, until that is done, has failed or is ended by a signal. It gives the
// exit status, and what is to become of the machine.
func (s *supervisor) supervise() (exit int, then string) {
	o, _ := args.Parse(s.flags)
	s.check, s.signals = o.Check, make(chan os.Signal, 1)
	// To process 1 they mean what they mean to busybox's init: SIGUSR1 halt,
	// SIGUSR2 power off, the others reboot.
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1,
		unix.SIGUSR2)
	if err := s.read(); err != nil {
		s.log(err.Error())
		return hal.CodeOf(err).ExitStatus(), s.failure.then
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
	if s.configuration, err = parseConfiguration(s.path, string(text)); err == nil {
		_, err = args.Parse(append([]string{"image"}, s.flags...)) // for each image
	}
	if err != nil {
		return err
	}
	s.log(s.path + ": images: " + strconv.Itoa(len(s.replays)))
	if slash := strings.LastIndexByte(s.path, '/'); slash >= 0 {
		err = hal.FileFault(s.path, unix.Chdir(s.path[:slash+1]))
	}
	return err
}

func (s *supervisor) run() (exit int, then string) {
	for {
		exit = s.runImagesOnce()
		if s.pollSignal() {
			break
		}
		end := &s.success
		if exit != 0 {
			end = &s.failure
		}
		// what is only checked is checked once
		if end.restarts == 0 || s.check || s.hopeless(exit) {
			return exit, end.then
		}
		if end.restarts > 0 {
			end.restarts--
		}
		s.log("restart after exit " + strconv.Itoa(exit))
		if exit != 0 {
			time.Sleep(restartPause)
		}
		if s.pollSignal() {
			break
		}
	}
	if then = map[os.Signal]string{unix.SIGUSR1: "halt",
		unix.SIGUSR2: "poweroff"}[s.ended]; then == "" {
		then = "reboot"
	}
	return exit, then
}

// look takes a signal that came between two replays, and tells whether one
// ends this.
func (s *supervisor) pollSignal() bool {
	select {
	case s.ended = <-s.signals:
	default:
	}
	return s.ended != nil
}

// hopeless reports whether a failure would come again: a mistake, what is not permitted,
// or an image that was refused. Data of an input that did not fit may fit the next time.
func (s *supervisor) hopeless(exit int) bool {
	return exit == hal.Usage.ExitStatus() || exit == hal.Denied.ExitStatus() || s.refused
}

// attempt makes the machine ready and replays every image, up to the first
// that fails.
func (s *supervisor) runImagesOnce() (exit int) {
	s.refused = false
	for i := 0; i < len(s.preparations) && !s.check; i++ {
		if err := s.preparations[i].prepare(); err != nil {
			s.log(err.Error())
			return hal.CodeOf(err).ExitStatus()
		}
	}
	for i := 0; i < len(s.replays) && exit == 0 && s.ended == nil; i++ {
		exit = s.runReplay(s.replays[i])
	}
	return exit
}

// replay runs lmrun, which lies next to this program, for one image and returns its exit
// status. lmrun reports by a pipe that it accepts the image, and how long its end can
// take. What the file is by the time of the end is not looked at.
func (s *supervisor) runReplay(flags []string) int {
	words := append(append([]string{"lmrun", "-supervised"}, flags...), s.flags...)
	self, err := os.Executable()
	if err != nil {
		s.log("finding lmrun: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		s.log("making a pipe for the replay: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	defer unix.Close(pipe[0])
	// Where this process is killed, the next one must not find the device in use.
	pid, err := syscall.ForkExec(filepath.Join(filepath.Dir(self), "lmrun"), words,
		&syscall.ProcAttr{
			Files: []uintptr{0, 1, 2, uintptr(pipe[1])}, Env: environment(syscall.Environ()),
			// A terminal's SIGINT comes once, from here.
			Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}})
	unix.Close(pipe[1])
	if err != nil {
		s.log("starting the replay: " + err.Error())
		return hal.Internal.ExitStatus()
	}
	over := make(chan waited)
	go reapChildren(pid, over)
	r := report{fd: pipe[0]}
	var timeout <-chan time.Time
	for {
		select {
		case w := <-over:
			exit := s.exitStatus(w)
			s.refused = exit == hal.BadImage.ExitStatus() && !r.read()
			return exit
		case s.ended = <-s.signals:
			s.log("ending on " + unix.SignalName(s.ended.(unix.Signal)))
			_ = unix.Kill(pid, unix.SIGTERM)
			// Read after the signal: a replay that has not reported by now has not taken
			// over the signal either, which therefore ends it.
			if timeout == nil {
				timeout = time.After(r.grace())
			}
		case <-timeout:
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// environment leaves out the variables of Go's own, of which a sealed replay could die,
// and adds one: with one processor from the start, Go makes less, and starts sooner.
func environment(variables []string) []string {
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

// report is what lmrun -supervised writes: that it accepts the image, by the number of
// microseconds that its end can take after a signal.
type report struct {
	fd   int
	us   uint64
	seen bool
}

// read reads the report, and reports whether it has come.
func (r *report) read() bool {
	var line [32]byte
	if n, err := unix.Read(r.fd, line[:]); err == nil && n > 0 && line[n-1] == '\n' {
		r.us, r.seen = hal.ParseNumber(string(line[:n-1]), 10, math.MaxUint64)
	}
	return r.seen
}

// grace returns the time from SIGTERM to SIGKILL. Without a report it is the shortest.
func (r *report) grace() time.Duration {
	r.read()
	const most = uint64(math.MaxInt64-graceTime) / uint64(time.Microsecond)
	return graceTime + time.Duration(min(r.us, most))*time.Microsecond
}

// waited is how a replay ended, or why that is not known.
type waited struct {
	status unix.WaitStatus
	err    error
}

// reap waits for every child that ends, also those that process 1 inherits, until the
// one of pid has.
func reapChildren(pid int, over chan<- waited) {
	for {
		var w waited
		var ended int
		ended, w.err = unix.Wait4(-1, &w.status, 0, nil)
		if ended == pid || w.err != nil && w.err != unix.EINTR {
			over <- w
			return
		}
	}
}

// exit returns the exit status of a replay. One that a signal ended counts as a bus
// fault for SIGBUS, as done where that was asked for, else as internal.
func (s *supervisor) exitStatus(w waited) int {
	switch {
	case w.err != nil:
		s.log("waiting for the replay: " + w.err.Error())
		return hal.Internal.ExitStatus()
	case !w.status.Signaled():
		return w.status.ExitStatus()
	case s.ended != nil && w.status.Signal() == unix.SIGTERM:
		return 0
	}
	s.log("the replay was ended by signal " + unix.SignalName(w.status.Signal()))
	if w.status.Signal() == unix.SIGBUS {
		return hal.BusFault.ExitStatus()
	}
	return hal.Internal.ExitStatus()
}

// say tells people; standard output is the replay's.
func (s *supervisor) log(text string) { printLine("lminit: " + text) }
