//go:build !noresets

package main

import (
	"strings"
	"time"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file contains the steps that repair a device that does not work any more: they reset the
// device, make the kernel find it again, or switch its slot off and on. In builds with the tag
// noresets, the file reset_none.go replaces this file.

// stepSyntax describes the valid steps of on-failure, for error messages.
const stepSyntax = "steps such as `restart 2, reset function 1 wait 2s, rescan 1, reboot`"

// powerOffTime is the time for which the step power-cycle switches a slot off.
const powerOffTime = time.Second

// returnTimeout is how long lminit waits for a PCI function that is not back yet after a step. The
// kernel adds a function again after the link is up, which can be later than the write to `power`.
// Tests set another time.
var returnTimeout = 5 * time.Second

// stepTypes lists the steps that are allowed in a line `on-failure`. The kernel itself waits until
// a function or a bus is out of reset, and until the link of a slot is up. After that, the firmware
// of the device needs time to start: the pauses are for this time.
var stepTypes = [...]stepType{
	{"restart", nil, 100 * time.Millisecond},
	{"reset function", resetFunction, 100 * time.Millisecond},
	{"reset bus", resetBus, time.Second},
	{"rescan", rescan, time.Second},
	{"power-cycle", powerCycle, 5 * time.Second},
}

// performOn performs the step for the device with the given name. In some steps, the kernel removes
// the PCI function of the device and finds it again. Therefore performOn binds the driver that was
// bound to the function before the step, if it is not bound any more.
func (k *stepType) performOn(device string) error {
	address, err := functionAddress(device)
	if err != nil {
		return err
	}
	function := pciBus() + "/devices/" + address
	driver := hal.LinkBaseName(function + "/driver")
	if err := k.perform(device, address); err != nil || driver == "" {
		return err
	}
	const interval = 10 * time.Millisecond
	isAbsent := func() bool { return unix.Access(function, unix.F_OK) != nil }
	for left := returnTimeout; left > 0 && isAbsent(); left -= interval {
		time.Sleep(interval)
	}
	return bindDriver([]string{driver, address})
}

// functionAddress returns the address of the PCI function of a device, such as 0000:01:00.0. The
// name of the device contains the address, or the path of a file of Tenstorrent's driver.
func functionAddress(device string) (address string, err error) {
	scheme, locator, _ := strings.Cut(device, ":")
	if scheme != "tt" {
		return locator, nil
	}
	node := strings.ReplaceAll(strings.TrimPrefix(locator, "/dev/"), "/", "!")
	address = hal.LinkBaseName(sysfs + "/class/tenstorrent/" + node + "/device")
	if address == "" {
		return "", hal.NewFault(hal.NoDevice, sysfs+"/class/tenstorrent has no "+device+
			"; load the driver with `modprobe tenstorrent`")
	}
	return address, nil
}

// resetFunction resets a device without effect on other devices. If the device has a name that
// begins with tt:, it uses Tenstorrent's driver. Otherwise it uses the kernel's reset of a PCI
// function, which is a function level reset if the function supports one (Linux 5.15 and later:
// `reset_method`).
func resetFunction(device, address string) error {
	if path, ok := strings.CutPrefix(device, "tt:"); ok {
		return hal.ResetThroughDriver(path)
	}
	return writeFile(pciBus()+"/devices/"+address+"/reset", "1")
}

// resetBus resets the bus of a PCI function, with all functions on that bus. If the kernel provides
// the file reset_subordinate of the bridge above the bus, resetBus uses this file (Linux 6.13, and
// later releases of 6.1 and 6.12). Otherwise it uses the reset method `bus` of the function (Linux
// 5.15), which the kernel rejects if the bus has another function.
func resetBus(_, address string) error {
	function := pciBus() + "/devices/" + address
	// The directory of a function is a link to a directory inside that of the bridge.
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

// rescan removes a PCI function from the kernel's list and makes the kernel search all buses.
func rescan(_, address string) error {
	// Ignore an error, because an earlier step may have left the function removed.
	_ = writeFile(pciBus()+"/devices/"+address+"/remove", "1")
	return writeFile(pciBus()+"/rescan", "1")
}

// powerCycle switches the power of the slot of a PCI function off and on again.
func powerCycle(_, address string) error {
	slot, _, _ := strings.Cut(address, ".") // the address of a slot has no function number
	slots, _ := hal.ListDir(pciBus() + "/slots")
	for _, name := range slots {
		directory := pciBus() + "/slots/" + name
		if text, _ := hal.ReadText(directory + "/address"); text == slot+"\n" {
			err := writeFile(directory+"/power", "0")
			time.Sleep(powerOffTime)
			// Ignore an error, because the driver of a slot may switch it on by itself.
			_ = writeFile(directory+"/power", "1")
			return err
		}
	}
	return hal.NewFault(hal.NoDevice, pciBus()+"/slots has no slot with "+address+
		": Linux cannot switch the power of this device")
}
