package hal

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// PCI_COMMAND_PARITY: the driver sets it before a reset, which clears it (tt-kmd pcie.c,
	// set_reset_marker).
	ttResetMarkerBit = 1 << 6

	ttResetPollInterval = 10 * time.Millisecond // between two reads of the marker bit
)

// After so many reads of the marker bit, POST_RESET is requested anyway; the driver rejects it if
// the bit is still set. Tests change the number.
var ttResetPollsMax = 1000

// ResetThroughDriver resets a device, and makes the driver set it up again. `path` names the
// driver's file, such as /dev/tenstorrent/0.
//
// It opens the file for each request: tt-kmd 2.6 to 2.9 reject all requests through a file that was
// opened before a reset, and with hot-plug the kernel removes the file during the reset.
func ResetThroughDriver(path string) error {
	err := NewFault(NoDevice, "tt:"+path+
		": this program was built without the backend tt; build it with `-tags backend_tt`")
	if hasTT {
		err = resetTT(path)
	}
	return err
}

func resetTT(path string) error {
	if err := requestTTReset(path, ttResetASIC); err != nil {
		return err
	}
	for i := 0; i < ttResetPollsMax && !isTTResetComplete(path); i++ {
		new(device).Sleep(int64(ttResetPollInterval))
	}
	return requestTTReset(path, ttResetEnd)
}

// The caller of openTTFunction must call t.dev.cleanups.callAll, even after an error.
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

func isTTResetComplete(path string) bool {
	t, err := openTTFunction(path)
	command, code := uint64(0), OK
	if err == nil {
		command, code = t.dev.config.Load(configCommandOffset, 2)
	}
	_ = t.dev.cleanups.callAll()
	return err == nil && code == OK && command&ttResetMarkerBit == 0
}

// requestTTReset is no method of ttBackend: Go would store the name of a method in every program
// with this backend.
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
