//go:build !nowatchdog

package main

import (
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file feeds a watchdog device. The build tag nowatchdog leaves this file out.

const (
	hasWatchdog   = true
	watchdogUsage = watchdogHelp
)

// watchdog is a Linux watchdog device (Linux, Documentation/watchdog/watchdog-api.rst). The
// device resets the machine if nothing is written to it for the time of its timeout. lmrun
// writes to it after each run, therefore the machine is reset if a run hangs or lmrun dies.
type watchdog struct {
	path           string // path of the device; empty: no watchdog
	timeoutSeconds int    // timeout to set; 0: keep the timeout of the device
	fd             int    // file descriptor of the device; -1: not open
	intervalNs     int64  // shortest time between two writes, in nanoseconds
	fedAtNs        int64  // time of the last write, as hal.Device.Now returns it
}

// parseWatchdog parses the value of -watchdog, which is DEVICE or DEVICE=SECONDS.
func parseWatchdog(text string) (watchdog, error) {
	path, digits := hal.Cut(text, '=')
	n, _ := hal.ParseNumber(digits, 10, 1<<16-1)
	if path != text && (n == 0 || path == "") {
		return watchdog{}, args.UsageError("-watchdog takes DEVICE or DEVICE=SECONDS, not " + text)
	}
	return watchdog{path: path, timeoutSeconds: int(n), fd: -1}, nil
}

// start opens and configures the watchdog if path is set. Opening the device starts the timeout.
func (w *watchdog) start() error {
	if w.path == "" {
		return nil
	}
	// With O_NONBLOCK, opening a pipe without a reader fails with ENXIO instead of waiting.
	const flags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Open(w.path, flags, 0)
	switch err {
	case nil:
	case unix.EBUSY:
		const reason = ": another process uses this watchdog; stop that process"
		return hal.NewFault(hal.NoDevice, w.path+reason)
	case unix.ENXIO:
		return w.setupError(err)
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
		w.stop() // must not be called for other files, since it writes to them
	}
	unix.Close(fd)
	w.fd = -1
	return w.setupError(err)
}

// configure sets the timeout if one was given. It then sets the interval between two writes to a
// quarter of the device's timeout.
func (w *watchdog) configure() error {
	if w.timeoutSeconds != 0 {
		err := unix.IoctlSetPointerInt(w.fd, unix.WDIOC_SETTIMEOUT, w.timeoutSeconds)
		if err != nil {
			return err
		}
	}
	timeout, err := unix.IoctlGetInt(w.fd, unix.WDIOC_GETTIMEOUT)
	w.intervalNs = int64(timeout) * 1e9 / 4
	return err
}

// setupError returns the error for a device that could not be configured.
func (w *watchdog) setupError(err error) error {
	const reason = ": not a watchdog, or it rejects the timeout: "
	return hal.NewFault(hal.NoDevice, w.path+reason+err.Error())
}

// keepalive is the byte that the method feed writes. The method stop writes 'V' instead.
var keepalive = [1]byte{}

// feed writes to the device, unless the last write was less than intervalNs ago.
func (w *watchdog) feed(nowNs int64) {
	if w.fd >= 0 && nowNs-w.fedAtNs >= w.intervalNs {
		w.fedAtNs = nowNs
		_, _ = hal.Write(w.fd, keepalive[:])
	}
}

// stop writes 'V', after which closing the device stops the watchdog. Without 'V', the watchdog
// continues after the process has ended, and resets the machine. Some drivers ignore 'V'.
func (w *watchdog) stop() {
	if w.fd >= 0 {
		_, _ = hal.Write(w.fd, []byte{'V'})
	}
}
