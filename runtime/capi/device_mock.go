//go:build mock

package main

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// With the build tag mock the archive has devices of the kind mock:BOARD,
// for trying a firmware without its hardware. They allocate while they run and
// so do not live under the seal.
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
		return nil, &hal.Fault{Code: hal.Usage, Reason: name + ": no such board; boards:" + names}
	}
	return mock.New(board), nil
}
