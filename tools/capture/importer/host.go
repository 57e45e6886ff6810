package importer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
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
		return h, "", traces.Usage("host memory %q: the form is %s", spec, hostForm)
	}
	if reason := nameReason(name); reason != "" {
		return h, "", traces.Usage("host memory %q: %s (the form is %s)", spec, reason, hostForm)
	}
	return HostSpec{Name: name, Bus: bus}, file, nil
}

// checkHost refuses host memory that no image can hold, or that is two things.
func (o *Options) checkHost() error {
	for i, h := range o.Host {
		size := uint64(len(h.Data))
		switch {
		case size == 0 || size > fbs.WindowSizeMax:
			return traces.Usage("host memory %s has %d bytes, but must have 1 to %d", h.Name, size,
				uint64(fbs.WindowSizeMax))
		case h.Bus == 0 || h.Bus%8 != 0 || h.Bus > math.MaxUint64-size:
			return traces.Usage("host memory %s: bus address 0x%x must be a multiple of 8, not 0, "+
				"and have room for %d bytes", h.Name, h.Bus, size)
		}
		for _, other := range o.Host[:i] {
			if other.Name == h.Name || other.Bus < h.Bus+size &&
				h.Bus < other.Bus+uint64(len(other.Data)) {
				return traces.Usage("host memory %s and %s have the same name, or "+
					"overlap", other.Name, h.Name)
			}
		}
	}
	return nil
}

// inHost reports whether an address lies in host memory that the user gave, or
// that a recording says the device reaches.
func (p *program) inHost(address uint64) bool {
	return slices.ContainsFunc(p.hosts, func(h hostSpace) bool {
		return (h.given || h.exact) &&
			address >= h.bus && address-h.bus < h.size
	})
}

func (l *lifter) Block(a *traces.Access, data []byte) error {
	if a.Width != 0 {
		return traces.Neighbours(a, data, l.neighbours)
	}
	// The loop allocates nothing, and recordings have millions of these.
	for a, data := range traces.Natural(*a, data) {
		if err := l.neighbours(a, data); err != nil {
			return err
		}
	}
	return nil
}

// neighbours takes accesses of one width, of which a is the first.
func (l *lifter) neighbours(a *traces.Access, data []byte) error {
	return l.accesses(a, uint32(len(data)/int(a.Width)), data)
}

// whole makes one store of the last step and of s where they hold the halves of
// an address in host memory: on the target it may have other bits in both.
func (l *lifter) whole(s *step) bool {
	a := l.steps.end()
	if a == nil || len(l.hosts) == 0 || s.op != stepStore || a.op != stepStore || s.width != 4 ||
		a.width != 4 || s.count != 1 || s.is(pointedStep) ||
		a.window != s.window || a.aim != s.aim || a.rule != s.rule || l.rule(s).Widths&8 == 0 {
		return false
	}
	half := l.element(a, a.count-1)
	low, high := &half, s
	if half.offset > s.offset {
		low, high = s, &half
	}
	value := low.value | high.value<<32
	if low.offset%8 != 0 || high.offset != low.offset+4 || !l.inHost(value) {
		return false
	}
	half.width, half.offset, half.value = 8, low.offset, value
	if a.count == 1 {
		*a = half
	} else {
		*a = l.program.part(a, 0, a.count-1)
		l.steps.add(half)
	}
	l.halves++
	return true
}

// mapping follows an access of the registers that map host memory.
func (l *lifter) mapping(a *traces.Access, inside bool) error {
	if inside {
		if a.Op == traces.OpLoad {
			l.program.loads++
		} else {
			l.program.stores++
		}
	}
	return l.host.access(a)
}

// front returns the commands that bring host memory to what was recorded,
// addresses in it to what they are on the target.
func (m *maker) front() (list []lmb.Command, did string) {
	var pointers []lmb.Command
	for i := range m.hosts {
		h := &m.hosts[i]
		before, size := len(pointers), 0
		if h.exact {
			list = append(list,
				lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFill, Width: 8,
					Mode: uint8(gen.AccessExact), Window: h.window,
					Amount: uint32(h.size)}})
		}
		for _, s := range joined(h.first) {
			size += len(s.data)
			list = append(list, m.hostCopies(h, s)...)
			pointers = append(pointers, m.pointersIn(h, s)...)
		}
		did += fmt.Sprintf("; %s: %d bytes with %s", h.name, size,
			english.Count(len(pointers)-before, "address"))
	}
	if len(list) == 0 {
		return nil, ""
	}
	list = append(list, pointers...)
	list = append(list, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
	return list, "host memory " + did[2:]
}

// hostCopies bring data to host memory, in natural widths at its ends.
func (m *maker) hostCopies(h *hostSpace, s hostStore) (list []lmb.Command) {
	if h.given {
		return []lmb.Command{m.hostCopy(h, 0, 8, s.data)}
	}
	for a, data := range traces.Natural(traces.Access{Offset: s.offset}, s.data) {
		list = append(list, m.hostCopy(h, a.Offset, a.Width, data))
	}
	return list
}

func (m *maker) hostCopy(h *hostSpace, offset uint64, width uint8, data []byte) lmb.Command {
	return lmb.Command{Data: data, Command: fbs.Command{
		Opcode: gen.OpcodeCopyIn, Width: width, Mode: uint8(gen.AccessBulk), Window: h.window,
		Offset: uint32(offset),
	}}
}

// pointersIn gives relocations of the addresses that host memory holds.
func (m *maker) pointersIn(h *hostSpace, s hostStore) (list []lmb.Command) {
	for offset, value := range s.quadwords() {
		if index, inside := m.hostPointer(value, 8); index >= 0 &&
			(m.hosts[index].whole || m.hosts[index].bus != 0) {
			list = append(list, relocation(8, h.window, offset, m.hosts[index].window, inside))
		}
	}
	return list
}

// toldApart names the flags of lm record by which it knows who wrote.
const toldApart = "lm record --protect all or --watch"

// unanswered warns of host memory that by the recording the program stored to and
// the device never did: answers that were taken for the program's would be in the
// image, which then compares them with nothing.
func (l *lifter) unanswered() (out outcome) {
	for i := range l.hosts {
		if h := &l.hosts[i]; h.exact && h.stored > 0 && !h.wrote {
			out.warn(h.stored,
				"%s, bus address 0x%x: the recording has no writes of the device there; if the "+
					"device writes results there, the image already contains these results: "+
					"record with %s", h.name, h.bus, toldApart)
		}
	}
	return out
}

// iatu says what became of the stores that map host memory.
func (l *lifter) iatu() (out outcome, err error) {
	r := l.host.regions
	if r.stores+r.loads == 0 {
		return out, nil
	}
	var list clauses
	list.add(1, "%s of the iATU left out: the backend of a replay programs it",
		english.Count(r.stores+r.loads, "access"))
	unused := 0
	for number := range uint32(r.RegionCount) {
		if !r.enabled[number] {
			continue
		}
		g, _ := r.get(number)
		names := ""
		for i := range l.hosts {
			if h := &l.hosts[i]; h.whole && g.size > 0 && h.bus-g.target < g.size {
				names += ", " + h.name
			}
		}
		if names == "" {
			unused++
			continue
		}
		list.add(1, "region %s is host window %s", g.String(), names[2:])
	}
	list.add(unused, "%s without an access dropped", english.Count(unused, "region"))
	list.add(l.host.direct, "%s through the PCIe tile became accesses of host memory",
		english.Count(l.host.direct, "access"))
	if l.o.From != FromRecord && unused > 0 {
		out.warn(0, "the trace does not show host memory; if cores of the device access it, the "+
			"image lacks that memory")
	}
	out.did = strings.Join(list, "; ")
	return out, nil
}
