package main

import (
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/ttsim"
)

const deviceHelp = `Devices:
  mock:BOARD                     a strict stand-in, in this process (` + "%s" + `)
  pci:VVVV:DDDD, pci:DDDD:BB:DD.F  a PCIe device, by ids or by address (root)
  ttsim:/path/libttsim.so        Tenstorrent's simulator`

// openDevice opens a device by its name.
func openDevice(name string) (hal.Device, error) {
	switch kind, rest, _ := strings.Cut(name, ":"); kind {
	case "mock":
		board := chips.ByName(rest)
		if board == nil {
			return nil, usage("%s: no board %q; boards: %s", name, rest, boardNames())
		}
		return mock.New(board), nil
	case "ttsim":
		return ttsim.Open(name)
	default:
		return hal.Open(name)
	}
}

// connect puts the stand-ins among the devices of a replay on one bus, so that
// each reaches the memory of the others.
func connect(devices []hal.Device) {
	var mocks []*mock.Device
	for _, device := range devices {
		if d, ok := device.(*mock.Device); ok {
			mocks = append(mocks, d)
		}
	}
	mock.Connect(mocks...)
}

// refusal is why a device refused an access, in its own words.
func refusal(devices []hal.Device) string {
	for _, device := range devices {
		if d, ok := device.(interface{ Refusal() string }); ok && d.Refusal() != "" {
			return d.Refusal()
		}
	}
	return ""
}

// refuser says who refuses accesses to these devices.
func refuser(devices []hal.Device) string {
	for _, device := range devices {
		if _, ok := device.(*ttsim.Device); ok {
			return "the simulator"
		}
	}
	return "the device"
}
