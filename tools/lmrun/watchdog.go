//go:build !nowatchdog

package main

import (
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file opens, feeds and stops a watchdog device. In builds with the tag nowatchdog, the file
// watchdog_none.go replaces this file.

const (
	hasWatchdog   = true
	watchdogUsage = watchdogHelp
)

// watchdog is a Linux watchdog device (Documentation/watchdog/watchdog-api.rst in Linux). An open
// watchdog device resets the machine if no process writes to it for the time of its timeout.
// lmrun writes to the device after each run. Therefore the device resets the machine if a run
// hangs or if lmrun is killed.
type watchdog struct {
	path           string // path of the device; empty: no watchdog
	timeoutSeconds int    // timeout to set, in seconds; 0: keep the timeout of the device
	fd             int    // file descriptor of the device; -1: not open
	intervalNs     int64  // shortest time between two writes, in nanoseconds
	fedAtNs        int64  // time of the last write, in nanoseconds of hal.Device.Now
}

// parseWatchdog parses the value of -watchdog, which is DEVICE or DEVICE=SECONDS. If the value is
// empty, it returns a watchdog that does nothing.
func parseWatchdog(text string) (watchdog, error) {
	path, digits := hal.Cut(text, '=')
	n, _ := hal.ParseNumber(digits, 10, 1<<16-1)
	if path != text && (n == 0 || path == "") {
		return watchdog{}, args.UsageError(
			"-watchdog takes DEVICE or DEVICE=SECONDS (1 to 65535), not " + text)
	}
	return watchdog{path: path, timeoutSeconds: int(n), fd: -1}, nil
}

// start opens the watchdog device and sets its timeout. From then on, the device resets the
// machine if feed is not called in time. If path is empty, start does nothing.
func (w *watchdog) start() error {
	if w.path == "" {
		return nil
	}
	// O_NONBLOCK is for the mistake that the path is a FIFO. If no process has opened the FIFO
	// for reading, the open then fails with ENXIO instead of waiting.
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
		w.stop() // only for a device: stop would write to any other file, too
	}
	unix.Close(fd)
	w.fd = -1
	return w.setupError(err)
}

// configure sets the timeout of the device to timeoutSeconds, unless that is 0. It then reads the
// timeout of the device, and sets intervalNs to a quarter of that timeout.
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

// setupError returns the error for a file that is not a watchdog device, or for a watchdog device
// that rejects the timeout.
func (w *watchdog) setupError(err error) error {
	const reason = ": not a watchdog, or it rejects the timeout: "
	return hal.NewFault(hal.NoDevice, w.path+reason+err.Error())
}

// keepalive contains the byte that feed writes. The byte must not be 'V', which stop writes.
var keepalive = [1]byte{}

// feed writes to the device, which restarts its timeout. It does nothing if the last write was
// less than intervalNs nanoseconds ago. The parameter nowNs is the time that hal.Device.Now has
// returned.
func (w *watchdog) feed(nowNs int64) {
	if w.fd >= 0 && nowNs-w.fedAtNs >= w.intervalNs {
		w.fedAtNs = nowNs
		_, _ = hal.Write(w.fd, keepalive[:])
	}
}

// stop writes the byte 'V' to the device. The driver then stops the watchdog when the device is
// closed, which the kernel does at the end of the process. Without this byte, the watchdog stays
// active after the end of the process and resets the machine. Some drivers ignore the byte.
func (w *watchdog) stop() {
	if w.fd >= 0 {
		_, _ = hal.Write(w.fd, []byte{'V'})
	}
}
