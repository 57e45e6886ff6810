//go:build mock

package main

import (
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// This file adds mock devices, which are named mock:BOARD, to try runs and rings without
// hardware. Only the build tag mock includes it.

func init() {
	openDevice, parseDeviceName = openDeviceOrMock(hal.Open), openDeviceOrMock(hal.ParseName)
}

// openFunc returns the device with the given name.
type openFunc = func(name string) (hal.Device, error)

// openDeviceOrMock returns a function that returns a new mock device for a name mock:BOARD, and
// calls openReal for any other name.
func openDeviceOrMock(openReal openFunc) openFunc {
	return func(name string) (hal.Device, error) {
		if board := chips.BoardByName(strings.TrimPrefix(name, "mock:")); board != nil {
			return mock.New(board), nil
		}
		return openReal(name)
	}
}
