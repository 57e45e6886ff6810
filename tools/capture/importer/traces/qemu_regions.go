package traces

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"lightmetal/boards"
	"lightmetal/tools/image/english"
)

// trace gives the accesses of the chosen regions.
func (q *qemu) trace() (*Trace, error) {
	switch {
	case len(q.seen) == 0:
		return nil,
			Refuse(0, "the trace has no memory_region_ops or vfio_region event (QEMU writes "+
				"them with -trace 'memory_region_ops_*')")
	case len(q.regions) == 0:
		return nil, Usage("choose the device's region by name and base; regions: %s", q.list())
	case q.baseless != "":
		return nil,
			Usage("region %q needs --base, the guest-physical address of its BAR%s; "+
				"regions: %s",
				q.baseless, q.baseHint(q.baseless), q.list())
	case q.taken == 0:
		return nil, Usage("no access to region %s; regions: %s", q.wantedList(), q.list())
	}
	t := &Trace{Board: q.o.Board, Lines: q.line}
	if q.outside > 0 {
		t.Ignored = append(t.Ignored, Count{"accesses to other regions", q.outside})
	}
	for _, c := range q.otherList() {
		t.Ignored = append(t.Ignored, Count{"lines of " + c.Name, c.N})
	}
	if q.other["memory_region_ram_device_read"]+q.other["memory_region_ram_device_write"] > 0 {
		t.Warnings = append(t.Warnings, Warning{0,
			"the trace has memory_region_ram_device events, which are left out: " +
				"a BAR that QEMU maps into the guest cannot be traced whole (x-no-mmap=on stops " +
				"that)"})
	}
	return t, nil
}

// baseHint works out where the BAR of a region lies: it is aligned to its own
// size, so the address of any access tells.
func (q *qemu) baseHint(name string) string {
	if base := q.baseOf(name); base != 0 {
		return fmt.Sprintf(" (0x%x, if it is BAR %d of %s)", base, q.barOf(name), q.o.Board.Name)
	}
	return ""
}

// barOf is the BAR that a chosen region is.
func (q *qemu) barOf(name string) uint8 {
	return q.regions[slices.IndexFunc(q.regions, func(r Region) bool { return r.Name == name })].Bar
}

func (q *qemu) baseOf(name string) uint64 {
	s := q.seen[name]
	if s == nil {
		return 0
	}
	size := q.o.Board.BarSizes[q.barOf(name)]
	base := s.First &^ (size - 1)
	if size == 0 || s.Last-base >= size {
		return 0
	}
	return base
}

func (q *qemu) regionList() (list []RegionSummary) {
	for _, name := range slices.Sorted(maps.Keys(q.seen)) {
		list = append(list, *q.seen[name])
	}
	return list
}

func (q *qemu) list() string { return english.Join(q.regionList(), "; ", RegionSummary.String) }

func (q *qemu) wantedList() string {
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

func (q *qemu) otherList() (list []Count) {
	for _, name := range slices.Sorted(maps.Keys(q.other)) {
		list = append(list, Count{name, q.other[name]})
	}
	return list
}

// chosen gives the region of the device that an access belongs to. One of its name
// where the BAR is not, which is aligned to its size, is another device's.
func (q *qemu) chosen(name string, mr, address uint64) *Region {
	for i := range q.regions {
		r := &q.regions[i]
		within := r.Base != 0 && address-r.Base < min(q.o.Board.BarSizes[r.Bar], r.Base&-r.Base)
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
		q.apart[mr] = q.line
	}
	return nil
}

func (q *qemu) stats(name string) *RegionSummary {
	s := q.seen[name]
	if s == nil {
		s = &RegionSummary{Name: cmp.Or(name, unnamed)}
		q.seen[name] = s
	}
	return s
}

func BoardList() string {
	return english.Join(boards.All, ", ",
		func(b *boards.Board) string {
			return fmt.Sprintf("%s (%04x:%04x)", b.Name, b.Vendor,
				b.Device)
		})
}
