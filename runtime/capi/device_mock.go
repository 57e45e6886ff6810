//go:build mock

package main

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// With the build tag mock, the archive can also open mock:BOARD, a mock of a board, to test a
// firmware without the hardware. A mock allocates during a run; therefore the kernel kills a sealed
// process that runs an image on a mock.
func init() { openDevice = openMock }

// openMock opens a mock if the name begins with mock:, and otherwise a real device.
func openMock(name string) (hal.Device, error) {
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
