//go:build mock

package main

import (
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// This file adds mock devices to lmrun, so that users can try runs and rings without hardware. A
// mock device has a name of the form mock:BOARD. Only builds with the tag mock contain this file.

func init() {
	openDevice, parseDeviceName = openDeviceOrMock(hal.Open), openDeviceOrMock(hal.ParseDeviceName)
}

// openFunc is the type of hal.Open, which opens a device, and of hal.ParseDeviceName, which only
// checks the name of a device.
type openFunc = func(name string) (hal.Device, error)

// openDeviceOrMock returns a function to use instead of openReal, which is hal.Open or
// hal.ParseDeviceName. For the name mock:BOARD, or BOARD alone, the returned function returns a new
// mock device. For any other name, it calls openReal.
func openDeviceOrMock(openReal openFunc) openFunc {
	return func(name string) (hal.Device, error) {
		if board := chips.BoardByName(strings.TrimPrefix(name, "mock:")); board != nil {
			return mock.New(board), nil
		}
		return openReal(name)
	}
}
