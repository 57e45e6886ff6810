package main

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
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
  poll.4    regs+0x20 & 0x1 == 0 within 20ms every 1ms
  copy.4    result[:] <- regs+0x08
`

// setUpLadder serves devices that hang, each behind a port of its own: on bus 1 until a reset of
// the function, on bus 2 of the bus, on bus 3 until a rescan, on bus 4 until its slot was without
// power. The one on bus 5 vanishes from the bus, with its configuration space, until a reset.
func setUpLadder(t *testing.T, m *machine) {
	m.ports = true
	m.serveTo(t)
	for _, fault := range []string{"wedged-until=flr@200", "wedged-until=bus@200",
		"wedged-until=rescan@200", "wedged-until=power@200", "gone@200"} {
		m.with = append(m.with, []string{"mock:edu", "--fault", fault})
	}
	m.addImage(t, "ladder", ladderListing)
	var monitor monitor
	m.extra = append(m.extra, monitor.start(t, m.dir)...)
	m.onServed = func(qemuArgs []string) { go monitor.addAgain(qemuArgs) }
}

// recoveryTimes are the steps that TestTimesOfRecoveries measures. Each waits as long as the kernel
// does, and 1 ms more.
var recoveryTimes = []struct{ kind, backend, steps string }{
	{"ladder", "pci", `ready
recovers $bus1 300 "reset function" "reset function 300 wait 1ms, halt"
recovers $bus5 300 "reset function" "reset function 300 wait 1ms, halt"
recovers $bus2 300 "reset bus" "reset bus 300 wait 1ms, halt"
recovers $bus3 300 "rescan" "rescan 300 wait 1ms, halt"
recovers $bus4 300 "power-cycle" "power-cycle 300 wait 1ms, halt"
`},
	{"ladder-iommu", "vfio", `ready bus1 bus2 bus3 bus4 bus5
recovers $bus1 300 "restart" "restart 300 wait 1ms, halt"
recovers $bus5 300 "restart" "restart 300 wait 1ms, halt"
recovers $bus2 300 "reset bus" "reset bus 300 wait 1ms, halt"
recovers $bus3 300 "rescan" "rescan 300 wait 1ms, halt"
recovers $bus4 300 "power-cycle" "power-cycle 300 wait 1ms, halt"
`},
}

// TestTimesOfRecoveries prints the times from failures to the next good frame, by step. It takes
// an hour, and runs only where LM_SOAK_FRAMES is set (./build.sh soak).
func TestTimesOfRecoveries(t *testing.T) {
	if os.Getenv("LM_SOAK_FRAMES") == "" {
		t.Skip("takes an hour; ./build.sh soak runs it")
	}
	for _, times := range recoveryTimes {
		t.Run(times.kind, func(t *testing.T) {
			m, console := inside(t, func(m *machine) {
				m.timeout = 2 * time.Hour
				for _, kind := range kinds {
					if kind.name == times.kind {
						kind.setUp(t, m)
					}
				}
			}, times.backend, times.steps)
			t.Log(console)
			if m.served != nil {
				t.Error(m.served)
			}
		})
	}
}

// addAgain adds the device of a slot again. QEMU removes the device when the slot loses its power,
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
			arguments := devices[event.Data.Device]
			command := `{"execute": "device_add", "arguments": ` + arguments + "}\n"
			if _, err := m.to.WriteString(command); err != nil {
				return
			}
		}
	}
}
