package main

// This file has a machine whose devices answer at random, and executes images on it.

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"lightmetal/fbs"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/reader"
	"lightmetal/tools/check/vectors/vector"
)

// randomMachine is a machine whose devices answer at random. testdata/vectors/c/fuzz.c has the same
// one (struct chance).
type randomMachine struct {
	state      uint64 // state of the generator
	now        int64
	accessNs   uint64
	accesses   uint64
	failAt     uint64 // number of the first access that fails
	goneAt     uint64 // accesses after which a device goes away; 0: it stays
	goneDevice uint64
	style      uint64     // 0: loads always return the memory
	randomAt   uint64     // accesses before the first load that may return another value
	bus        uint64     // selects the bus addresses, see BusAddress
	memory     [4096]byte // the memory that all devices share
	report     []byte
}

// next returns the next random number (SplitMix64, Steele, Lea and Flood, 2014).
func (c *randomMachine) next() uint64 {
	c.state += 0x9e3779b97f4a7c15
	z := c.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// newRandomMachine returns a machine. After the given number of accesses, all accesses fail, so
// that every run ends.
func newRandomMachine(seed uint64, accesses uint32, report []byte) *randomMachine {
	c := &randomMachine{state: seed, failAt: uint64(accesses), report: report}
	c.accessNs = [4]uint64{0, 100, 5000, 1000000}[c.next()%4]
	if r := c.next(); r%8 == 0 {
		c.failAt = 1 + r>>8%100
	}
	r := c.next()
	if r%6 == 0 {
		c.goneAt = 1 + r>>8%60
	}
	c.goneDevice = r >> 32 % 2
	r = c.next()
	c.style = r % 4
	if r>>2%2 == 0 {
		c.randomAt = r >> 8 % 60
	}
	c.bus = c.next() % 8
	return c
}

// isGone reports whether the device of a space has gone away.
func (c *randomMachine) isGone(space vector.Space) bool {
	isDevice := space.Kind != vector.HostSpace && uint64(space.Device) == c.goneDevice
	return isDevice && c.goneAt != 0 && c.accesses > c.goneAt
}

// byteAt returns the byte of the memory at an offset of a space.
func (c *randomMachine) byteAt(space vector.Space, offset uint64) *byte {
	number := uint64(space.Bar + space.Window)
	at := offset + uint64(space.Kind)*1031 + uint64(space.Device)*977 + number*131
	return &c.memory[at%uint64(len(c.memory))]
}

// reportAccess adds an entry to the report. kind is L or S for a load or a store, l or s if it
// fails, and M if bus mastering is enabled.
func (c *randomMachine) reportAccess(kind byte, width uint8, space vector.Space,
	offset, value uint64) {
	number := space.Bar + space.Window
	c.report = append(c.report, kind, width, byte(space.Kind), byte(space.Device), byte(number),
		byte(number>>8), 0, 0)
	c.report = binary.LittleEndian.AppendUint64(c.report, offset)
	c.report = binary.LittleEndian.AppendUint64(c.report, value)
}

// countAccess counts an access. ok is false if the access fails.
func (c *randomMachine) countAccess() (ok bool) {
	c.accesses++
	c.now += int64(c.accessNs)
	return c.accesses < c.failAt
}

// Load implements oracle.Machine.
func (c *randomMachine) Load(space vector.Space, offset uint64, width uint8) (value uint64,
	ok bool) {
	ok = c.countAccess()
	r := c.next()
	for i := range uint64(width) {
		value |= uint64(*c.byteAt(space, offset+i)) << (8 * i)
	}
	if c.style != 0 && c.accesses > c.randomAt {
		switch r % 8 {
		case 4:
			value = 0
		case 5:
			value = ^uint64(0)
		case 6:
			value = r
		case 7:
			value = r >> 8 & 3
		}
	}
	if c.isGone(space) {
		value = ^uint64(0)
	}
	value &= fbs.WidthMask(width)
	if !ok {
		c.reportAccess('l', width, space, offset, 0)
		return 0, false
	}
	c.reportAccess('L', width, space, offset, value)
	return value, true
}

// Store implements oracle.Machine.
func (c *randomMachine) Store(space vector.Space, offset uint64, width uint8,
	value uint64) (ok bool) {
	if ok = c.countAccess(); !ok {
		c.reportAccess('s', width, space, offset, value)
		return false
	}
	c.reportAccess('S', width, space, offset, value)
	for i := range uint64(width) {
		if !c.isGone(space) {
			*c.byteAt(space, offset+i) = byte(value >> (8 * i))
		}
	}
	return true
}

// accessWidth returns the width of an access to memory: the largest one that is aligned and has no
// more bytes than are left. All readers of the project choose this width.
func accessWidth(width uint8, offset uint64, remaining int) uint8 {
	for int(width) > remaining || offset%uint64(width) != 0 {
		width /= 2
	}
	return width
}

// LoadBytes implements oracle.Machine.
func (c *randomMachine) LoadBytes(space vector.Space, offset uint64, width uint8,
	data []byte) bool {
	for len(data) > 0 {
		w := accessWidth(width, offset, len(data))
		value, ok := c.Load(space, offset, w)
		if !ok {
			return false
		}
		copy(data, vector.LittleEndian(value, w))
		data, offset = data[w:], offset+uint64(w)
	}
	return true
}

// StoreBytes implements oracle.Machine.
func (c *randomMachine) StoreBytes(space vector.Space, offset uint64, width uint8,
	data []byte) bool {
	for len(data) > 0 {
		w := accessWidth(width, offset, len(data))
		var value uint64
		for i := range w {
			value |= uint64(data[i]) << (8 * i)
		}
		if !c.Store(space, offset, w, value) {
			return false
		}
		data, offset = data[w:], offset+uint64(w)
	}
	return true
}

// EnableBusMaster reports that bus mastering of a device is enabled.
func (c *randomMachine) EnableBusMaster(device int) {
	c.reportAccess('M', 0, vector.Space{Device: device}, 0, 0)
}

// Fence implements oracle.Machine.
func (c *randomMachine) Fence() {}

// IsPresent implements oracle.Machine.
func (c *randomMachine) IsPresent(device int) bool { return !c.isGone(vector.OfConfig(device)) }

// Now implements oracle.Machine.
func (c *randomMachine) Now() int64 { return c.now }

// Wait implements oracle.Machine.
func (c *randomMachine) Wait(nanoseconds int64) { c.now += nanoseconds }

// Device implements oracle.Machine. Tenstorrent's devices have at least the sizes of the hardware.
func (c *randomMachine) Device(_ int, needed vector.Device) vector.Device {
	usual := [6]uint64{512 << 20, 0, 1 << 20, 0, 32 << 20, 0}
	if needed.Device == 0xb140 {
		usual[4] = 32 << 30
	}
	if needed.Vendor == 0x1e52 && (needed.Device == 0x401e || needed.Device == 0xb140) {
		for i := range usual {
			needed.Bars[i] = max(needed.Bars[i], usual[i])
		}
	}
	return needed
}

// BusAddress implements oracle.Machine.
func (c *randomMachine) BusAddress(window int) (address uint64, ok bool) {
	page := uint64(window+1) << 12
	switch c.bus {
	case 0:
		return 1<<32 + page, true
	case 1:
		if window%3 == 0 {
			return 0, false
		}
	case 2:
		return ^uint64(0) - page, true
	}
	return page, true
}

// reportText adds a formatted text to the report.
func (c *randomMachine) reportText(format string, args ...any) {
	c.report = fmt.Appendf(c.report, format, args...)
}

// reportResult reports the result of a run, and all outputs.
func (c *randomMachine) reportResult(r vector.Result,
	outputs func(report func(tensor int, data []byte))) {
	c.reportText("end %s %d now %d ignored %d", r.Code, r.Command, c.now, r.Ignored)
	if r.HasSeen {
		c.reportText(" seen")
	}
	if r.SafeRan {
		c.reportText(" safe %s", r.Safe)
	}
	c.reportText("\nvalues %x %x %x %d\n", r.Got, r.Want, r.Mask, r.Element)
	outputs(func(tensor int, data []byte) {
		sum := fnv.New32a()
		sum.Write(data)
		c.reportText("output %d %x\n", tensor, sum.Sum32())
	})
}

// reportRejection reports why an image is rejected.
func (c *randomMachine) reportRejection(fault *oracle.Fault) {
	c.reportText("reject %s %s\n", fault.Code, fault.Place)
}

// limitOf returns the time limit of a case in microseconds; 0: the limit of FORMAT.md. With a
// limit, the image is only loaded, because FORMAT.md does not specify when a run detects that it
// takes too long.
func limitOf(seed uint64) uint64 {
	if seed%16 != 5 {
		return 0
	}
	return 1 + seed>>20%5000
}

// memoryMax is the largest size of tensors and host memory of a case.
const memoryMax = 1 << 26

// inputData returns the data of an input.
func inputData(seed, size uint64) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(seed + 7*uint64(i))
	}
	return data
}

// executeCase makes a reader execute a case, and returns the report.
func executeCase(r reader.Reader, file []byte, seed uint64, accesses uint32, report []byte) []byte {
	c, limit := newRandomMachine(seed, accesses, report), limitOf(seed)
	fault := r.Verify(file, limit)
	if fault == nil && r.ReservedBytes() > memoryMax {
		c.reportText("reject memory\n")
		return c.report
	}
	var p reader.Player
	if fault == nil {
		p, fault = r.Load(c, limit)
	}
	if fault != nil {
		c.reportRejection(fault)
		return c.report
	}
	if limit != 0 {
		c.reportText("loaded\n")
		p.Close()
		return c.report
	}
	tensors := r.Tensors()
	for i, t := range tensors {
		if t.IsInput && (!t.HasData || seed%4 == 0) {
			p.SetInput(i, inputData(seed, t.Size))
		}
	}
	count := uint64(r.SequenceCount())
	for _, sequence := range [...]uint64{seed >> 8 % count, seed >> 40 % count} {
		c.reportResult(p.Run(int(sequence)), func(report func(int, []byte)) {
			for i, t := range tensors {
				if t.IsOutput {
					report(i, p.Tensor(i))
				}
			}
		})
	}
	p.Close()
	return c.report
}
