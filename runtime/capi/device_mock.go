//go:build mock

package main

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// With the build tag mock the archive has devices mock:BOARD, to try a firmware without its
// hardware. They allocate while they run, so a sealed process that uses them is killed.
func init() { openDevice = openMock }

func openMock(name string) (hal.Device, error) {
	const kind = "mock:"
	if len(name) < len(kind) || name[:len(kind)] != kind {
		return hal.Open(name)
	}
	board := chips.ByName(name[len(kind):])
	if board == nil {
		names := ""
		for _, b := range boards.All {
			names += " " + b.Name
		}
		return nil, hal.NewFault(hal.Usage, "unknown board in "+name+"; boards:"+names)
	}
	return mock.New(board), nil
}
