package traces

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"lightmetal/boards"
	"lightmetal/tools/image/english"
)

func (q *qemu) result() (*Trace, error) {
	switch {
	case len(q.summaries) == 0:
		return nil,
			TraceError(0, "the trace has no memory_region_ops or vfio_region event "+
				"(QEMU writes them with -trace 'memory_region_ops_*')")
	case len(q.regions) == 0:
		return nil, UsageError("choose the device's region with --region NAME "+
			"and --base ADDRESS; regions: %s", q.regionsText())
	case q.baseless != "":
		return nil,
			UsageError(
				"region %q needs --base, the guest-physical address of its BAR%s; regions: %s",
				q.baseless, q.baseHint(q.baseless), q.regionsText())
	case q.chosenAccesses == 0:
		return nil, UsageError("the trace contains no access to region %s; regions: %s",
			q.chosenText(), q.regionsText())
	}
	t := &Trace{Board: q.source.Board, Lines: q.line}
	if q.otherAccesses > 0 {
		t.Ignored = append(t.Ignored, Count{"accesses to other regions", q.otherAccesses})
	}
	for _, c := range q.otherEventCounts() {
		t.Ignored = append(t.Ignored, Count{"lines of " + c.Name, c.N})
	}
	if q.otherEvents["memory_region_ram_device_read"]+
		q.otherEvents["memory_region_ram_device_write"] > 0 {
		t.Warnings = append(t.Warnings, Warning{0,
			"the trace has memory_region_ram_device events, which are left out: " +
				"QEMU cannot trace all accesses to a BAR that it maps into the guest " +
				"(x-no-mmap=on prevents the mapping)"})
	}
	t.Warnings = append(t.Warnings, q.widthWarnings()...)
	return t, nil
}

// widthWarnings warns of chosen regions with accesses of one width only: QEMU calls a model with
// the widths that the model takes, whatever the guest's were.
func (q *qemu) widthWarnings() (list []Warning) {
	for _, name := range slices.Sorted(maps.Keys(q.summaries)) {
		s := q.summaries[name]
		chosen := slices.ContainsFunc(q.regions, func(r Region) bool { return r.Name == name })
		width := slices.Index(s.Widths[:], s.Loads+s.Stores)
		if chosen && width >= 0 && s.Loads+s.Stores > 1 && !s.isVFIO {
			list = append(list, Warning{0, fmt.Sprintf("all accesses to region %q have %s: "+
				"QEMU shows the widths that its model takes; compare them with the driver's "+
				"before a replay on hardware", name, english.Count(1<<width, "byte"))})
		}
	}
	return list
}

// baseHint suggests the base of the BAR of a region, for an error. The base follows from any
// access, because a BAR is aligned to its size.
func (q *qemu) baseHint(name string) string {
	if base := q.baseOf(name); base != 0 {
		return fmt.Sprintf(" (0x%x, if it is BAR %d of %s)", base, q.barOf(name),
			q.source.Board.Name)
	}
	return ""
}

func (q *qemu) barOf(name string) uint8 {
	return q.regions[slices.IndexFunc(q.regions, func(r Region) bool { return r.Name == name })].Bar
}

func (q *qemu) baseOf(name string) uint64 {
	s := q.summaries[name]
	if s == nil {
		return 0
	}
	size := q.source.Board.BarSizes[q.barOf(name)]
	base := s.First &^ (size - 1)
	if size == 0 || s.Last-base >= size {
		return 0
	}
	return base
}

func (q *qemu) regionSummaries() (list []RegionSummary) {
	for _, name := range slices.Sorted(maps.Keys(q.summaries)) {
		list = append(list, *q.summaries[name])
	}
	return list
}

func (q *qemu) regionsText() string {
	return english.Join(q.regionSummaries(), "; ", RegionSummary.String)
}

func (q *qemu) chosenText() string {
	return english.Join(q.regions, " or ", func(r Region) string {
		if r.Name == "" {
			return fmt.Sprintf("at 0x%x", r.Base)
		}
		if r.Base != 0 {
			return fmt.Sprintf("%q at 0x%x", r.Name, r.Base)
		}
		return fmt.Sprintf("%q", r.Name)
	})
}

func (q *qemu) otherEventCounts() (list []Count) {
	for _, name := range slices.Sorted(maps.Keys(q.otherEvents)) {
		list = append(list, Count{name, q.otherEvents[name]})
	}
	return list
}

// chosenRegion returns the chosen region that an access belongs to, or nil. An access outside the
// BAR belongs to a region of another device with the same name.
func (q *qemu) chosenRegion(name string, mr, address uint64) *Region {
	for i := range q.regions {
		r := &q.regions[i]
		within := r.Base != 0 && address-r.Base < min(q.source.Board.BarSizes[r.Bar],
			r.Base&-r.Base)
		if name == "" || r.Name == "" {
			if within {
				return r
			}
			continue
		}
		if name == r.Name && within && r.mr == 0 {
			r.mr = mr
		}
		if name == r.Name && (r.Base == 0 || r.mr == mr || within) {
			return r
		}
	}
	if slices.ContainsFunc(q.regions, func(r Region) bool { return r.Name == name }) {
		q.otherDeviceLines[mr] = q.line
	}
	return nil
}

func (q *qemu) summaryOf(name string) *RegionSummary {
	s := q.summaries[name]
	if s == nil {
		s = &RegionSummary{Name: cmp.Or(name, unnamed)}
		q.summaries[name] = s
	}
	return s
}

// BoardList returns the names and PCI ids of all boards, for errors.
func BoardList() string {
	return english.Join(boards.All, ", ",
		func(b *boards.Board) string {
			return fmt.Sprintf("%s (%04x:%04x)", b.Name, b.Vendor, b.Device)
		})
}
