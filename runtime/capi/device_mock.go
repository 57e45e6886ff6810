//go:build mock

package main

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// This file is only part of archives with the build tag mock. With such an archive, firmware can be
// tested without hardware: lm_load also accepts names such as mock:wormhole, and opens a mock of
// the board with this name. A mock may allocate memory during a run. In a sealed process, the
// kernel then kills the process.

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
