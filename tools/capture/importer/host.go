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

// HostSpec describes host memory that the recorded device accessed: its contents, and its bus
// address in the recording.
type HostSpec struct {
	Name string
	Bus  uint64
	Data []byte
}

const hostForm = "NAME=BUSADDRESS,FILE, such as ring=0x43080000,ring.bin"

// ParseHost parses NAME=BUSADDRESS,FILE. The caller reads the file into Data.
func ParseHost(spec string) (h HostSpec, file string, err error) {
	name, rest, ok := strings.Cut(spec, "=")
	address, file, ok2 := strings.Cut(rest, ",")
	bus, ok3 := parseNumber(address)
	if !ok || !ok2 || !ok3 || file == "" {
		return h, "", traces.UsageError("host memory %q must have the form %s", spec, hostForm)
	}
	if reason := nameReason(name); reason != "" {
		return h, "", traces.UsageError("host memory %q: %s (the form is %s)", spec, reason,
			hostForm)
	}
	return HostSpec{Name: name, Bus: bus}, file, nil
}

// checkHost returns an error if an image cannot contain the host memory, or if two memories
// conflict.
func (o *Options) checkHost() error {
	for i, h := range o.Host {
		size := uint64(len(h.Data))
		switch {
		case size == 0 || size > fbs.WindowSizeMax:
			return traces.UsageError("host memory %s has %d bytes, but must have 1 to %d", h.Name,
				size,
				uint64(fbs.WindowSizeMax))
		case h.Bus == 0 || h.Bus%8 != 0 || h.Bus > math.MaxUint64-size:
			return traces.UsageError("host memory %s: bus address 0x%x must be a nonzero multiple "+
				"of 8, and the %d bytes there must end below 2^64", h.Name, h.Bus, size)
		}
		for _, other := range o.Host[:i] {
			if other.Name == h.Name {
				return traces.UsageError("two --host flags have the name %s", h.Name)
			}
			if other.Bus < h.Bus+size && h.Bus < other.Bus+uint64(len(other.Data)) {
				return traces.UsageError("host memory %s and host memory %s overlap", other.Name,
					h.Name)
			}
		}
	}
	return nil
}

// isInKnownHost reports whether an address is in host memory of Options.Host or of a recording.
func (p *program) isInKnownHost(address uint64) bool {
	return slices.ContainsFunc(p.hostSpaces, func(h hostSpace) bool {
		return (h.fromUser || h.exact) && !isAllOnes(address) &&
			address >= h.bus && address-h.bus < h.size
	})
}

func (l *lifter) Block(a *traces.Access, data []byte) error {
	if a.Width != 0 {
		return traces.SplitBlock(a, data, l.addAdjacent)
	}
	// Recordings have millions of blocks, so the loop allocates no memory.
	for a, data := range traces.NaturalAccesses(*a, data) {
		if err := l.addAdjacent(a, data); err != nil {
			return err
		}
	}
	return nil
}

// addAdjacent processes adjacent accesses of one width. `a` is the first.
func (l *lifter) addAdjacent(a *traces.Access, data []byte) error {
	return l.addAccesses(a, uint32(len(data)/int(a.Width)), data)
}

// mergeAddressHalves merges the last step and s into one store of 8 bytes if they store the two
// halves of an address of host memory: the relocated address may differ in both halves.
func (l *lifter) mergeAddressHalves(s *step) bool {
	a := l.steps.lastStep()
	if a == nil || len(l.hostSpaces) == 0 || s.op != stepStore || a.op != stepStore ||
		s.width != 4 ||
		a.width != 4 || s.count != 1 || s.hasFlag(flagPointFirst) ||
		a.window != s.window || a.target != s.target || a.rule != s.rule ||
		l.ruleOfStep(s).Widths&8 == 0 {
		return false
	}
	half := l.singleAccess(a, a.count-1)
	low, high := &half, s
	if half.offset > s.offset {
		low, high = s, &half
	}
	value := low.value | high.value<<32
	if low.offset%8 != 0 || high.offset != low.offset+4 || !l.isInKnownHost(value) {
		return false
	}
	half.width, half.offset, half.value = 8, low.offset, value
	if a.count == 1 {
		*a = half
	} else {
		*a = l.program.accessRange(a, 0, a.count-1)
		l.steps.appendStep(half)
	}
	l.joinedAddresses++
	return true
}

// accessIATU processes an access of the iATU's registers, which map host memory.
func (l *lifter) accessIATU(a *traces.Access, inside bool) error {
	if inside {
		if a.Op == traces.OpLoad {
			l.program.loads++
		} else {
			l.program.stores++
		}
	}
	return l.host.accessRegister(a)
}

// initialHostCommands returns the commands that initialize host memory with its recorded contents
// and with relocated addresses.
func (m *commandBuilder) initialHostCommands() (list []lmb.Command, did string) {
	var pointers []lmb.Command
	for i := range m.hostSpaces {
		h := &m.hostSpaces[i]
		before, size := len(pointers), 0
		if h.exact {
			list = append(list,
				lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFill, Width: 8,
					Mode: uint8(gen.AccessExact), Window: h.window,
					Amount: uint32(h.size)}})
		}
		for _, s := range mergeStores(h.initialStores) {
			size += len(s.data)
			list = append(list, m.hostCopies(h, s)...)
			pointers = append(pointers, m.relocationsIn(h, s)...)
		}
		did += fmt.Sprintf("; %s: %d bytes with %s", h.name, size,
			english.Count(len(pointers)-before, "host memory address"))
	}
	if len(list) == 0 {
		return nil, ""
	}
	list = append(list, pointers...)
	list = append(list, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
	return list, "host memory " + did[2:]
}

// hostCopies returns copies of data to host memory. Unaligned ends are copied with smaller widths.
func (m *commandBuilder) hostCopies(h *hostSpace, s hostStore) (list []lmb.Command) {
	if h.fromUser {
		return []lmb.Command{m.hostCopy(h, 0, 8, s.data)}
	}
	for a, data := range traces.NaturalAccesses(traces.Access{Offset: s.offset}, s.data) {
		list = append(list, m.hostCopy(h, a.Offset, a.Width, data))
	}
	return list
}

func (m *commandBuilder) hostCopy(h *hostSpace, offset uint64, width uint8,
	data []byte) lmb.Command {
	return lmb.Command{Data: data, Command: fbs.Command{
		Opcode: gen.OpcodeCopyIn, Width: width, Mode: uint8(gen.AccessBulk), Window: h.window,
		Offset: uint32(offset),
	}}
}

// relocationsIn returns relocations for the addresses in data that the program stored.
func (m *commandBuilder) relocationsIn(h *hostSpace, s hostStore) (list []lmb.Command) {
	for offset, value := range s.quadwords() {
		if index, inside := m.findHostPointer(value, 8); index >= 0 &&
			(m.hostSpaces[index].throughIATU || m.hostSpaces[index].bus != 0) {
			list = append(list, relocateCommand(8, h.window, offset, m.hostSpaces[index].window,
				inside))
		}
	}
	return list
}

// recordFlagsHint names the flags with which lm record distinguishes writes of the program and of
// the device.
const recordFlagsHint = "lm record --protect all or --watch (private huge pages: only --watch)"

// warnUnwritten warns about host memory to which, by the recording, the program stores and the
// device never writes. If the recording attributes writes of the device to the program, the image
// contains these results and compares nothing.
func (l *lifter) warnUnwritten() (out passResult) {
	for i := range l.hostSpaces {
		if h := &l.hostSpaces[i]; h.exact && h.firstStoreLine > 0 && !h.deviceWrote {
			out.addWarning(h.firstStoreLine,
				"%s, bus address 0x%x: the recording shows no write by the device to this memory; "+
					"if the device writes results to this memory, record again with %s",
				h.name, h.bus, recordFlagsHint)
		}
	}
	return out
}

// reportIATU reports the accesses of the iATU and the regions that became host windows.
func (l *lifter) reportIATU() (out passResult, err error) {
	r := l.host.iatuState
	if r.stores+r.loads == 0 {
		return out, nil
	}
	var list clauses
	list.addIfAny(1, "%s to iATU registers left out: at replay, the backend programs the iATU",
		english.Count(r.stores+r.loads, "access"))
	unused := 0
	for number := range uint32(r.RegionCount) {
		if !r.enabled[number] {
			continue
		}
		g, _ := r.enabledRegion(number)
		names := ""
		for i := range l.hostSpaces {
			if h := &l.hostSpaces[i]; h.throughIATU && g.size > 0 && h.bus-g.target < g.size {
				names += ", " + h.name
			}
		}
		if names == "" {
			unused++
			continue
		}
		list.addIfAny(1, "iATU region %s is host window %s", g.String(), names[2:])
	}
	list.addIfAny(unused, "%s without an access dropped", english.Count(unused, "iATU region"))
	list.addIfAny(l.host.programAccesses, "%s through the PCIe tile became accesses to host memory",
		english.Count(l.host.programAccesses, "access"))
	if l.options.From != FromRecord && unused > 0 {
		out.addWarning(0,
			"the trace does not show host memory; if cores of the device access host "+
				"memory, record the program with `lm record` instead")
	}
	out.summary = strings.Join(list, "; ")
	return out, nil
}
