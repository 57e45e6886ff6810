package vfiouser

import (
	"encoding/binary"
	"os"
	"testing"

	"lightmetal/boards"

	"golang.org/x/sys/unix"
)

// eventfd is what a client is told of an interrupt by.
func eventfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// told is how often an eventfd was told since the last time.
func told(fd int) uint64 {
	var count [8]byte
	if _, err := unix.Read(fd, count[:]); err != nil {
		return 0
	}
	return binary.NativeEndian.Uint64(count[:])
}

// TestClientIsToldOfInterruptsAsLongAsItWants: by the eventfd that it gave last.
func TestClientIsToldOfInterruptsAsLongAsItWants(t *testing.T) {
	c, _ := serving(t, opened(&boards.Edu), nil)
	for index, want := range []uint32{0, 1, 0, 0, 0} {
		info := c.must(cmdIRQInfo, words(16, 0, uint32(index), 0))
		if got := binary.LittleEndian.Uint32(info[12:]); got != want {
			t.Errorf("%d interrupts of kind %d, want %d", got, index, want)
		}
	}
	set := words(20, irqEventFD|irqTrigger, irqMSI, 0, 1)
	first, second := eventfd(t), eventfd(t)
	c.store(0, 0x60, 4, 1) // edu: raise
	c.must(cmdSetIRQs, set, first)
	c.store(0, 0x60, 4, 1)
	c.store(0, 0x60, 4, 2)
	c.must(cmdSetIRQs, set, second)
	c.store(0, 0x60, 4, 4)
	if a, b := told(first), told(second); a != 2 || b != 1 {
		t.Errorf("told %d and %d times, want 2 and 1", a, b)
	}
	c.must(cmdDeviceReset, nil)
	c.store(0, 0x60, 4, 1)
	if told(second) != 1 {
		t.Error("a device that was reset interrupts no more")
	}
	before := openOf(t, first)
	for name, wrong := range map[string][]byte{
		"another kind":    words(20, irqEventFD|irqTrigger, 0, 0, 1),
		"a second":        words(20, irqEventFD|irqTrigger, irqMSI, 1, 1),
		"several":         words(20, irqEventFD|irqTrigger, irqMSI, 0, 2),
		"not by eventfd":  words(20, 1|irqTrigger, irqMSI, 0, 1),
		"cut in the body": set[:19],
	} {
		if _, number := c.send(cmdSetIRQs, wrong, first); number != unix.EINVAL {
			t.Errorf("%s: %v", name, number)
		}
	}
	if _, number := c.send(cmdSetIRQs, set, first, second); number != unix.EINVAL ||
		openOf(t, first) != before {
		t.Errorf("two for one: %v, %d descriptors open, %d before", number, openOf(t, first),
			before)
	}
	c.must(cmdSetIRQs, words(20, 1|irqTrigger, irqMSI, 0, 0))
	c.store(0, 0x60, 4, 1)
	if told(second) != 0 {
		t.Error("the client is told though it does not want to be")
	}
}

// TestClientThatDoesNotListenHoldsNothingUp: what it gives to be told by is an
// eventfd, and a full one is left alone.
func TestClientThatDoesNotListenHoldsNothingUp(t *testing.T) {
	c, _ := serving(t, opened(&boards.Edu), nil)
	set := words(20, irqEventFD|irqTrigger, irqMSI, 0, 1)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	before := openOf(t, int(w.Fd()))
	if _, number := c.send(cmdSetIRQs, set, int(w.Fd())); number != unix.EINVAL ||
		openOf(t, int(w.Fd())) != before {
		t.Fatalf("a pipe: %v, %d descriptors open, %d before", number, openOf(t, int(w.Fd())),
			before)
	}
	full, err := unix.Eventfd(0, unix.EFD_CLOEXEC) // a write to it waits
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(full)
	const most = 1<<64 - 2
	if _, err := unix.Write(full, binary.NativeEndian.AppendUint64(nil, most)); err != nil {
		t.Fatal(err)
	}
	c.must(cmdSetIRQs, set, full)
	c.store(0, 0x60, 4, 1)
	if told(full) != most {
		t.Error("what was in the eventfd has changed")
	}
	c.store(0, 0x60, 4, 1)
	if told(full) != 1 {
		t.Error("the client is not told though it has room again")
	}
}

// TestCapabilitiesCanBeLeftOut, each, and what a client asks of one that is.
func TestCapabilitiesCanBeLeftOut(t *testing.T) {
	for _, without := range Capabilities() {
		f, err := New(opened(&boards.Edu), Options{Without: []string{without}})
		if err != nil {
			t.Fatal(err)
		}
		var found []byte
		for at := f.config.bytes[regCapability]; at != 0; at = f.config.bytes[at+1] {
			found = append(found, f.config.bytes[at])
		}
		if len(found) != len(capabilities)-1 {
			t.Errorf("without %s: %x", without, found)
		}
		for i := range capabilities {
			if p := &capabilities[i]; p.name == without && f.config.bytes[p.at] != 0 {
				t.Errorf("%s is there", without)
			}
		}
		body, err := f.irqInfo(&message{body: words(16, 0, irqMSI, 0)})
		if count := binary.LittleEndian.Uint32(body[12:]); err != nil ||
			(count == 0) != (without == "msi") {
			t.Errorf("without %s: %d messages, %v", without, count, err)
		}
	}
	f, err := New(opened(&boards.Edu), Options{Without: Capabilities()})
	if err != nil || f.config.bytes[regStatus]|f.config.bytes[regCapability] != 0 {
		t.Errorf("without any there is a list, %v", err)
	}
}
