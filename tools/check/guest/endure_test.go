package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// endured sets a machine up with a served Wormhole, by a way of onServed, and
// the capture of its twoop.
func endured(t *testing.T, lane int) func(*machine) {
	return func(m *machine) {
		onServed[lane].setUp(t, m)
		m.serveTo(t, "mock:wormhole")
		m.addGolden(t, "twoop", append([]string{"import"}, allChips[0].captures["twoop"]...)...)
	}
}

// TestServedChipBearsKillsAndFramesByRings, by VFIO, which resets a device that
// is taken next: sysfs leaves cores going that no one stops.
func TestServedChipBearsKillsAndFramesByRings(t *testing.T) {
	t.Parallel()
	m, console := inside(t, endured(t, 1), "endure", "vfio", allChips[0].ids)
	if m.served != nil {
		t.Error(m.served)
	}
	t.Log(console)
}

// ender passes on what the guest says, and ends the server when it is asked to.
type ender struct {
	io.Writer
	machine *machine
}

func (e *ender) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "end the server") {
		_ = e.machine.servers[0].process.Process.Kill()
	}
	return e.Writer.Write(p)
}

// abandoned has the host end the server of a guest that replays.
func abandoned(t *testing.T) (m *machine, console string, exit int, err error) {
	var text bytes.Buffer
	m, _, exit, err = insideRun(t, func(m *machine) {
		endured(t, 0)(m)
		m.stdout = &ender{&text, m}
	}, "abandoned", "pci", allChips[0].ids)
	return m, text.String(), exit, err
}

// TestServerThatDiesUnderARunningGuestIsADeviceThatIsGone, and both sides end.
// QEMU 11.1 dies of it itself now and then, by an assertion of its own
// error_setv, before the guest can notice: then it is tried again.
func TestServerThatDiesUnderARunningGuestIsADeviceThatIsGone(t *testing.T) {
	t.Parallel()
	m, console, exit, err := abandoned(t)
	for n := 1; n < 10 && err != nil && strings.Contains(err.Error(),
		"error_setv: Assertion"); n++ {
		m, console, exit, err = abandoned(t)
	}
	if exit != 0 || err != nil || m.served == nil ||
		!strings.Contains(m.served.Error(), "signal: killed") {
		t.Errorf("exit %d, %v, the server: %v\n%s", exit, err, m.served, console)
	}
	t.Log(console)
}
