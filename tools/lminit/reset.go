package main

import (
	"strings"
	"time"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// The steps that make a failed device work again.

const recoveryStepSyntax = "steps such as `restart 2, reset function 1 wait 2s, rescan 1, reboot`"

const slotOffDuration = time.Second // of power-cycle

// reappearTimeout is how long a PCI function may be absent after a step. Tests set another time.
var reappearTimeout = 5 * time.Second

// stepTypes are the steps of `on-failure`. The kernel waits in a step until the reset is done and
// the PCI link is up. In the pause, the firmware of the device starts.
var stepTypes = [...]stepType{
	{"restart", nil, 100 * time.Millisecond},
	{"reset function", resetPCIFunction, 100 * time.Millisecond},
	{"reset bus", resetPCIBus, time.Second},
	{"rescan", removeAndRescan, time.Second},
	{"power-cycle", powerCycleSlot, 5 * time.Second},
}

// performOn performs the step, waits until the kernel has found the function again, and binds its
// driver again: some steps make the kernel remove the function.
func (k *stepType) performOn(device string) error {
	address, err := pciAddress(device)
	if err != nil {
		return err
	}
	function := pciBusPath() + "/devices/" + address
	driver := hal.LinkBaseName(function + "/driver")
	if err := k.perform(device, address); err != nil || driver == "" {
		return err
	}
	const interval = 10 * time.Millisecond
	isAbsent := func() bool { return unix.Access(function, unix.F_OK) != nil }
	for left := reappearTimeout; left > 0 && isAbsent(); left -= interval {
		time.Sleep(interval)
	}
	return bindDriver([]string{driver, address})
}

// pciAddress returns the PCI address of a device, such as vfio:0000:01:00.0 or
// tt:/dev/tenstorrent/0.
func pciAddress(device string) (address string, err error) {
	scheme, locator, _ := strings.Cut(device, ":")
	if scheme != "tt" {
		return locator, nil
	}
	node := strings.ReplaceAll(strings.TrimPrefix(locator, "/dev/"), "/", "!")
	address = hal.LinkBaseName(sysfsPath + "/class/tenstorrent/" + node + "/device")
	if address == "" {
		return "", hal.NewFault(hal.NoDevice, sysfsPath+"/class/tenstorrent has no "+device+
			"; load the driver with `modprobe tenstorrent`")
	}
	return address, nil
}

// resetPCIFunction resets one device: Tenstorrent's driver does it for a name with tt:, and
// otherwise the kernel, by a function level reset if there is one (sysfs file `reset_method`, Linux
// 5.15 and later).
func resetPCIFunction(device, address string) error {
	if path, ok := strings.CutPrefix(device, "tt:"); ok {
		return hal.ResetThroughDriver(path)
	}
	return writeFile(pciBusPath()+"/devices/"+address+"/reset", "1")
}

// resetPCIBus resets all functions of a bus, by reset_subordinate of the bridge above it. A kernel
// before Linux 6.13 may lack this file. Then resetPCIBus uses the function's reset method `bus`
// (Linux 5.15 and later), which the kernel rejects if another function is on the bus.
func resetPCIBus(_, address string) error {
	function := pciBusPath() + "/devices/" + address
	// function is a link into the directory of the bridge.
	err := writeFile(function+"/../reset_subordinate", "1")
	if hal.CodeOf(err) != hal.NoFile {
		return err
	}
	if err = writeFile(function+"/reset_method", "bus"); err == nil {
		err = writeFile(function+"/reset", "1")
		_ = writeFile(function+"/reset_method", "default")
	}
	return err
}

// removeAndRescan makes the kernel remove a PCI function and search all buses.
func removeAndRescan(_, address string) error {
	// An earlier step may already have removed the function.
	_ = writeFile(pciBusPath()+"/devices/"+address+"/remove", "1")
	return writeFile(pciBusPath()+"/rescan", "1")
}

func powerCycleSlot(_, address string) error {
	slot, _, _ := strings.Cut(address, ".") // a slot has no function number
	slots, _ := hal.ListDir(pciBusPath() + "/slots")
	for _, name := range slots {
		directory := pciBusPath() + "/slots/" + name
		if text, _ := hal.ReadText(directory + "/address"); text == slot+"\n" {
			err := writeFile(directory+"/power", "0")
			time.Sleep(slotOffDuration)
			// The driver of the slot may already have switched it on.
			_ = writeFile(directory+"/power", "1")
			return err
		}
	}
	return hal.NewFault(hal.NoDevice, pciBusPath()+"/slots has no slot for "+address+
		": Linux cannot switch the power of this device; remove the step power-cycle")
}
