package main

import (
	"lightmetal/hal"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// watchdog is a Linux watchdog device (Linux, Documentation/watchdog/
// watchdog-api.rst) that resets the machine unless it is fed: every write to
// it does. It is fed after a run, so a run that hangs, and a process that has
// died, end in a reset.
type watchdog struct {
	fd    int   // -1: none
	every int64 // nanoseconds between two feedings at least
	fed   int64
}

// openWatchdog starts a watchdog, DEVICE or DEVICE=SECONDS. Without seconds it
// keeps the timeout it has.
func openWatchdog(text string) (watchdog, error) {
	w := watchdog{fd: -1}
	path, seconds, err := parseWatchdog(text)
	if err != nil || path == "" {
		return w, err
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	switch {
	case err == unix.EBUSY:
		return w, &hal.Fault{Code: hal.NoDevice, Reason: path + ": another process feeds this watchdog"}
	case err != nil:
		return w, hal.FileFault(path, err)
	}
	if seconds != 0 {
		err = unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, seconds)
	}
	if err == nil {
		var timeout int
		timeout, err = unix.IoctlGetInt(fd, unix.WDIOC_GETTIMEOUT)
		w.fd, w.every = fd, int64(timeout)*1e9/4
	}
	if err != nil {
		_, _ = hal.Write(fd, []byte{'V'})
		unix.Close(fd)
		w.fd = -1
		return w, &hal.Fault{Code: hal.NoDevice, Reason: path + ": no watchdog, or not one with this timeout: " + err.Error()}
	}
	return w, nil
}

// parseWatchdog reads DEVICE or DEVICE=SECONDS; 0 seconds where none are given.
func parseWatchdog(text string) (path string, seconds int, err error) {
	path, digits := hal.Cut(text, '=')
	n, _ := files.Number(digits, 1<<16-1)
	if path != text && (n == 0 || path == "") {
		return "", 0, args.Bad("-watchdog takes DEVICE or DEVICE=SECONDS, not " + text)
	}
	return path, int(n), nil
}

var food = [1]byte{}

// feed puts the reset off, if a quarter of the time is over.
func (w *watchdog) feed(now int64) {
	if w.fd >= 0 && now-w.fed >= w.every {
		w.fed = now
		_, _ = hal.Write(w.fd, food[:])
	}
}

// stop ends the watch in order. Some watchdogs cannot be stopped, and a
// process that does not stop its own leaves the machine to be reset.
func (w *watchdog) stop() {
	if w.fd >= 0 {
		_, _ = hal.Write(w.fd, []byte{'V'})
	}
}
