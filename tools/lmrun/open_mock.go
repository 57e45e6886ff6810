//go:build mock

package main

import (
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// This file adds mock devices to lmrun, so that users can try runs and ring files without hardware.
// A mock device has a name of the form mock:BOARD. Only builds with the tag mock contain this file.

func init() {
	openDevice = wrapToAcceptMocks(hal.Open)
	parseDeviceName = wrapToAcceptMocks(hal.ParseDeviceName)
}

// deviceByNameFunc is the type of hal.Open, which opens a device, and of hal.ParseDeviceName, which
// only checks the name of a device.
type deviceByNameFunc = func(name string) (hal.Device, error)

// wrapToAcceptMocks returns a function that does the same as openReal, except for mock devices: for
// the name mock:BOARD, or BOARD alone, it returns a new mock device. The parameter openReal is
// hal.Open or hal.ParseDeviceName.
func wrapToAcceptMocks(openReal deviceByNameFunc) deviceByNameFunc {
	return func(name string) (hal.Device, error) {
		if board := chips.BoardByName(strings.TrimPrefix(name, "mock:")); board != nil {
			return mock.New(board), nil
		}
		return openReal(name)
	}
}
