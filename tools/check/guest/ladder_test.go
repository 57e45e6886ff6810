package main

import (
	"bufio"
	"encoding/json"
	"testing"
)

// ladderListing computes 12! frame by frame. Its poll ends soon, so that a device that hangs is a
// failure soon.
const ladderListing = `lightmetal 1
device edu 1234:11e8 bar0 1MiB
window regs bar0 offset 0x0 size 1MiB
tensor result output uint32[1] = uint32 479001600
init:
  expect.4  regs+0x00 == 0x010000ed
main:
  call init
frame:
  write.4   regs+0x08 12
  poll.4    regs+0x20 & 0x1 == 0 within 20ms
  copy.4    result[:] <- regs+0x08
`

// setUpLadder serves devices that hang, each behind a port of its own: on bus 1 until a reset of
// the function, on bus 2 of the bus, on bus 3 until a rescan, on bus 4 until its slot was without
// power.
func setUpLadder(t *testing.T, m *machine) {
	m.ports = true
	m.serveTo(t)
	for _, until := range []string{"flr", "bus", "rescan", "power"} {
		m.with = append(m.with, []string{"mock:edu", "--fault", "wedged-until=" + until + "@60"})
	}
	m.addImage(t, "ladder", ladderListing)
	var monitor monitor
	m.extra = append(m.extra, monitor.start(t, m.dir)...)
	m.onServed = func(qemuArgs []string) { go monitor.addAgain(qemuArgs) }
}

// addAgain gives a slot its device back. QEMU removes the device when the slot loses its power,
// where a card would stay.
func (m *monitor) addAgain(qemuArgs []string) {
	devices := map[string]string{} // arguments of device_add, by id
	for _, argument := range qemuArgs {
		var device struct{ ID string }
		if json.Unmarshal([]byte(argument), &device) == nil && device.ID != "" {
			devices[device.ID] = argument
		}
	}
	lines := bufio.NewScanner(m.from) // which the test closes
	for lines.Scan() {
		var event struct {
			Event string
			Data  struct{ Device string }
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Event == "DEVICE_DELETED" &&
			devices[event.Data.Device] != "" {
			command := `{"execute": "device_add", "arguments": ` + devices[event.Data.Device] + "}\n"
			if _, err := m.to.WriteString(command); err != nil {
				return
			}
		}
	}
}
