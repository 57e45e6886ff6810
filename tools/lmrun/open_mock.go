//go:build mock

package main

import (
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// This file adds devices mock:BOARD with the build tag mock, to try runs and rings without
// hardware.

func init() {
	openDevice, parseDeviceName = openDeviceOrMock(hal.Open), openDeviceOrMock(hal.ParseName)
}

// openDeviceOrMock returns a function that opens mock:BOARD itself, and passes any other name
// on.
func openDeviceOrMock(other func(string) (hal.Device, error)) func(string) (hal.Device, error) {
	return func(name string) (hal.Device, error) {
		if board := chips.ByName(strings.TrimPrefix(name, "mock:")); board != nil {
			return mock.New(board), nil
		}
		return other(name)
	}
}
