package importer

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

// HostSpec is host memory that the recorded program let its device reach: what
// was in it, and where the device saw it.
type HostSpec struct {
	Name string
	Bus  uint64
	Data []byte
}

const hostForm = "NAME=BUSADDRESS,FILE, such as ring=0x43080000,ring.bin"

// ParseHost reads NAME=BUSADDRESS,FILE. What is in the file is the caller's to
// put into Data.
func ParseHost(spec string) (h HostSpec, file string, err error) {
	name, rest, ok := strings.Cut(spec, "=")
	address, file, ok2 := strings.Cut(rest, ",")
	bus, ok3 := parseNumber(address)
	if !ok || !ok2 || !ok3 || file == "" {
		return h, "", usage("host memory %q: the form is %s", spec, hostForm)
	}
	if reason := nameReason(name); reason != "" {
		return h, "", usage("host memory %q: %s (the form is %s)", spec, reason, hostForm)
	}
	return HostSpec{Name: name, Bus: bus}, file, nil
}

// checkHost refuses host memory that no image can hold, or that is two things.
func (o *Options) checkHost() error {
	for i, h := range o.Host {
		size := uint64(len(h.Data))
		switch {
		case size == 0 || size > fbs.WindowMax:
			return usage("host memory %s: %d bytes are not 1 to %d", h.Name, size, uint64(fbs.WindowMax))
		case h.Bus == 0 || h.Bus%8 != 0 || h.Bus > math.MaxUint64-size:
			return usage("host memory %s: 0x%x is no address of %d bytes", h.Name, h.Bus, size)
		}
		for _, other := range o.Host[:i] {
			if other.Name == h.Name || other.Bus < h.Bus+size && h.Bus < other.Bus+uint64(len(other.Data)) {
				return usage("host memory %s and %s are the same", other.Name, h.Name)
			}
		}
	}
	return nil
}

// hostOf finds the host memory that an address lies in, -1 if there is none.
func (o *Options) hostOf(address uint64) (index int, inside uint64) {
	for i, h := range o.Host {
		if inside = address - h.Bus; inside < uint64(len(h.Data)) {
			return i, inside
		}
	}
	return -1, 0
}

// isAddress tells whether an access moves an address in host memory.
func (o *Options) isAddress(a *Access) bool {
	index, _ := o.hostOf(a.Value)
	return a.Width >= 4 && index >= 0
}

// joinHalves makes one store of two that follow each other and hold the halves
// of an address in host memory: on the target it may have other bits in both.
func (p *plan) joinHalves() (joined int) {
	if len(p.o.Host) == 0 {
		return 0
	}
	kept := p.trace.Accesses[:0]
	for _, a := range p.trace.Accesses {
		if n := len(kept); n > 0 {
			if whole, ok := p.joined(&kept[n-1], &a); ok {
				kept[n-1] = whole
				joined++
				continue
			}
		}
		kept = append(kept, a)
	}
	p.trace.Accesses = kept
	return joined
}

func (p *plan) joined(a, b *Access) (whole Access, ok bool) {
	low, high := a, b
	if a.Offset > b.Offset {
		low, high = b, a
	}
	if a.Op != OpStore || b.Op != OpStore || a.Width != 4 || b.Width != 4 || a.Bar != b.Bar || low.Offset%8 != 0 || high.Offset != low.Offset+4 {
		return whole, false
	}
	whole = *a
	whole.Offset, whole.Width, whole.Value = low.Offset, 8, low.Value|high.Value<<32
	r := p.board.Rule(whole.Bar, whole.Offset, 8)
	return whole, r != nil && r.Widths&8 != 0 && p.o.isAddress(&whole)
}

// host makes a relocation of every store of an address in host memory. Loads
// of one are carried out and not held against the recording.
func (p *plan) host() (string, error) {
	if len(p.o.Host) == 0 {
		return "", nil
	}
	stores, loads := 0, 0
	for i := range p.steps {
		s := &p.steps[i]
		index, inside := p.o.hostOf(s.value)
		if index < 0 || s.width < 4 || s.op != stepStore && s.op != stepLoad {
			continue
		}
		if s.op == stepLoad {
			s.op = stepIgnore
			loads++
			continue
		}
		if s.aim >= 0 || !takesAddresses(p.board.Name, p.windows[s.window].bar, s.offset) {
			p.warn(s.line, "0x%x, which is stored to %s + 0x%x, is taken for an address in host memory %s",
				s.value, p.windows[s.window].Name, s.offset, p.o.Host[index].Name)
		}
		s.op, s.value, s.host = stepRelocate, inside, uint16(index)
		stores++
	}
	text := counted(stores, "store") + " of its addresses became relocations"
	if p.halves > 0 {
		text += fmt.Sprintf(", %d of them joined from two halves", p.halves)
	}
	if loads > 0 {
		text += "; " + counted(loads, "load") + " of its addresses ignored"
	}
	p.hostWindows()
	p.warn(0, "the trace holds neither what the device did to host memory nor what the program read there: the image does not wait for it, and does not compare it")
	return text, nil
}

// hostWindows adds a window for each host memory.
func (p *plan) hostWindows() {
	p.hostFirst = uint16(len(p.windows))
	for _, h := range p.o.Host {
		w := window{}
		w.Window = lmb.Window{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot, Size: uint64(len(h.Data))}, Name: h.Name}
		p.windows = append(p.windows, w)
	}
}

// fill puts commands in front that bring host memory to what was recorded,
// addresses in it to what they are on the target.
func (p *plan) fill() (string, error) {
	if len(p.o.Host) == 0 {
		return "", nil
	}
	var front, pointers []lmb.Command
	text := ""
	for i, h := range p.o.Host {
		window := p.hostFirst + uint16(i)
		front = append(front, lmb.Command{Data: h.Data, Command: fbs.Command{
			Opcode: gen.OpcodeCopyIn, Width: 8, Mode: uint8(gen.AccessBulk), Window: window,
		}})
		before := len(pointers)
		for offset := 0; offset+8 <= len(h.Data); offset += 8 {
			if index, inside := p.o.hostOf(binary.LittleEndian.Uint64(h.Data[offset:])); index >= 0 {
				pointers = append(pointers, relocation(8, window, uint64(offset), p.hostFirst+uint16(index), inside))
			}
		}
		text += fmt.Sprintf("; %s: %d bytes with %s", h.Name, len(h.Data), counted(len(pointers)-before, "address"))
	}
	front = append(front, pointers...)
	front = append(front, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
	p.commands = append(front, p.commands...)
	return "host memory " + text[2:], nil
}

// relocation stores the bus address of a place in host memory.
func relocation(width uint8, window uint16, offset uint64, host uint16, inside uint64) lmb.Command {
	return lmb.Command{Command: fbs.Command{
		Opcode: gen.OpcodeAddress, Width: width, Window: window, Index: host, Offset: uint32(offset), Value: inside,
	}}
}
