package main

import (
	"strings"
	"time"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file contains the steps that make a failed device work again: they reset the device, make
// the kernel find it again, or switch the power of its slot off and on.

// recoveryStepSyntax shows valid steps of on-failure, for error messages.
const recoveryStepSyntax = "steps such as `restart 2, reset function 1 wait 2s, rescan 1, reboot`"

// slotOffDuration is the time for which the step power-cycle switches a slot off.
const slotOffDuration = time.Second

// reappearTimeout is the longest time that lminit waits until the kernel lists a PCI function again
// after a step has removed the function. Tests set another time.
var reappearTimeout = 5 * time.Second

// stepTypes lists the steps that are allowed in a line `on-failure`. During a step, the kernel
// waits until the reset is done and the PCI link is up. In the pause after the step, the firmware
// of the device starts.
var stepTypes = [...]stepType{
	{"restart", nil, 100 * time.Millisecond},
	{"reset function", resetPCIFunction, 100 * time.Millisecond},
	{"reset bus", resetPCIBus, time.Second},
	{"rescan", removeAndRescan, time.Second},
	{"power-cycle", powerCycleSlot, 5 * time.Second},
}

// performOn performs the step for the device with the given name. Some steps make the kernel remove
// the device's PCI function, unbind the driver and find the function again. Therefore performOn
// waits until the function is present, and binds the previous driver again.
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

// pciAddress returns the PCI address of a device, such as 0000:01:00.0. The parameter `device` is
// the name of the device, such as vfio:0000:01:00.0 or tt:/dev/tenstorrent/0.
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

// resetPCIFunction resets one device. For a name that begins with tt:, Tenstorrent's driver resets
// the device. For other names, the kernel resets the PCI function, by a function level reset if the
// function supports one (see the sysfs file `reset_method` of Linux 5.15 and later).
func resetPCIFunction(device, address string) error {
	if path, ok := strings.CutPrefix(device, "tt:"); ok {
		return hal.ResetThroughDriver(path)
	}
	return writeFile(pciBusPath()+"/devices/"+address+"/reset", "1")
}

// resetPCIBus resets the bus of a PCI function, with all functions on that bus. It writes the sysfs
// file reset_subordinate of the bridge above the bus. A kernel before Linux 6.13 may not have this
// file. Then resetPCIBus uses the reset method `bus` of the function (Linux 5.15 and later). The
// kernel rejects this method if the bus has another function.
func resetPCIBus(_, address string) error {
	function := pciBusPath() + "/devices/" + address
	// `function` is a link to a directory inside the directory of the bridge.
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

// removeAndRescan removes a PCI function from the kernel's list and makes the kernel search all
// buses.
func removeAndRescan(_, address string) error {
	// Ignore an error: an earlier step may already have removed the function.
	_ = writeFile(pciBusPath()+"/devices/"+address+"/remove", "1")
	return writeFile(pciBusPath()+"/rescan", "1")
}

// powerCycleSlot switches the power of the slot of a PCI function off and on again.
func powerCycleSlot(_, address string) error {
	slot, _, _ := strings.Cut(address, ".") // the address of a slot has no function number
	slots, _ := hal.ListDir(pciBusPath() + "/slots")
	for _, name := range slots {
		directory := pciBusPath() + "/slots/" + name
		if text, _ := hal.ReadText(directory + "/address"); text == slot+"\n" {
			err := writeFile(directory+"/power", "0")
			time.Sleep(slotOffDuration)
			// Ignore an error: the driver of the slot may already have switched the slot on.
			_ = writeFile(directory+"/power", "1")
			return err
		}
	}
	return hal.NewFault(hal.NoDevice, pciBusPath()+"/slots has no slot for "+address+
		": Linux cannot switch the power of this device")
}
