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
// /dev/tenstorrent/0.
func ResetThroughDriver(path string) (err error) {
	d := &device{scheme: "tt", locator: path}
	d.pciFunction.Name, d.config.fd = "tt:"+path, -1
	defer func() { _ = d.cleanups.callAll() }()
	t := &ttBackend{dev: d}
	t.fd, err = d.cleanups.openFile(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_APPEND)
	if err != nil {
		return syscallFault("open", path, err)
	}
	if err := t.identifyFunction(); err != nil {
		return err
	}
	if err := requestTTReset(t, ttResetASIC); err != nil {
		return err
	}
	for range ttResetPolls {
		command, _ := d.config.Load(configCommandOffset, 2)
		if command&ttResetMarker == 0 {
			break
		}
		d.Sleep(int64(ttResetInterval))
	}
	return requestTTReset(t, ttResetEnd)
}

// requestTTReset makes the ioctl RESET_DEVICE with the given flags. It is a function, because every
// lmrun would contain the name of a method of ttBackend.
func requestTTReset(t *ttBackend, flags uint32) error {
	d, reset := t.dev, ttResetRequest{outSize: 8, flags: flags}
	err := ioctlStruct(t.fd, ttResetDevice, structPointer(&reset), "RESET_DEVICE", d.locator)
	if err == nil && reset.result != 0 {
		err = d.fault(DeviceGone, "the driver cannot reset the device"+kernelLogAdvice)
	}
	return err
}
