package main

import (
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// watchdog is a Linux watchdog device (Documentation/watchdog/watchdog-api.rst in Linux). An open
// watchdog device resets the machine if no process writes to the device for the duration of its
// timeout. lmrun writes to the device after each run. Therefore the device resets the machine if a
// run hangs or if lmrun is killed.
type watchdog struct {
	path           string // path of the device; empty: no watchdog
	timeoutSeconds int    // timeout to set, in seconds; 0: keep the timeout of the device
	fd             int    // file descriptor of the device; -1: not open
	feedIntervalNs int64  // shortest time between two writes to the device, in nanoseconds
	lastFedNs      int64  // time of the latest write, from hal.Device.Now, in nanoseconds
}

// parseWatchdog parses the value of -watchdog, which is DEVICE or DEVICE=SECONDS. If the value is
// empty, parseWatchdog returns a watchdog that does nothing.
func parseWatchdog(text string) (watchdog, error) {
	path, digits := hal.Cut(text, '=')
	n, _ := hal.ParseNumber(digits, 10, 1<<16-1)
	if path != text && (n == 0 || path == "") {
		return watchdog{}, args.UsageError(
			"-watchdog takes DEVICE or DEVICE=SECONDS (1 to 65535), not " + text)
	}
	return watchdog{path: path, timeoutSeconds: int(n), fd: -1}, nil
}

// start opens the watchdog device and sets its timeout. From then on, the device resets the machine
// unless watchdog.feed is called in time. If w.path is empty, start does nothing.
func (w *watchdog) start() error {
	if w.path == "" {
		return nil
	}
	// If the path names a FIFO by mistake, and no process has opened the FIFO for reading,
	// O_NONBLOCK makes unix.Open fail with ENXIO instead of waiting.
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
		w.stop() // not for a regular file, because watchdog.stop would write a byte to it
	}
	unix.Close(fd)
	w.fd = -1
	return w.setupError(err)
}

// configureTimeout sets the timeout of the device to w.timeoutSeconds, unless w.timeoutSeconds is
// 0. It then reads the timeout of the device, and sets w.feedIntervalNs to a quarter of that
// timeout.
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

// setupError returns the error for a file that is not a watchdog device, or for a watchdog device
// that rejects the timeout.
func (w *watchdog) setupError(err error) error {
	reason := ": the watchdog rejects the timeout: "
	if err == unix.ENOTTY || err == unix.ENXIO {
		reason = ": not a watchdog device: "
	}
	return hal.NewFault(hal.NoDevice, w.path+reason+err.Error())
}

// keepaliveByte is the byte that watchdog.feed writes. Every byte restarts the timeout. The byte
// must not be 'V': after 'V', the driver may stop the watchdog (see watchdog.stop).
var keepaliveByte = [1]byte{}

// feed writes a byte to the device, so that the timeout of the device starts again. It does nothing
// if the previous write was less than w.feedIntervalNs nanoseconds ago. The parameter nowNs is the
// current time, as hal.Device.Now returns it.
func (w *watchdog) feed(nowNs int64) {
	if w.fd >= 0 && nowNs-w.lastFedNs >= w.feedIntervalNs {
		w.lastFedNs = nowNs
		_, _ = hal.Write(w.fd, keepaliveByte[:])
	}
}

// stop writes the byte 'V' to the device. After this byte, the driver stops the watchdog when the
// process ends and the kernel closes the device. Without this byte, the watchdog stays active and
// resets the machine. Some drivers ignore this byte.
func (w *watchdog) stop() {
	if w.fd >= 0 {
		_, _ = hal.Write(w.fd, []byte{'V'})
	}
}
