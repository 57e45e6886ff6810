package importer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/importer/traces"
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
		case size == 0 || size > fbs.WindowMax:
			return traces.Usage("host memory %s: %d bytes are not 1 to %d", h.Name, size, uint64(fbs.WindowMax))
		case h.Bus == 0 || h.Bus%8 != 0 || h.Bus > math.MaxUint64-size:
			return traces.Usage("host memory %s: 0x%x is no address of %d bytes", h.Name, h.Bus, size)
		}
		for _, other := range o.Host[:i] {
			if other.Name == h.Name || other.Bus < h.Bus+size && h.Bus < other.Bus+uint64(len(other.Data)) {
				return traces.Usage("host memory %s and %s are the same", other.Name, h.Name)
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
func (o *Options) isAddress(a *traces.Access) bool {
	index, _ := o.hostOf(a.Value)
	return a.Width >= 4 && index >= 0
}

// isAddress does so of the memory that a recording has, too.
func (p *plan) isAddress(a *traces.Access) bool { return a.Width >= 4 && p.inHost(a.Value) }

// inHost tells whether an address lies in host memory that the user gave, or
// that a recording says the device reaches.
func (p *plan) inHost(address uint64) bool {
	for i := range p.hosts {
		if h := &p.hosts[i]; (h.given || h.exact) && address >= h.bus && address-h.bus < h.size {
			return true
		}
	}
	return false
}

// joiner is a traces.Sink that makes one store of two that follow each other and hold
// the halves of an address in host memory: on the target it may have other bits
// in both.
type joiner struct {
	*lifter
	waits  bool
	before traces.Access
}

func (j *joiner) Access(a *traces.Access) error {
	if j.waits {
		if whole, ok := j.joined(&j.before, a); ok {
			j.before = whole
			j.halves++
			return nil
		}
		if err := j.flush(); err != nil {
			return err
		}
	}
	j.before, j.waits = *a, true
	return nil
}

func (j *joiner) flush() error {
	if !j.waits {
		return nil
	}
	j.waits = false
	return j.lifter.Access(&j.before)
}

func (j *joiner) Block(a *traces.Access, data []byte) error {
	return traces.Natural(a, data, func(a *traces.Access, n uint32, data []byte) error {
		if n > 1 && !j.addresses(data) {
			if err := j.flush(); err != nil {
				return err
			}
			return j.lifter.accesses(a, n, data)
		}
		for k := range n {
			e := *a
			e.Offset, e.Value = a.Offset+uint64(k)*uint64(a.Width), traces.Little(data[k*uint32(a.Width):][:a.Width])
			if err := j.Access(&e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (j *joiner) Memory(line int, bus, size uint64) error {
	if err := j.flush(); err != nil {
		return err
	}
	return j.lifter.Memory(line, bus, size)
}

func (j *joiner) Device(line int, time int64, write bool, bus uint64, data []byte) error {
	if err := j.flush(); err != nil {
		return err
	}
	return j.lifter.Device(line, time, write, bus, data)
}

func (p *plan) joined(a, b *traces.Access) (whole traces.Access, ok bool) {
	low, high := a, b
	if a.Offset > b.Offset {
		low, high = b, a
	}
	if a.Op != traces.OpStore || b.Op != traces.OpStore || a.Width != 4 || b.Width != 4 || a.Bar != b.Bar || low.Offset%8 != 0 ||
		high.Offset != low.Offset+4 {
		return whole, false
	}
	whole = *a
	whole.Offset, whole.Width, whole.Value = low.Offset, 8, low.Value|high.Value<<32
	r := p.board.Rule(whole.Bar, whole.Offset, 8)
	return whole, r != nil && r.Widths&8 != 0 && p.isAddress(&whole)
}

// givenHosts adds the host memory that the user gave.
func (p *plan) givenHosts() {
	for _, h := range p.o.Host {
		p.addHost(hostSpace{name: h.Name, bus: h.Bus, size: uint64(len(h.Data)), given: true, pages: map[uint64]*hostPage{},
			first: []hostStore{{len(p.hosts), 0, h.Data}}})
		p.hosts[len(p.hosts)-1].store(0, h.Data)
	}
}

// mapping follows an access of the registers that map host memory.
func (l *lifter) mapping(a *traces.Access, inside bool) error {
	if inside {
		if a.Op == traces.OpLoad {
			l.plan.loads++
		} else {
			l.plan.stores++
		}
	}
	return l.host.access(a)
}

// hostAddress finds the host memory that a value is an address of.
func (p *plan) hostAddress(value uint64, width uint8) (index int, inside uint64) {
	for i := range p.hosts {
		h := &p.hosts[i]
		seen := h.bus
		if h.whole {
			seen = h.seen
		}
		if inside = value - seen; inside < h.size && (width == 8 || width == 4 && !h.whole) {
			return i, inside
		}
	}
	return -1, 0
}

// relocates tells whether a stored value is an address of host memory there.
func (p *plan) relocates(s *step, value uint64) (index int, inside uint64) {
	index, inside = p.hostAddress(value, s.width)
	if index >= 0 && p.hosts[index].bus == 0 && !p.hosts[index].whole &&
		(s.aim >= 0 || !takesAddresses(p.board.Name, p.windows[s.window].bar, uint64(s.offset))) {
		return -1, 0
	}
	return index, inside
}

// hostText says what became of host memory.
type hostText struct{ stores, loads int }

// host makes a relocation of every store of an address in host memory. Loads
// of one are carried out and not held against the recording.
func (p *plan) host() (string, error) {
	if len(p.hosts) == 0 {
		return "", nil
	}
	p.trimHosts()
	for i := range p.hosts {
		h := &p.hosts[i]
		if !h.given {
			h.size = (h.size + hostPageSize - 1) / hostPageSize * hostPageSize
		}
		p.windows[h.window].Size = h.size
	}
	var t hostText
	err := p.steps.rewrite(func(s *step, out *steps) error {
		p.trim(s)
		p.relocate(s, out, &t)
		return nil
	})
	if len(p.o.Host) > 0 {
		p.warn(0, "the trace holds neither what the device did to host memory nor what the program read there: the image does not wait for it, and does "+
			"not compare it")
	}
	return p.hostDid(&t), err
}

func (p *plan) hostDid(t *hostText) string {
	text := traces.Counted(t.stores, "store") + " of its addresses became relocations"
	if p.halves > 0 {
		text += fmt.Sprintf(", %d of them joined from two halves", p.halves)
	}
	if t.loads > 0 {
		text += "; " + traces.Counted(t.loads, "load") + " of its addresses ignored"
	}
	return text
}

// relocate appends a step, or the parts of a run that hold addresses and those
// that do not.
func (p *plan) relocate(s *step, out *steps, t *hostText) {
	if s.op != stepStore && s.op != stepLoad || p.windows[s.window].Kind == gen.WindowKindHost {
		out.add(*s)
		return
	}
	from := uint32(0)
	for k := range s.run() {
		index, inside := p.relocates(s, p.datum(s, k))
		if index < 0 {
			continue
		}
		if k > from {
			out.add(p.part(s, from, k))
		}
		from = k + 1
		e := *s
		if s.run() > 1 {
			e = p.element(s, k)
		}
		p.relocated(out.add(e), index, inside, t)
	}
	if from == 0 {
		out.add(*s)
	} else if from < s.run() {
		out.add(p.part(s, from, s.run()))
	}
}

func (p *plan) relocated(s *step, index int, inside uint64, t *hostText) {
	if s.op == stepLoad {
		s.op = stepIgnore
		t.loads += int(s.count)
		return
	}
	if s.aim >= 0 && !p.hosts[index].whole || s.aim < 0 && !takesAddresses(p.board.Name, p.windows[s.window].bar, uint64(s.offset)) {
		p.warn(int(s.line), "0x%x, which is stored to %s + 0x%x, is taken for an address in host memory %s",
			s.value, p.windows[s.window].Name, s.offset, p.hosts[index].name)
	}
	s.op, s.value, s.to = stepRelocate, inside, int16(index)
	t.stores++
}

// front gives the commands that bring host memory to what was recorded,
// addresses in it to what they are on the target.
func (p *plan) front() (list []lmb.Command, did string) {
	var pointers []lmb.Command
	for i := range p.hosts {
		h := &p.hosts[i]
		before, size := len(pointers), 0
		if h.exact {
			list = append(list, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFill, Width: 8, Mode: uint8(gen.AccessExact), Window: h.window,
				Amount: uint32(h.size)}})
		}
		for _, s := range joined(h.first) {
			size += len(s.data)
			list = append(list, p.hostCopies(h, s)...)
			pointers = append(pointers, p.pointersIn(h, s)...)
		}
		did += fmt.Sprintf("; %s: %d bytes with %s", h.name, size, traces.Counted(len(pointers)-before, "address"))
	}
	if len(list) == 0 {
		return nil, ""
	}
	list = append(list, pointers...)
	list = append(list, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
	return list, "host memory " + did[2:]
}

// hostCopies bring data to host memory, in natural widths at its ends.
func (p *plan) hostCopies(h *hostSpace, s hostStore) (list []lmb.Command) {
	if h.given {
		return []lmb.Command{p.hostCopy(h, 0, 8, s.data)}
	}
	traces.Natural(&traces.Access{Offset: s.offset}, s.data, func(a *traces.Access, _ uint32, data []byte) error {
		list = append(list, p.hostCopy(h, a.Offset, a.Width, data))
		return nil
	})
	return list
}

func (p *plan) hostCopy(h *hostSpace, offset uint64, width uint8, data []byte) lmb.Command {
	return lmb.Command{Data: data, Command: fbs.Command{
		Opcode: gen.OpcodeCopyIn, Width: width, Mode: uint8(gen.AccessBulk), Window: h.window, Offset: uint32(offset),
	}}
}

// pointersIn gives relocations of the addresses that host memory holds.
func (p *plan) pointersIn(h *hostSpace, s hostStore) (list []lmb.Command) {
	for at := -int(s.offset) & 7; at+8 <= len(s.data); at += 8 {
		if index, inside := p.hostAddress(traces.Little(s.data[at:][:8]), 8); index >= 0 && (p.hosts[index].whole || p.hosts[index].bus != 0) {
			list = append(list, relocation(8, h.window, s.offset+uint64(at), p.hosts[index].window, inside))
		}
	}
	return list
}

// relocation stores the bus address of a place in host memory.
func relocation(width uint8, window uint16, offset uint64, host uint16, inside uint64) lmb.Command {
	return lmb.Command{Command: fbs.Command{
		Opcode: gen.OpcodeAddress, Width: width, Window: window, Index: host,
		Offset: uint32(offset), Value: inside,
	}}
}

// iatuPass says what became of the stores that map host memory.
func (l *lifter) iatuPass() (string, error) {
	r := l.host.regions
	if r.stores+r.loads == 0 {
		return "", nil
	}
	text := fmt.Sprintf("%s of it left out: the lane that replays aims it", traces.Counted(r.stores+r.loads, "access"))
	unused := 0
	for number := range uint32(r.Regions) {
		if !r.enabled[number] {
			continue
		}
		g, _ := r.get(number)
		i := slices.IndexFunc(l.hosts, func(h hostSpace) bool { return h.whole && g.size > 0 && h.bus-g.target < g.size })
		if i < 0 {
			unused++
			continue
		}
		text += fmt.Sprintf("; region %s is host window %s", g.String(), l.hosts[i].name)
	}
	if unused > 0 {
		text += fmt.Sprintf("; %s that nothing reaches dropped", traces.Counted(unused, "region"))
	}
	if l.host.direct > 0 {
		text += fmt.Sprintf("; %s through the PCIe tile became accesses of host memory", traces.Counted(l.host.direct, "access"))
	}
	if l.o.From != FromRecord && unused > 0 {
		l.warn(0, "the trace does not tell what the device reaches of host memory: if cores do, the image lacks it")
	}
	return text, nil
}
