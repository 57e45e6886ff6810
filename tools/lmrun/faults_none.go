//go:build nofaults

package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file replaces faults.go if lmrun is built with the tag nofaults. In such a build,
// rejectOmittedOptions rejects -faults.

const (
	hasFaultRecorder = false
	faultsUsage      = ""
)

// faultRecorder takes the place of the type in faults.go. Its methods do nothing, and exist so that
// the other files compile.
type faultRecorder struct{}

func (*faultRecorder) openFile(o args.Options, view *fbs.View) error         { return nil }
func (*faultRecorder) mapConfigSpaces(devices []hal.Device)                  {}
func (*faultRecorder) readErrorRegisters(devices []hal.Device, end *outcome) {}
func (*faultRecorder) recordFailure(end *outcome)                            {}
