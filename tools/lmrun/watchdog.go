//go:build !nowatchdog

package main

import (
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file feeds a watchdog device. The build tag nowatchdog leaves it out.

const (
	hasWatchdog   = true
	watchdogUsage = watchdogHelp
)

// watchdog is a Linux watchdog device (Linux, Documentation/watchdog/watchdog-api.rst).
// It resets the machine unless it is written to in time. It is fed after each run, so that
// a run that hangs, and a process that has died, end in a reset.
type watchdog struct {
	path       string // empty: none
	seconds    int    // timeout to set, 0: keep that of the device
	fd         int    // -1: not open
	intervalNs int64  // shortest time between two writes
	fedAt      int64  // time of the last write
}

// parseWatchdog parses DEVICE or DEVICE=SECONDS.
func parseWatchdog(text string) (watchdog, error) {
	path, digits := hal.Cut(text, '=')
	n, _ := hal.ParseNumber(digits, 10, 1<<16-1)
	if path != text && (n == 0 || path == "") {
		return watchdog{}, args.UsageError("-watchdog takes DEVICE or DEVICE=SECONDS, not " + text)
	}
	return watchdog{path: path, seconds: int(n), fd: -1}, nil
}

// start opens and configures the watchdog, if there is one. Opening a watchdog starts it.
func (w *watchdog) start() error {
	if w.path == "" {
		return nil
	}
	// Without waiting for the reader of a pipe, which fails with ENXIO.
	const flags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Open(w.path, flags, 0)
	switch err {
	case nil:
	case unix.EBUSY:
		return hal.NewFault(hal.NoDevice, w.path+": another process feeds this watchdog; stop it")
	case unix.ENXIO:
		return w.fault(err)
	default:
		return hal.FileFault(w.path, err)
	}
	var status unix.Stat_t
	err = unix.Fstat(fd, &status)
	isDevice := status.Mode&unix.S_IFMT == unix.S_IFCHR
	if err == nil && !isDevice {
		err = unix.ENOTTY
	}
	w.fd = fd
	if err == nil {
		err = w.configure()
	}
	if err == nil {
		return nil
	}
	if isDevice {
		w.stop() // a file that is not a device must not be written to
	}
	unix.Close(fd)
	w.fd = -1
	return w.fault(err)
}

// configure sets the timeout, and derives from the device's timeout when to feed it.
func (w *watchdog) configure() error {
	if w.seconds != 0 {
		if err := unix.IoctlSetPointerInt(w.fd, unix.WDIOC_SETTIMEOUT, w.seconds); err != nil {
			return err
		}
	}
	timeout, err := unix.IoctlGetInt(w.fd, unix.WDIOC_GETTIMEOUT)
	w.intervalNs = int64(timeout) * 1e9 / 4
	return err
}

func (w *watchdog) fault(err error) error {
	const reason = ": not a watchdog, or not one with this timeout: "
	return hal.NewFault(hal.NoDevice, w.path+reason+err.Error())
}

var keepalive = [1]byte{}

// feed postpones the reset, if a quarter of the timeout has passed since it last did.
func (w *watchdog) feed(now int64) {
	if w.fd >= 0 && now-w.fedAt >= w.intervalNs {
		w.fedAt = now
		_, _ = hal.Write(w.fd, keepalive[:])
	}
}

// stop stops the watchdog. Some watchdogs cannot be stopped. The end of a process that has
// not stopped its watchdog lets it reset the machine.
func (w *watchdog) stop() {
	if w.fd >= 0 {
		_, _ = hal.Write(w.fd, []byte{'V'})
	}
}
