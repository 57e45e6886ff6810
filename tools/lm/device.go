package main

import (
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/image/fail"
)

func openDevice(name string) hal.Device {
	switch kind, rest, _ := strings.Cut(name, ":"); kind {
	case "mock":
		board := boardNamed(rest, nil)
		if board.generic {
			failUsage("%s: the board generic has no sizes of BARs, which a mock needs; "+
				"use mock:FILE with a board file (lm board-file) or an image", name)
		}
		d := mock.New(board.Board)
		d.SetSubsystem(board.subsystem)
		return d
	case "playback":
		return openPlayback(rest)
	default:
		if chips.BoardByName(name) != nil {
			failUsage("unknown device %q; did you mean mock:%[1]s?", name)
		}
		return fail.Must(ttsim.OpenAny(name))
	}
}

// connectMocks puts the mocks among the devices of a replay on one bus, so that each can access the
// memory of the others.
func connectMocks(devices []hal.Device) {
	var mocks []*mock.Device
	for _, device := range devices {
		if d, ok := device.(*mock.Device); ok {
			mocks = append(mocks, d)
		}
	}
	mock.Connect(mocks...)
}

// refusalReason returns why a device rejected an access, empty if none did.
func refusalReason(devices []hal.Device) string {
	for _, device := range devices {
		if d, ok := device.(interface{ Refusal() string }); ok && d.Refusal() != "" {
			return d.Refusal()
		}
	}
	return ""
}

// lastRefusalReason returns why a device rejected the latest access that it rejected, empty if that
// is unknown. A simulator ends at its first rejection.
func lastRefusalReason(devices []hal.Device) string {
	for _, device := range devices {
		if d, ok := device.(interface{ LastRefusal() string }); ok && d.LastRefusal() != "" {
			return d.LastRefusal()
		}
	}
	return ""
}
