//go:build nofaults

package main

import (
	"lightmetal/fbs"
	"lightmetal/hal"
)

// This file replaces faults.go if lmrun is built with the tag nofaults. In such a build,
// checkBuildTags rejects -faults.

const (
	hasFaults   = false
	faultsUsage = ""
)

// faultRecorder has the methods of the type faultRecorder in faults.go, so that the other files
// compile. These methods do nothing.
type faultRecorder struct{}

func (*faultRecorder) openFile(path string, view *fbs.View) error            { return nil }
func (*faultRecorder) mapConfigSpaces(devices []hal.Device)                  {}
func (*faultRecorder) readErrorRegisters(devices []hal.Device, end *outcome) {}
func (*faultRecorder) recordFailure(end *outcome)                            {}
