//go:build mock

package main

import (
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// Users can try runs and ring files without hardware, with devices that are named mock:BOARD.

func init() {
	openDevice = wrapToAcceptMocks(hal.Open)
	parseDeviceName = wrapToAcceptMocks(hal.ParseDeviceName)
}

type deviceByNameFunc = func(name string) (hal.Device, error)

// wrapToAcceptMocks makes a function also accept mock:BOARD, or BOARD alone.
func wrapToAcceptMocks(openReal deviceByNameFunc) deviceByNameFunc {
	return func(name string) (hal.Device, error) {
		if board := chips.BoardByName(strings.TrimPrefix(name, "mock:")); board != nil {
			return mock.New(board), nil
		}
		return openReal(name)
	}
}
