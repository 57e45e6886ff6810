package main

import (
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file takes the steps after a failure. The line `on-failure` of the configuration lists the
// steps. The file reset.go contains the steps that act on a device.

// sysfs is the path at which sysfs is mounted. Tests set another path.
var sysfs = "/sys"

// pciBus returns the directory of the PCI bus in sysfs.
func pciBus() string { return sysfs + "/bus/pci" }

// stepType describes all steps with a certain name.
type stepType struct {
	name string
	// perform performs the step for a device with a name such as vfio:0000:01:00.0, whose PCI
	// function has the given address. It is nil for the step restart.
	perform func(device, address string) error
	pause   time.Duration // pause after the step, unless the configuration sets another
}

// recoveryStep is one step of a restartPolicy. After each step, lminit starts again with the first
// preparation and the first image.
type recoveryStep struct {
	kind      *stepType
	triesLeft int           // how often lminit may still take the step
	pause     time.Duration // pause between the step and the restart
}

// parseStep parses one step, such as `reset function 1 wait 2s`.
func parseStep(text string) (step recoveryStep, ok bool) {
	text = strings.Join(strings.Fields(text), " ")
	for i := range stepTypes {
		kind := &stepTypes[i]
		options, _ := strings.CutPrefix(text, kind.name+" ")
		digits, wait, hasWait := strings.Cut(options, " wait ")
		count, ok := hal.ParseNumber(digits, 10, 1<<31-1)
		if !ok {
			continue
		}
		step = recoveryStep{kind, int(count), kind.pause}
		if hasWait {
			step.pause = time.Duration(args.ParseDuration(wait))
		}
		return step, step.triesLeft > 0 && step.pause > 0
	}
	return step, false
}

// isDeviceFailure reports whether a reset of the device may repair a failure with the given exit
// status: the device is gone, does not answer in time, answers with other values than expected, or
// reports a failed transfer. The status of NoDevice counts too. If a device is absent or cannot be
// opened after one step, the next step may repair it.
func isDeviceFailure(exit int) bool {
	return exit == hal.DeviceGone.ExitStatus() || exit == hal.DeadlinePassed.ExitStatus() ||
		exit == hal.ExpectFailed.ExitStatus() || exit == hal.NoDevice.ExitStatus()
}

// takeNextStep takes the first step of a policy that has tries left and is useful after the given
// exit status. If the step fails, takeNextStep prints the error, clears the tries of the step, and
// takes the next step. It returns false if there is no such step.
func (s *supervisor) takeNextStep(policy *restartPolicy, exit int) bool {
	for i := range policy.steps {
		step := &policy.steps[i]
		if step.triesLeft == 0 || step.kind.perform != nil && !isDeviceFailure(exit) {
			continue
		}
		step.triesLeft--
		err := s.takeStep(step, exit)
		if err == nil {
			return true
		}
		s.logLine(step.kind.name + " failed: " + faultReason(err))
		step.triesLeft = 0
	}
	return false
}

// takeStep takes one step for all devices of the replay that was started last. Then it waits for
// the pause of the step, or until a signal arrives. If the exit status is 0 (success), it does not
// wait.
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
		case <-time.After(step.pause):
		}
	}
	return nil
}
