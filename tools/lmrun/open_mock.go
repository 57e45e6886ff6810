//go:build mock

package main

import (
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// With the build tag mock there are devices of the kind mock:BOARD, to try frames and
// rings without hardware.
func init() {
	openDevice, parseDeviceName = openDeviceOrMock(hal.Open), openDeviceOrMock(hal.ParseName)
}

func openDeviceOrMock(other func(string) (hal.Device, error)) func(string) (hal.Device, error) {
	return func(name string) (hal.Device, error) {
		if board := chips.ByName(strings.TrimPrefix(name, "mock:")); board != nil {
			return mock.New(board), nil
		}
		return other(name)
	}
}
