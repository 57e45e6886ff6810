//go:build backend_tt || !(backend_pci || backend_vfio)

package hal

// This file resets a device through Tenstorrent's driver, for a program that restarts replays.

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ttResetMarkerBit is the bit PCI_COMMAND_PARITY of the command register. The driver sets this
	// bit before a reset, and the reset clears it (tt-kmd pcie.c, set_reset_marker).
	ttResetMarkerBit = 1 << 6

	ttResetPollInterval = 10 * time.Millisecond // time between two reads of the marker bit
)

// ttResetPollsMax is the largest number of reads of the marker bit. After these reads,
// ResetThroughDriver makes the request POST_RESET, even if the bit is still set. In that case the
// driver rejects the request. Tests set another number.
var ttResetPollsMax = 1000

// ResetThroughDriver resets a device through Tenstorrent's driver, and then makes the driver set up
// the device again. `path` is the driver's file for the device, such as /dev/tenstorrent/0.
//
// ResetThroughDriver opens the file again for each request, for two reasons. tt-kmd 2.6 to 2.9
// reject all requests through a file that was opened before a reset. On a slot with hot-plug, the
// kernel removes the device and its file during the reset.
func ResetThroughDriver(path string) error {
	if err := requestTTReset(path, ttResetASIC); err != nil {
		return err
	}
	for i := 0; i < ttResetPollsMax && !isTTResetComplete(path); i++ {
		new(device).Sleep(int64(ttResetPollInterval))
	}
	return requestTTReset(path, ttResetEnd)
}

// openTTFunction opens the driver's file `path` and the configuration space of the device. The
// caller must call t.dev.cleanups.callAll, even after an error.
func openTTFunction(path string) (t *ttBackend, err error) {
	d := &device{scheme: "tt", locator: path}
	d.pciFunction.Name, d.config.fd = "tt:"+path, -1
	t = &ttBackend{dev: d}
	t.fd, err = d.cleanups.openFile(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_APPEND)
	if err != nil {
		return t, syscallFault("open", path, err)
	}
	return t, t.identifyFunction()
}

// isTTResetComplete reports whether the reset has cleared the marker bit of the device.
func isTTResetComplete(path string) bool {
	t, err := openTTFunction(path)
	command, code := uint64(0), OK
	if err == nil {
		command, code = t.dev.config.Load(configCommandOffset, 2)
	}
	_ = t.dev.cleanups.callAll()
	return err == nil && code == OK && command&ttResetMarkerBit == 0
}

// requestTTReset opens the driver's file, makes the ioctl RESET_DEVICE with the given flags, and
// closes the file. It is not a method of ttBackend: Go would store the name of the method in every
// program with the backend tt. lmrun, which never resets a device, would become larger.
func requestTTReset(path string, flags uint32) error {
	reset := ttResetRequest{outputCapacity: 8, flags: flags}
	t, err := openTTFunction(path)
	if err == nil {
		err = ioctlStruct(t.fd, ttResetDevice, structPointer(&reset), "RESET_DEVICE", path)
	}
	if err == nil && reset.result != 0 {
		err = t.dev.fault(DeviceGone, "the driver cannot reset the device"+kernelLogAdvice)
	}
	_ = t.dev.cleanups.callAll()
	return err
}
