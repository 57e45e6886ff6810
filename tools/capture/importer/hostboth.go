package importer

import (
	"fmt"

	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
)

// owner says who changed host memory. The user's flags decide if the recording does not show it.
type owner uint8

const (
	undecided owner = iota
	ownerDevice
	ownerProgram
)

// undecidedRange is a range of host memory of which nothing shows who changed it.
type undecidedRange struct {
	line int
	Range
}

// Both processes a change that the program or the device made. What Ignore names is the device's;
// what an input or AsData names is the program's. The rest is an error (checkUndecided): an image
// could contain the device's answers.
func (l *lifter) Both(line int, time int64, bus uint64, data []byte) error {
	if l.isAfterPart(line) {
		return nil
	}
	for len(data) > 0 {
		by, n := l.ownerOf(bus), 1
		for n < len(data) && l.ownerOf(bus+uint64(n)) == by {
			n++
		}
		if by == undecided && l.mayLeaveOut(line, time, bus, uint64(n)) {
			by = ownerDevice
		}
		switch by {
		case ownerDevice:
			i, offset, err := l.hostSpaceAt(line, bus, uint64(n))
			if err != nil {
				return err
			}
			l.hostSpaces[i].deviceWrote = true
			l.hostSpaces[i].pages.Set(offset, data[:n])
		case undecided:
			l.host.addUndecided(line, bus, uint64(n))
			fallthrough
		case ownerProgram:
			if err := l.Device(line, time, false, bus, data[:n]); err != nil {
				return err
			}
		}
		bus, data = bus+uint64(n), data[n:]
	}
	return nil
}

// mayLeaveOut reports whether it does not matter who changed a range: it is in no sequence or no
// part of a frame with rings in host memory, or the trace is only searched for frames.
func (l *lifter) mayLeaveOut(line int, time int64, bus, size uint64) bool {
	inside := l.enterSegment(&traces.Access{Line: line, Time: time, Op: traces.OpLoad})
	if l.exactTimes {
		l.searchUndecided = append(l.searchUndecided, undecidedRange{line,
			Range{Place: Place{Bus: true}, First: bus, Last: bus + size - 1}})
	}
	return l.exactTimes || !inside && l.cut.current == segmentBetween ||
		inside && l.isInHostFrame() && !l.isInHostParts(bus, size)
}

// isAfterPart reports whether a line is after the part that is imported.
func (l *lifter) isAfterPart(line int) bool {
	l.part.advanceTo(line)
	return l.part.began && !l.part.inside
}

func (l *lifter) ownerOf(bus uint64) owner {
	for _, r := range l.options.Ignore {
		if r.Bus && bus >= r.First && bus <= r.Last {
			l.matchedRanges[r] = true
			return ownerDevice
		}
	}
	for _, r := range l.options.AsData {
		if r.Bus && bus >= r.First && bus <= r.Last {
			l.matchedRanges[r] = true
			return ownerProgram
		}
	}
	for i := range l.options.Inputs {
		if t := &l.options.Inputs[i]; t.Bus && bus >= t.Address && bus-t.Address < t.Size() {
			return ownerProgram
		}
	}
	return undecided
}

func (h *hostMemory) addUndecided(line int, bus, n uint64) {
	last := bus + n - 1
	for i := range h.undecided {
		if r := &h.undecided[i]; bus <= r.Last+1 && last+1 >= r.First {
			r.First, r.Last = min(r.First, bus), max(r.Last, last)
			return
		}
	}
	h.undecided = append(h.undecided,
		undecidedRange{line, Range{Place: Place{Bus: true}, First: bus, Last: last}})
}

// checkUndecided returns an error if nothing shows who changed a range of host memory.
func (l *lifter) checkUndecided() error {
	list := l.host.undecided
	if len(list) == 0 {
		return nil
	}
	all, more := "", ""
	for _, r := range list {
		all += fmt.Sprintf(",%s0x%x-0x%x", r.flagText(), r.First, r.Last)
	}
	if n := len(list) - 1; n > 0 {
		more = fmt.Sprintf(" (and %s)", english.Count(n, "more range"))
	}
	return traces.TraceError(list[0].line, "host memory at bus addresses 0x%x to 0x%x%s: between "+
		"two stores to the device, both the program and the device wrote this page, and the "+
		"recording does not show who wrote these bytes; --ignore %s leaves them to the device, "+
		"--as-data %[4]s or an --input stores them; or record again so that buffers do not share "+
		"pages: %s", list[0].First, list[0].Last, more, all[1:], recordFlagsHint)
}
