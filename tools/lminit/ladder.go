package main

import (
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// The steps of `on-failure` and `on-success`, such as `restart`. Those for a device are in
// reset.go.

var sysfsPath = "/sys" // tests set another path

func pciBusPath() string { return sysfsPath + "/bus/pci" }

type stepType struct {
	name string // first words of a step, such as `reset bus`
	// perform acts on one device, such as vfio:0000:01:00.0, with this PCI address. It is nil for
	// restart.
	perform      func(device, address string) error
	defaultPause time.Duration // after the step
}

// recoveryStep is a step of a restartPolicy, such as `rescan 2`.
type recoveryStep struct {
	kind      *stepType
	triesLeft int           // or endless
	pause     time.Duration // after the step
}

const endless = -1 // restart forever

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

// isDeviceFailure reports whether a reset of the device can repair the failure with this exit
// status: the device was absent, disappeared, did not answer in time, returned unexpected values,
// or reported a failed transfer.
func isDeviceFailure(exit int) bool {
	return exit == hal.DeviceGone.ExitStatus() || exit == hal.DeadlinePassed.ExitStatus() ||
		exit == hal.ExpectFailed.ExitStatus() || exit == hal.NoDevice.ExitStatus()
}

// takeNextStep takes the first step that has tries left. A step for devices needs a failed device.
// A step that fails has no more tries, and the next one is taken.
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

// takeStep performs a step. If a replay has failed, it then pauses until the step's time is over or
// a signal arrives.
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
