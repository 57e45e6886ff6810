package main

import (
	"encoding/binary"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/vector"
)

// follower executes the sequences of an image with the oracle, and compares the accesses to one
// region with QEMU's trace. A load returns the value in the trace. Commands that access something
// else are not executed.
type follower struct {
	*oracle.Player
	image  *oracle.Image
	traced region

	trace   []access // accesses that have not been compared yet
	matched int      // number of accesses that have been compared
	now     int64    // virtual time in nanoseconds
	err     error    // the first difference

	// The contents of the region, for a region that consists only of memory, whose accesses QEMU
	// cannot trace. If it is not nil, the commands access it instead of the trace.
	memory []byte
}

// anyTLBWindow makes the oracle choose the TLB windows.
const anyTLBWindow = -1

// newFollower loads an image. If firstTLBWindow is not anyTLBWindow, the windows of the image have
// the TLB windows from this one on, as with the flag -window of lmrun.
func newFollower(file []byte, traced region, firstTLBWindow int) (*follower, error) {
	image, fault := oracle.Verify(file)
	if fault != nil {
		return nil, fault
	}
	if firstTLBWindow != anyTLBWindow {
		image.UseTLBWindowsFrom(firstTLBWindow)
	}
	f := &follower{image: image, traced: traced}
	const limitUs = 1 << 52 // more than the virtual time of any test
	if f.Player, fault = oracle.Load(image, f, limitUs); fault != nil {
		return nil, fault
	}
	for i := range image.Commands {
		c := &image.Commands[i]
		space, _ := f.Place(c.Window)
		if c.Opcode <= uint8(gen.OpcodeCompare) && !f.isTraced(space) {
			*c = oracle.Command{Opcode: uint8(gen.OpcodeFence)}
		}
	}
	return f, f.err
}

// tensor returns the index of a tensor, -1 if the image has none with this name.
func (f *follower) tensor(name string) int {
	return slices.IndexFunc(f.image.Tensors, func(t oracle.Tensor) bool {
		return string(f.image.Name(t.Name)) == name
	})
}

// output returns the data of an output, from the loads of all runs.
func (f *follower) output(name string) []byte { return f.Tensor(f.tensor(name)) }

// setInput sets the data of an input.
func (f *follower) setInput(name string, data []byte) { f.SetInput(f.tensor(name), data) }

// follow executes a sequence, and the sequence "safe" if it fails. The trace must begin with the
// required accesses, in order and with the right kind, width, offset and value. follow returns the
// command that failed, such as "main[3]", and the rest of the trace.
func (f *follower) follow(sequence string, trace []access) (failed string, rest []access,
	err error) {
	index := f.image.Find(sequence)
	if index < 0 {
		return "", nil, fmt.Errorf("no sequence %s", sequence)
	}
	f.trace, f.matched = trace, 0
	result := f.Run(index)
	switch {
	case f.err != nil:
		return "", nil, f.err
	case result.SafeRan && result.Safe != "done":
		return "", nil, fmt.Errorf("the sequence safe failed: %s", result.Safe)
	case result.Command >= 0:
		failed = f.commandName(result.Command)
	case result.Code != "done":
		err = fmt.Errorf("the sequence %s did not run: %s", sequence, result.Code)
	}
	return failed, f.trace, err
}

// commandName returns the place of a command in its sequence, such as "main[3]".
func (f *follower) commandName(command int) string {
	for _, s := range f.image.Sequences {
		if first := int(s.First); command >= first && command < first+int(s.Count) {
			return fmt.Sprintf("%s[%d]", f.image.Name(s.Name), command-first)
		}
	}
	return ""
}

func (f *follower) isTraced(space vector.Space) bool {
	device := &f.image.Devices[space.Device]
	return space.Kind == vector.BarSpace && space.Bar == int(f.traced.bar) &&
		device.Vendor == f.traced.vendor && device.Device == f.traced.device
}

// storesBusAddress reports whether the command stores a bus address, which is not compared.
func (f *follower) storesBusAddress() bool {
	return f.image.Commands[f.Command].Opcode == uint8(gen.OpcodeRelocate)
}

// fail records the first difference. All later accesses fail, so that the run ends.
func (f *follower) fail(format string, args ...any) {
	f.err = fmt.Errorf("%s, access %d: %s", f.commandName(f.Command), f.matched,
		fmt.Sprintf(format, args...))
}

// access compares an access with the next one of the trace, and returns the value of that one.
func (f *follower) access(want access) (value uint64, ok bool) {
	switch {
	case f.err != nil:
		return 0, false
	case f.memory != nil:
		return f.accessMemory(want)
	case len(f.trace) == 0:
		f.fail("the trace ends here, with a %v missing", want)
		return 0, false
	}
	have := f.trace[0]
	if !want.store || f.storesBusAddress() {
		want.value = have.value
	}
	if have != want {
		f.fail("want a %v, have a %v", want, have)
		return 0, false
	}
	f.trace = f.trace[1:]
	f.matched++
	return have.value, true
}

func (f *follower) accessMemory(a access) (value uint64, ok bool) {
	data := f.memory[a.offset:][:a.width]
	if f.storesBusAddress() {
		f.fail("the value of a %v depends on a bus address", a)
		return 0, false
	}
	if a.store {
		copy(data, littleEndianBytes(a.value))
	}
	return littleEndianValue(data), true
}

// nextWidth returns the width of the next access of a bulk copy with so many bytes left. The
// accesses may have any widths.
func (f *follower) nextWidth(left int) uint8 {
	if len(f.trace) == 0 || int(f.trace[0].width) > left {
		return 1
	}
	return f.trace[0].width
}

// Load implements oracle.Machine.
func (f *follower) Load(space vector.Space, offset uint64, width uint8) (value uint64, ok bool) {
	if !f.isTraced(space) {
		return 0, true
	}
	return f.access(access{offset: offset, width: width})
}

// Store implements oracle.Machine.
func (f *follower) Store(space vector.Space, offset uint64, width uint8, value uint64) (ok bool) {
	if !f.isTraced(space) {
		return true
	}
	_, ok = f.access(access{true, offset, width, value})
	return ok
}

// LoadBytes implements oracle.Machine.
func (f *follower) LoadBytes(space vector.Space, offset uint64, _ uint8, data []byte) (ok bool) {
	for len(data) > 0 {
		width := f.nextWidth(len(data))
		value, ok := f.Load(space, offset, width)
		if !ok {
			return false
		}
		copy(data[:width], littleEndianBytes(value))
		offset, data = offset+uint64(width), data[width:]
	}
	return true
}

// StoreBytes implements oracle.Machine.
func (f *follower) StoreBytes(space vector.Space, offset uint64, _ uint8, data []byte) (ok bool) {
	for len(data) > 0 {
		width := f.nextWidth(len(data))
		if !f.Store(space, offset, width, littleEndianValue(data[:width])) {
			return false
		}
		offset, data = offset+uint64(width), data[width:]
	}
	return true
}

// Fence implements oracle.Machine.
func (f *follower) Fence() {}

// IsPresent implements oracle.Machine.
func (f *follower) IsPresent(int) bool { return true }

// Now implements oracle.Machine.
func (f *follower) Now() int64 { return f.now }

// Wait implements oracle.Machine. A poll may repeat its load any number of times. Therefore no time
// passes until the trace has only one more load like it. Then all deadlines pass.
func (f *follower) Wait(int64) {
	const allDeadlines = 5_000_000_000_000 // more than 2^32 us, in nanoseconds
	if len(f.trace) >= 2 {
		next, afterNext := f.trace[0], f.trace[1]
		afterNext.value = next.value
		if next == afterNext {
			return
		}
	}
	f.now += allDeadlines
}

// Device implements oracle.Machine.
func (f *follower) Device(_ int, needed vector.Device) vector.Device {
	return needed.WithLargeBARs()
}

// BusAddress implements oracle.Machine. It returns any address for a window without a fixed bus
// address, because stores of bus addresses are not compared.
func (f *follower) BusAddress(window int) (address uint64, ok bool) {
	if w := &f.image.Windows[window]; w.Flags&fbs.FlagFixedBus != 0 {
		return w.Offset, true
	}
	return 4096, true
}

// littleEndianBytes returns the 8 bytes of a number, least significant byte first.
func littleEndianBytes(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// littleEndianValue returns the number whose least significant bytes, up to 8, are given.
func littleEndianValue(data []byte) uint64 {
	var all [8]byte
	copy(all[:], data)
	return binary.LittleEndian.Uint64(all[:])
}
