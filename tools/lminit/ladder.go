package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file contains the steps that lminit takes after a failure, as a line `on-failure` lists
// them. Most of these steps bring a device back that does not work any more: they reset the device,
// make the kernel find it again, or switch its slot off and on.

// pciBus is the directory of the PCI bus in sysfs. Tests set another path.
var pciBus = "/sys/bus/pci"

const (
	powerOffTime = time.Second     // time for which the step power-cycle switches a slot off
	powerOnTime  = 5 * time.Second // time within which the kernel must then find the function
)

// stepKind describes all steps with a certain name.
type stepKind struct {
	name string
	// perform performs the step for the device with the given name, such as vfio:0000:01:00.0. It
	// is nil for the step restart.
	perform func(device string) error
	wait    time.Duration // pause after the step, unless the configuration sets another
}

// stepKinds lists the steps that are allowed in a line `on-failure`. The kernel itself waits until
// a function or a bus is out of reset, and until the link of a slot is up. The default pauses leave
// time for the firmware of the device after that.
var stepKinds = [...]stepKind{
	{"restart", nil, restartPause},
	{"reset function", resetFunction, 100 * time.Millisecond},
	{"reset bus", onPCIFunction(resetBus), time.Second},
	{"rescan", onPCIFunction(rescan), time.Second},
	{"power-cycle", onPCIFunction(powerCycle), 5 * time.Second},
}

// recoveryStep is one step of a restartPolicy. After each step, lminit starts again with the first
// preparation and the first image.
type recoveryStep struct {
	kind  *stepKind
	count int           // how often lminit may still take the step; -1: without limit
	wait  time.Duration // pause between the step and the restart
}

// parseStep parses the words of one step, such as `reset function 1 wait 2s`.
func parseStep(words []string) (step recoveryStep, ok bool) {
	text := strings.Join(words, " ") + " "
	for i := range stepKinds {
		kind := &stepKinds[i]
		options, ok := strings.CutPrefix(text, kind.name+" ")
		if !ok {
			continue
		}
		step = recoveryStep{kind, 1, kind.wait}
		words = strings.Fields(options)
		if len(words) > 0 && words[0] != "wait" {
			count, _ := hal.ParseNumber(words[0], 10, 1<<31-1)
			step.count = int(count)
			words = words[1:]
		}
		if len(words) == 2 && words[0] == "wait" {
			step.wait = time.Duration(args.ParseDuration(words[1]))
			words = nil
		}
		return step, step.count > 0 && step.wait > 0 && len(words) == 0
	}
	return step, false
}

// nextStep returns the first step that lminit may still take and that is useful after the given
// exit status. It returns nil if there is none.
func (p *restartPolicy) nextStep(exit int) *recoveryStep {
	for i := range p.steps {
		step := &p.steps[i]
		if step.count != 0 && (step.kind.perform == nil || isDeviceFailure(exit)) {
			return step
		}
	}
	return nil
}

// isDeviceFailure reports whether the exit status is that of a failure which a reset of the device
// may end: the device is gone, does not answer in time, answers with other values than expected, or
// reports a failed transfer. The status of NoDevice is one of them, because a device that is absent
// or cannot be opened after one step may need the next step.
func isDeviceFailure(exit int) bool {
	return exit == hal.DeviceGone.ExitStatus() || exit == hal.DeadlinePassed.ExitStatus() ||
		exit == hal.ExpectFailed.ExitStatus() || exit == hal.NoDevice.ExitStatus()
}

// takeNextStep takes the next step of a policy. If the step fails, takeNextStep prints the error,
// drops the step, and takes the one after it. It returns false if no step is left.
func (s *supervisor) takeNextStep(policy *restartPolicy, exit int) bool {
	for {
		step := policy.nextStep(exit)
		if step == nil {
			return false
		}
		if step.count > 0 {
			step.count--
		}
		err := s.takeStep(step, exit)
		if err == nil {
			return true
		}
		s.logLine(step.kind.name + " failed: " + faultReason(err))
		step.count = 0
	}
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
		if err := step.kind.perform(s.devices[i]); err != nil {
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

// onPCIFunction returns a function that calls `perform` with the address of the PCI function of a
// device. The parameter of the returned function is the name of the device.
func onPCIFunction(perform func(address string) error) func(device string) error {
	return func(device string) error {
		address, err := functionAddress(device)
		if err != nil {
			return err
		}
		return perform(address)
	}
}

// functionAddress returns the address of the PCI function of a device, such as 0000:01:00.0. The
// name of the device contains the address, or the PCI ids of the function, or the path of a file
// of Tenstorrent's driver.
func functionAddress(device string) (address string, err error) {
	scheme, locator, _ := strings.Cut(device, ":")
	vendor, id, _ := strings.Cut(locator, ":")
	pattern := pciBus + "/devices/*"
	switch {
	case scheme == "tt":
		pattern = pciBus + "/devices/*/tenstorrent/tenstorrent!" + filepath.Base(locator)
	case strings.Count(locator, ":") > 1:
		return strings.ToLower(locator), nil
	}
	paths, _ := filepath.Glob(pattern)
	for _, path := range paths {
		switch {
		case scheme == "tt":
			return filepath.Base(filepath.Dir(filepath.Dir(path))), nil
		case hasText(path+"/vendor", "0x"+vendor) && hasText(path+"/device", "0x"+id):
			return filepath.Base(path), nil
		}
	}
	return "", hal.NewFault(hal.NoDevice, device+" is not in "+pciBus+"/devices")
}

// hasText reports whether the file at path consists of one line with the given text. It ignores the
// case of letters.
func hasText(path, text string) bool {
	content, err := readFile(path)
	return err == nil && strings.EqualFold(strings.TrimSpace(string(content)), text)
}

// resetFunction resets a device without effect on other devices. It uses Tenstorrent's driver for
// the devices of that driver. For others it uses the kernel's reset of a PCI function, which is a
// function level reset if the function supports one (Linux 5.15 and later: `reset_method`).
func resetFunction(device string) error {
	if path, ok := strings.CutPrefix(device, "tt:"); ok {
		return hal.ResetThroughDriver(path)
	}
	return onPCIFunction(func(address string) error {
		return writeFile(pciBus+"/devices/"+address+"/reset", "1")
	})(device)
}

// resetBus resets the bus of a PCI function, with all functions on it. The bridge above the bus has
// the file reset_subordinate since Linux 6.13. Without that file, the kernel resets the bus as the
// reset method `bus` of the function (Linux 5.15), if no other function is on the bus.
func resetBus(address string) error {
	function := pciBus + "/devices/" + address
	// The directory of a function is a link to a directory inside that of the bridge.
	err := writeFile(function+"/../reset_subordinate", "1")
	if hal.CodeOf(err) != hal.NoFile {
		return err
	}
	if err = writeFile(function+"/reset_method", "bus"); err != nil {
		return err
	}
	err = writeFile(function+"/reset", "1")
	if e := writeFile(function+"/reset_method", "default"); err == nil {
		err = e
	}
	return err
}

// rescan removes a PCI function from the kernel's list and makes the kernel search all buses. It
// then binds the driver that was bound to the function before.
func rescan(address string) error {
	driver := boundDriver(address)
	// A function that a failed step has left removed is not there any more.
	err := writeFile(pciBus+"/devices/"+address+"/remove", "1")
	if err != nil && hal.CodeOf(err) != hal.NoFile {
		return err
	}
	if err := writeFile(pciBus+"/rescan", "1"); err != nil {
		return err
	}
	return bindAgain(driver, address)
}

// powerCycle switches the power of the slot of a PCI function off and on again. It then binds the
// driver that was bound to the function before.
func powerCycle(address string) error {
	driver := boundDriver(address)
	slot, _, _ := strings.Cut(address, ".") // the address of a slot has no function number
	paths, _ := filepath.Glob(pciBus + "/slots/*/address")
	for _, path := range paths {
		if !hasText(path, slot) {
			continue
		}
		power := filepath.Dir(path) + "/power"
		if err := writeFile(power, "0"); err != nil {
			return err
		}
		time.Sleep(powerOffTime)
		// If the driver of the slot has switched the power on by itself, it rejects this write.
		err := writeFile(power, "1")
		if awaitFunction(address) {
			return bindAgain(driver, address)
		}
		return err
	}
	return hal.NewFault(hal.NoDevice, "no slot of "+address+" in "+pciBus+"/slots")
}

// awaitFunction waits until the kernel has found a PCI function, at most powerOnTime. It reports
// whether the kernel has.
func awaitFunction(address string) (found bool) {
	const interval = 10 * time.Millisecond
	for waited := time.Duration(0); waited < powerOnTime && !found; waited += interval {
		time.Sleep(interval)
		found = unix.Access(pciBus+"/devices/"+address, unix.F_OK) == nil
	}
	return found
}

// boundDriver returns the name of the driver that is bound to a PCI function, or "".
func boundDriver(address string) string {
	target, err := os.Readlink(pciBus + "/devices/" + address + "/driver")
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// bindAgain binds a driver to a PCI function that the kernel has found again. It does nothing if
// there was no driver.
func bindAgain(driver, address string) error {
	if driver == "" {
		return nil
	}
	return bindDriver([]string{driver, address})
}
