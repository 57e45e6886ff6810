package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// watchdog is a Linux watchdog device (Documentation/watchdog/watchdog-api.rst in Linux): it resets
// the machine if no process writes to it for the duration of its timeout. lmrun writes after each
// run, so a run that hangs, or a killed lmrun, resets the machine.
type watchdog struct {
	path           string // empty: no watchdog
	timeoutSeconds int    // 0: keep that of the device
	fd             int    // -1: not open
	feedIntervalNs int64  // shortest time between two writes
	lastFedNs      int64  // by hal.Device.Now
}

// parseWatchdog parses DEVICE or DEVICE=SECONDS. For an empty text, the watchdog does nothing.
func parseWatchdog(text string) (watchdog, error) {
	path, digits := hal.Cut(text, '=')
	n, _ := hal.ParseNumber(digits, 10, 1<<16-1)
	if path != text && (n == 0 || path == "") {
		return watchdog{}, args.UsageError(
			"-watchdog takes DEVICE or DEVICE=SECONDS (1 to 65535), not " + text)
	}
	return watchdog{path: path, timeoutSeconds: int(n), fd: -1}, nil
}

func (w *watchdog) start() error {
	if w.path == "" {
		return nil
	}
	// With O_NONBLOCK, the path of a FIFO without a reader is ENXIO instead of a wait.
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
		err = w.configureTimeout()
	}
	if err == nil {
		return nil
	}
	if isDevice {
		w.stop() // not for a regular file, to which stop would write a byte
	}
	unix.Close(fd)
	w.fd = -1
	return w.setupError(err)
}

func (w *watchdog) configureTimeout() error {
	if w.timeoutSeconds != 0 {
		err := unix.IoctlSetPointerInt(w.fd, unix.WDIOC_SETTIMEOUT, w.timeoutSeconds)
		if err != nil {
			return err
		}
	}
	timeout, err := unix.IoctlGetInt(w.fd, unix.WDIOC_GETTIMEOUT)
	w.feedIntervalNs = int64(timeout) * 1e9 / 4
	return err
}

// setupError returns the error for a file that is not a watchdog device, or that rejects the
// timeout.
func (w *watchdog) setupError(err error) error {
	reason := fbs.Text(": the watchdog rejects the timeout of %d s: ", uint64(w.timeoutSeconds)) +
		err.Error() + "; name another with -watchdog DEVICE=SECONDS"
	if err == unix.ENOTTY || err == unix.ENXIO || w.timeoutSeconds == 0 {
		reason = " is not a watchdog device: " + err.Error() + "; name another with -watchdog"
	}
	return hal.NewFault(hal.NoDevice, w.path+reason)
}

// keepaliveByte restarts the timeout, as every byte does. It must not be 'V' (see watchdog.stop).
var keepaliveByte = [1]byte{}

// feed restarts the timeout, unless it did so within the last w.feedIntervalNs.
func (w *watchdog) feed(nowNs int64) {
	if w.fd >= 0 && nowNs-w.lastFedNs >= w.feedIntervalNs {
		w.lastFedNs = nowNs
		_, _ = hal.Write(w.fd, keepaliveByte[:])
	}
}

// stop writes 'V', after which the driver stops the watchdog when the kernel closes the device.
// Some drivers ignore it.
func (w *watchdog) stop() {
	if w.fd >= 0 {
		_, _ = hal.Write(w.fd, []byte{'V'})
	}
}
