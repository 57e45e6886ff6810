package main

import (
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// watchdog is a Linux watchdog device (Linux, Documentation/watchdog/
// watchdog-api.rst) that resets the machine unless it is fed: every write to
// it does. It is fed after a run, so a run that hangs, and a process that has
// died, end in a reset.
type watchdog struct {
	path    string // empty: none
	seconds int    // of its timeout, 0: the one it has
	fd      int    // -1: not open
	every   int64  // nanoseconds between two feedings at least
	fed     int64
}

// parseWatchdog reads DEVICE or DEVICE=SECONDS.
func parseWatchdog(text string) (watchdog, error) {
	path, digits := hal.Cut(text, '=')
	n, _ := hal.ParseNumber(digits, 10, 1<<16-1)
	if path != text && (n == 0 || path == "") {
		return watchdog{}, args.UsageError("-watchdog takes DEVICE or DEVICE=SECONDS, not " + text)
	}
	return watchdog{path: path, seconds: int(n), fd: -1}, nil
}

// open starts the watchdog, if there is one. It does not wait for the reader of a pipe,
// and writes to no file that is not a device.
func (w *watchdog) probe() (err error) {
	if w.path == "" {
		return nil
	}
	w.fd, err = unix.Open(w.path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == unix.EBUSY {
		return hal.NewFault(hal.NoDevice, w.path+": another process feeds this watchdog")
	} else if err != nil && err != unix.ENXIO {
		return hal.FileFault(w.path, err)
	}
	var status unix.Stat_t
	if err == nil {
		err = unix.Fstat(w.fd, &status)
	}
	isDevice := status.Mode&unix.S_IFMT == unix.S_IFCHR
	if err == nil && !isDevice {
		err = unix.ENOTTY
	}
	if err == nil && w.seconds != 0 {
		err = unix.IoctlSetPointerInt(w.fd, unix.WDIOC_SETTIMEOUT, w.seconds)
	}
	timeout := 0
	if err == nil {
		timeout, err = unix.IoctlGetInt(w.fd, unix.WDIOC_GETTIMEOUT)
	}
	if w.every = int64(timeout) * 1e9 / 4; err != nil {
		if isDevice {
			w.stop()
		}
		unix.Close(w.fd)
		w.fd = -1
		const reason = ": no watchdog, or not one with this timeout: "
		return hal.NewFault(hal.NoDevice, w.path+reason+err.Error())
	}
	return nil
}

var keepalive = [1]byte{}

// feed puts the reset off, if a quarter of the time is over.
func (w *watchdog) feed(now int64) {
	if w.fd >= 0 && now-w.fed >= w.every {
		w.fed = now
		_, _ = hal.Write(w.fd, keepalive[:])
	}
}

// stop ends the watch in order. Some watchdogs cannot be stopped, and a
// process that does not stop its own leaves the machine to be reset.
func (w *watchdog) stop() {
	if w.fd >= 0 {
		_, _ = hal.Write(w.fd, []byte{'V'})
	}
}
