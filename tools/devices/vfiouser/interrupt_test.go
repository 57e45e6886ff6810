package vfiouser

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

// createEventfd creates an eventfd through which the server signals interrupts.
func createEventfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// readEventfd returns how often an eventfd was signalled since the previous call.
func readEventfd(fd int) uint64 {
	var count [8]byte
	if _, err := unix.Read(fd, count[:]); err != nil {
		return 0
	}
	return binary.NativeEndian.Uint64(count[:])
}

// TestInterruptIsSignalledOnTheLatestEventfd sets two eventfds, resets the device, sends invalid
// requests, and then disables interrupts.
func TestInterruptIsSignalledOnTheLatestEventfd(t *testing.T) {
	c, _ := startServer(t, mockOpener(&boards.Edu), nil)
	for index, want := range []uint32{0, 1, 0, 0, 0} {
		info := c.sendOK(cmdIRQInfo, words(16, 0, uint32(index), 0))
		if got := binary.LittleEndian.Uint32(info[12:]); got != want {
			t.Errorf("%d interrupts of kind %d, want %d", got, index, want)
		}
	}
	set := words(20, irqEventFD|irqTrigger, irqMSI, 0, 1)
	first, second := createEventfd(t), createEventfd(t)
	c.store(0, 0x60, 4, 1) // edu: raise
	c.sendOK(cmdSetIRQs, set, first)
	c.store(0, 0x60, 4, 1)
	c.store(0, 0x60, 4, 2)
	c.sendOK(cmdSetIRQs, set, second)
	c.store(0, 0x60, 4, 4)
	if a, b := readEventfd(first), readEventfd(second); a != 2 || b != 1 {
		t.Errorf("eventfds signalled %d and %d times, want 2 and 1", a, b)
	}
	c.sendOK(cmdDeviceReset, nil)
	c.store(0, 0x60, 4, 1)
	if readEventfd(second) != 1 {
		t.Error("the device signals no interrupt after a reset")
	}
	before := countDescriptors(t, first)
	for name, wrong := range map[string][]byte{
		"another kind":   words(20, irqEventFD|irqTrigger, 0, 0, 1),
		"a second":       words(20, irqEventFD|irqTrigger, irqMSI, 1, 1),
		"several":        words(20, irqEventFD|irqTrigger, irqMSI, 0, 2),
		"not by eventfd": words(20, 1|irqTrigger, irqMSI, 0, 1),
		"truncated body": set[:19],
	} {
		if _, number := c.send(cmdSetIRQs, wrong, first); number != unix.EINVAL {
			t.Errorf("%s: error %v, want %v", name, number, unix.EINVAL)
		}
	}
	if _, number := c.send(cmdSetIRQs, set, first, second); number != unix.EINVAL ||
		countDescriptors(t, first) != before {
		t.Errorf("two descriptors for one interrupt: error %v, want %v; "+
			"%d descriptors open, want %d", number, unix.EINVAL, countDescriptors(t, first), before)
	}
	c.sendOK(cmdSetIRQs, words(20, 1|irqTrigger, irqMSI, 0, 0))
	c.store(0, 0x60, 4, 1)
	if readEventfd(second) != 0 {
		t.Error("an interrupt was signalled after the client disabled interrupts")
	}
}

// TestInterruptsAreInTheRecording requires each interrupt behind the access that caused it, but
// only while the client takes interrupts.
func TestInterruptsAreInTheRecording(t *testing.T) {
	var trace bytes.Buffer
	c, f := startServer(t, mockOpener(&boards.Edu), &trace)
	c.store(0, 0x60, 4, 1)
	c.sendOK(cmdSetIRQs, words(20, irqEventFD|irqTrigger, irqMSI, 0, 1), createEventfd(t))
	c.store(0, 0x60, 4, 2)
	c.load(0, 0x24, 4)
	var got []string
	for _, r := range finishRecording(t, c, f, &trace).Records {
		switch r.Kind {
		case record.BarRead, record.BarWrite:
			got = append(got, fmt.Sprintf("access %x", r.Offset))
		case record.Interrupt:
			got = append(got, "interrupt")
		}
	}
	if s := strings.Join(got, ", "); s != "access 60, access 60, interrupt, access 24" {
		t.Errorf("the recording has: %s", s)
	}
}

// TestFullEventfdDoesNotBlockTheServer requires that the server rejects a pipe, and does not write
// to an eventfd whose counter is full: the write would block.
func TestFullEventfdDoesNotBlockTheServer(t *testing.T) {
	c, _ := startServer(t, mockOpener(&boards.Edu), nil)
	set := words(20, irqEventFD|irqTrigger, irqMSI, 0, 1)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	before := countDescriptors(t, int(w.Fd()))
	if _, number := c.send(cmdSetIRQs, set, int(w.Fd())); number != unix.EINVAL ||
		countDescriptors(t, int(w.Fd())) != before {
		t.Fatalf("a pipe: error %v, want %v; %d descriptors open, want %d", number, unix.EINVAL,
			countDescriptors(t, int(w.Fd())), before)
	}
	full, err := unix.Eventfd(0, unix.EFD_CLOEXEC) // without EFD_NONBLOCK, a write to it blocks
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(full)
	const most = 1<<64 - 2
	if _, err := unix.Write(full, binary.NativeEndian.AppendUint64(nil, most)); err != nil {
		t.Fatal(err)
	}
	c.sendOK(cmdSetIRQs, set, full)
	c.store(0, 0x60, 4, 1)
	if readEventfd(full) != most {
		t.Error("the counter of the full eventfd has changed")
	}
	c.store(0, 0x60, 4, 1)
	if readEventfd(full) != 1 {
		t.Error("no interrupt was signalled after the client read the full eventfd")
	}
}

// TestCapabilitiesCanBeLeftOut leaves out each capability, and then all of them.
func TestCapabilitiesCanBeLeftOut(t *testing.T) {
	for _, without := range Capabilities() {
		f, err := New(mockOpener(&boards.Edu), Options{Without: []string{without}})
		if err != nil {
			t.Fatal(err)
		}
		var found []byte
		for at := f.config.bytes[regCapability]; at != 0; at = f.config.bytes[at+1] {
			found = append(found, f.config.bytes[at])
		}
		if len(found) != len(capabilities)-1 {
			t.Errorf("without %s: capabilities %x, want %d", without, found, len(capabilities)-1)
		}
		for i := range capabilities {
			if p := &capabilities[i]; p.name == without && f.config.bytes[p.at] != 0 {
				t.Errorf("without %s: configuration space still has it", without)
			}
		}
		body, err := f.irqInfo(&message{body: words(16, 0, irqMSI, 0)})
		if count := binary.LittleEndian.Uint32(body[12:]); err != nil ||
			(count == 0) != (without == "msi") {
			t.Errorf("without %s: %d MSI messages, error %v", without, count, err)
		}
	}
	f, err := New(mockOpener(&boards.Edu), Options{Without: Capabilities()})
	if err != nil {
		t.Fatal(err)
	}
	status, first := f.config.bytes[regStatus], f.config.bytes[regCapability]
	if status&statusCaps != 0 || first != 0 {
		t.Errorf("without any capability: status register %#x and first capability at %#x, "+
			"want neither bit %#x nor a capability", status, first, statusCaps)
	}
}
