//go:build mock

package main

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// This file lets firmware be tested without hardware: lm_load accepts device names such as
// mock:wormhole, too, and opens a mock of the board with this name. Only archives with the build
// tag mock contain this file. A mock may allocate memory during a run; the kernel kills a sealed
// process that does so.

func init() { openDevice = openDeviceOrMock }

// openDeviceOrMock opens a mock if name begins with "mock:". Otherwise it opens a real device.
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
