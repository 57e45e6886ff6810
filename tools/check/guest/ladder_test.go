package main

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// ladderListing computes 12! in each frame. Its poll has a short timeout, so that a frame fails
// quickly if the device hangs.
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

// setUpHangingDevices serves devices that fail, each behind its own root port. The device on bus 1
// hangs until its function is reset, on bus 2 until the bus is reset, on bus 3 until a rescan, and
// on bus 4 until its slot is powered off and on. The device on bus 5 vanishes from the bus, with
// its configuration space, until a reset.
func setUpHangingDevices(t *testing.T, m *machine) {
	m.rootPorts = true
	m.addServed(t)
	for _, fault := range []string{"wedged-until=flr@200", "wedged-until=bus@200",
		"wedged-until=rescan@200", "wedged-until=power@200", "gone@200"} {
		m.servedDevices = append(m.servedDevices, []string{"mock:edu", "--fault", fault})
	}
	m.addImage(t, "ladder", ladderListing)
	var monitor qemuMonitor
	m.extraArgs = append(m.extraArgs, monitor.start(t, m.dir)...)
	m.beforeBoot = func(qemuArgs []string) { go monitor.reinsertDevices(qemuArgs) }
}

// recoveryMeasurements are the recovery steps that TestTimesOfRecoveries measures. Each takes as
// long as the kernel takes, plus 1 ms.
var recoveryMeasurements = []struct{ kind, backend, steps string }{
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

// TestTimesOfRecoveries prints, for each recovery step, the times from failures to the next good
// frame. It takes an hour, and runs only if LM_SOAK_FRAMES is set (./build.sh soak).
func TestTimesOfRecoveries(t *testing.T) {
	if os.Getenv("LM_SOAK_FRAMES") == "" {
		t.Skip("takes an hour; ./build.sh soak runs it")
	}
	for _, times := range recoveryMeasurements {
		t.Run(times.kind, func(t *testing.T) {
			m, console := runInside(t, func(m *machine) {
				m.timeout = 2 * time.Hour
				for _, kind := range kinds {
					if kind.name == times.kind {
						kind.setUp(t, m)
					}
				}
			}, times.backend, times.steps)
			t.Log(console)
			if m.serversErr != nil {
				t.Error(m.serversErr)
			}
		})
	}
}

// reinsertDevices adds each device again after its slot has lost power. QEMU then removes the
// device, although a card would stay in the slot. qemuArgs are QEMU's arguments for the devices.
func (m *qemuMonitor) reinsertDevices(qemuArgs []string) {
	devices := map[string]string{} // arguments of device_add, by id
	for _, argument := range qemuArgs {
		var device struct{ ID string }
		if json.Unmarshal([]byte(argument), &device) == nil && device.ID != "" {
			devices[device.ID] = argument
		}
	}
	lines := bufio.NewScanner(m.from) // ends when the test closes the pipe
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
