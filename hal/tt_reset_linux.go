//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// This file resets a device through Tenstorrent's driver, for a program that restarts replays.

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ttResetMarker is the bit PCI_COMMAND_PARITY of the command register. The driver sets this bit
	// before a reset, and the reset clears it (tt-kmd pcie.c, set_reset_marker).
	ttResetMarker = 1 << 6

	ttResetInterval = 10 * time.Millisecond // time between two reads of the marker
)

// ttResetPolls is the largest number of reads of the marker. After these reads, ResetThroughDriver
// asks the driver to set up the device. If the marker is still set, the driver rejects this
// request. Tests set another number.
var ttResetPolls = 1000

// ResetThroughDriver resets a device through Tenstorrent's driver. Then it makes the driver set up
// the device again. The parameter path is the driver's file for the device, such as
// /dev/tenstorrent/0. ResetThroughDriver opens the file again for each request: tt-kmd 2.6 to 2.9
// reject all requests through a file that was opened before a reset, and on a slot with hot-plug
// the kernel removes the device and its file during the reset.
func ResetThroughDriver(path string) error {
	if err := requestTTReset(path, ttResetASIC); err != nil {
		return err
	}
	for i := 0; i < ttResetPolls && !isTTResetComplete(path); i++ {
		new(device).Sleep(int64(ttResetInterval))
	}
	return requestTTReset(path, ttResetEnd)
}

// openTTFunction opens the driver's file and the configuration space of the device. The caller must
// call the cleanups of the device, also after an error.
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

// isTTResetComplete reports whether the device has cleared the marker.
func isTTResetComplete(path string) bool {
	t, err := openTTFunction(path)
	command, code := uint64(0), OK
	if err == nil {
		command, code = t.dev.config.Load(configCommandOffset, 2)
	}
	_ = t.dev.cleanups.callAll()
	return err == nil && code == OK && command&ttResetMarker == 0
}

// requestTTReset opens the driver's file, makes the ioctl RESET_DEVICE with the given flags, and
// closes the file. It is a function, because every lmrun would contain the name of a method of
// ttBackend.
func requestTTReset(path string, flags uint32) error {
	reset := ttResetRequest{outSize: 8, flags: flags}
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
