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
	openDevice, parseDeviceName = openDeviceOrMock(hal.Open), openDeviceOrMock(hal.ParseName)
}

// openFunc is the type of hal.Open and hal.ParseName.
type openFunc = func(name string) (hal.Device, error)

// openDeviceOrMock returns a function that opens devices. For the name mock:BOARD, or BOARD alone,
// that function returns a new mock device. For any other name, it calls openReal.
func openDeviceOrMock(openReal openFunc) openFunc {
	return func(name string) (hal.Device, error) {
		if board := chips.BoardByName(strings.TrimPrefix(name, "mock:")); board != nil {
			return mock.New(board), nil
		}
		return openReal(name)
	}
}
