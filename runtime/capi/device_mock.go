//go:build mock

package main

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// With the build tag mock, lm_load also opens mocks, such as mock:wormhole, to test firmware
// without hardware. A mock may allocate memory during a run, for which the kernel kills a sealed
// process.

func init() { openDevice = openDeviceOrMock }

func openDeviceOrMock(name string) (hal.Device, error) {
	const kind = "mock:"
	if len(name) < len(kind) || name[:len(kind)] != kind {
		return hal.Open(name)
	}
	board := chips.BoardByName(name[len(kind):])
	if board == nil {
		names := ""
		for _, b := range boards.All {
			names += " " + b.Name
		}
		return nil, hal.NewFault(hal.Usage, "unknown board in "+name+"; known boards:"+names)
	}
	return mock.New(board), nil
}
