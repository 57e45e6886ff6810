package main

import (
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file contains the steps that lminit takes after a failure, as a line `on-failure` lists
// them. Most of these steps bring a device back that does not work any more: they reset the device,
// make the kernel find it again, or switch its slot off and on.

// sysfs is the directory in which the kernel shows devices. Tests set another path.
var sysfs = "/sys"

// pciBus returns the directory of the PCI bus in sysfs.
func pciBus() string { return sysfs + "/bus/pci" }

// powerOffTime is the time for which the step power-cycle switches a slot off.
const powerOffTime = time.Second

// stepKind describes all steps with a certain name.
type stepKind struct {
	name string
	// perform performs the step for a device with a name such as vfio:0000:01:00.0, whose PCI
	// function has the given address. It is nil for the step restart.
	perform func(device, address string) error
	wait    time.Duration // pause after the step, unless the configuration sets another
}

// stepKinds lists the steps that are allowed in a line `on-failure`. The kernel itself waits until
// a function or a bus is out of reset, and until the link of a slot is up. The pauses leave time
// for the firmware of the device after that.
var stepKinds = [...]stepKind{
	{"restart", nil, 100 * time.Millisecond},
	{"reset function", resetFunction, 100 * time.Millisecond},
	{"reset bus", resetBus, time.Second},
	{"rescan", rescan, time.Second},
	{"power-cycle", powerCycle, 5 * time.Second},
}

// recoveryStep is one step of a restartPolicy. After each step, lminit starts again with the first
// preparation and the first image.
type recoveryStep struct {
	kind  *stepKind
	count int           // how often lminit may still take the step
	wait  time.Duration // pause between the step and the restart
}

// parseStep parses one step, such as `reset function 1 wait 2s`.
func parseStep(text string) (step recoveryStep, ok bool) {
	text = strings.Join(strings.Fields(text), " ")
	for i := range stepKinds {
		kind := &stepKinds[i]
		options, _ := strings.CutPrefix(text, kind.name+" ")
		digits, wait, hasWait := strings.Cut(options, " wait ")
		count, ok := hal.ParseNumber(digits, 10, 1<<31-1)
		if !ok {
			continue
		}
		step = recoveryStep{kind, int(count), kind.wait}
		if hasWait {
			step.wait = time.Duration(args.ParseDuration(wait))
		}
		return step, step.count > 0 && step.wait > 0
	}
	return step, false
}

// isDeviceFailure reports whether the exit status is that of a failure which a reset of the device
// may end: the device is gone, does not answer in time, answers with other values than expected, or
// reports a failed transfer. The status of NoDevice is one of them, because a device that is absent
// or cannot be opened after one step may need the next step.
func isDeviceFailure(exit int) bool {
	return exit == hal.DeviceGone.ExitStatus() || exit == hal.DeadlinePassed.ExitStatus() ||
		exit == hal.ExpectFailed.ExitStatus() || exit == hal.NoDevice.ExitStatus()
}

// takeNextStep takes the first step of a policy that is left and that is useful after the given
// exit status. If the step fails, takeNextStep prints the error, drops the step, and takes the next
// one. It returns false if no step is left.
func (s *supervisor) takeNextStep(policy *restartPolicy, exit int) bool {
	for i := range policy.steps {
		step := &policy.steps[i]
		if step.count == 0 || step.kind.perform != nil && !isDeviceFailure(exit) {
			continue
		}
		step.count--
		err := s.takeStep(step, exit)
		if err == nil {
			return true
		}
		s.logLine(step.kind.name + " failed: " + faultReason(err))
		step.count = 0
	}
	return false
}

// takeStep takes one step for all devices of the replay that was started last. Then it waits as the
// step specifies, or until a signal arrives. After success (exit status 0) it does not wait.
func (s *supervisor) takeStep(step *recoveryStep, exit int) error {
	status := " after exit status " + strconv.Itoa(exit)
	if step.kind.perform == nil {
		s.logLine("restarting" + status)
	}
	for i := 0; i < len(s.devices) && step.kind.perform != nil; i++ {
		s.logLine(step.kind.name + " of " + s.devices[i] + status)
		if err := step.kind.performOn(s.devices[i]); err != nil {
			return err
		}
	}
	if exit != 0 {
		select {
		case s.endSignal = <-s.signals:
		case <-time.After(step.wait):
		}
	}
	return nil
}

// performOn performs the step for the device with the given name. If a driver was bound to the PCI
// function of the device, and the kernel has removed the function and found it again, performOn
// binds this driver again.
func (k *stepKind) performOn(device string) error {
	address, err := functionAddress(device)
	if err != nil {
		return err
	}
	driver := hal.LinkBaseName(pciBus() + "/devices/" + address + "/driver")
	if err := k.perform(device, address); err != nil || driver == "" {
		return err
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
		return "", hal.NewFault(hal.NoDevice, device+" is not in "+sysfs+"/class/tenstorrent")
	}
	return address, nil
}

// resetFunction resets a device without effect on other devices. It uses Tenstorrent's driver for
// the devices of that driver. For others it uses the kernel's reset of a PCI function, which is a
// function level reset if the function supports one (Linux 5.15 and later: `reset_method`).
func resetFunction(device, address string) error {
	if path, ok := strings.CutPrefix(device, "tt:"); ok {
		return hal.ResetThroughDriver(path)
	}
	return writeFile(pciBus()+"/devices/"+address+"/reset", "1")
}

// resetBus resets the bus of a PCI function, with all functions on it. The bridge above the bus has
// the file reset_subordinate since Linux 6.13, and in later releases of 6.1 and 6.12. Without that
// file, the kernel resets the bus as the reset method `bus` of the function (Linux 5.15), if no
// other function is on the bus.
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
	return hal.NewFault(hal.NoDevice, "no slot of "+address+" in "+pciBus()+"/slots")
}
