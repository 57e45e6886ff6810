package main

import (
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file selects and performs the steps that the lines `on-failure` and `on-success` of the
// configuration list, such as `restart` or `reset bus`. The file reset.go contains the steps that
// act on a device.

// sysfsPath is the path at which sysfs is mounted. Tests set another path.
var sysfsPath = "/sys"

// pciBusPath returns the directory of the PCI bus in sysfs.
func pciBusPath() string { return sysfsPath + "/bus/pci" }

// stepType is a kind of step that a configuration can contain, such as `reset bus`.
type stepType struct {
	name string // first words of the step in a configuration
	// perform performs the step for one device. Its parameters are the device's name, such as
	// vfio:0000:01:00.0, and the device's PCI address. For the step restart, perform is nil.
	perform      func(device, address string) error
	defaultPause time.Duration // pause after the step if the configuration specifies none
}

// recoveryStep is one step of a restartPolicy, such as `rescan 2`. After each step, lminit starts
// again with the first preparation and the first image.
type recoveryStep struct {
	kind      *stepType
	triesLeft int           // how often lminit may still take the step, or endless
	pause     time.Duration // how long lminit waits after the step, before it starts again
}

// endless is the number of tries of `restart forever`.
const endless = -1

// parseStep parses one step, such as `reset function 1 wait 2s`.
func parseStep(text string) (step recoveryStep, ok bool) {
	text = strings.Join(strings.Fields(text), " ")
	for i := range stepTypes {
		kind := &stepTypes[i]
		options, isKind := strings.CutPrefix(text, kind.name+" ")
		if !isKind {
			continue
		}
		tries, wait, hasWait := strings.Cut(options, " wait ")
		count, ok := hal.ParseNumber(tries, 10, 1<<31-1)
		step = recoveryStep{kind, int(count), kind.defaultPause}
		if tries == "forever" && kind.perform == nil {
			step.triesLeft, ok = endless, true
		}
		if hasWait {
			step.pause = time.Duration(args.ParseDuration(wait))
		}
		return step, ok && step.triesLeft != 0 && step.pause > 0
	}
	return step, false
}

// isDeviceFailure reports whether a reset of the device can repair a failure with the given exit
// status of lmrun. This is possible if the device was absent, disappeared, did not answer in time,
// returned unexpected values, or reported a failed transfer.
func isDeviceFailure(exit int) bool {
	return exit == hal.DeviceGone.ExitStatus() || exit == hal.DeadlinePassed.ExitStatus() ||
		exit == hal.ExpectFailed.ExitStatus() || exit == hal.NoDevice.ExitStatus()
}

// takeNextStep takes the first step of the policy that has tries left. It skips steps that act on
// devices if no device has failed. If a step fails, takeNextStep prints the error, drops the
// remaining tries of this step, and takes the next step. It returns false if no step is left.
func (s *supervisor) takeNextStep(policy *restartPolicy, exit int) bool {
	hasFailedDevice := isDeviceFailure(exit) && len(s.usedDevices) > 0
	for i := range policy.steps {
		step := &policy.steps[i]
		if step.triesLeft == 0 || step.kind.perform != nil && !hasFailedDevice {
			continue
		}
		if step.triesLeft != endless {
			step.triesLeft--
		}
		err := s.takeStep(step, exit)
		if err == nil {
			return true
		}
		s.logLine(step.kind.name + " failed: " + faultReason(err))
		step.triesLeft = 0
	}
	return false
}

// takeStep performs one recovery step: a restart of the program, or an action on each device in
// s.usedDevices, such as a reset. If the program has failed (exit is not 0), takeStep then waits
// for the time step.pause, or until a signal arrives.
func (s *supervisor) takeStep(step *recoveryStep, exit int) error {
	status := " after exit status " + strconv.Itoa(exit)
	if step.kind.perform == nil {
		s.logLine("restarting" + status)
	}
	for i := 0; i < len(s.usedDevices) && step.kind.perform != nil; i++ {
		s.logLine(step.kind.name + " of " + s.usedDevices[i] + status)
		if err := step.kind.performOn(s.usedDevices[i]); err != nil {
			return err
		}
	}
	if exit != 0 {
		select {
		case s.endSignal = <-s.signals:
		case <-time.After(step.pause):
		}
	}
	return nil
}
