package fbs

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// accessTraits is a set of properties of accesses. The empty set is a single load, which all
// accessible bytes accept.
type accessTraits uint8

const (
	accessSingleLoad accessTraits = 0
	accessManyBytes  accessTraits = 1 << (iota - 1) // as many as Command.Amount says
	accessStores
	accessAnyWidth // the mode Bulk
	accessCombined // through a write-combining window
	accessDMA      // another device may store any number of bytes at their bus address
)

const (
	allWidths = 1 | 2 | 4 | 8
	allTraits = accessManyBytes | accessStores | accessAnyWidth | accessCombined
)

// access is what images may do with a range of bytes. Zero: no access.
type access struct {
	first, end uint64 // offsets in the BAR, or in a window that is not in a BAR
	widths     uint8  // accepted widths in bytes, ORed
	traits     accessTraits

	rule      *boards.AccessRule     // of the range of a BAR; nil elsewhere
	forbidden *boards.ForbiddenRange // not nil: no access, the TLB window would show a part of it
}

// Only accessAt decides what images may load and store, and which bytes have a bus address. It
// returns the range around the offset `at` in which all bytes accept the same. For a Tlb window,
// `at` is an address in `tiles`, which is nil without a Point.
func (v *View) accessAt(board *boards.Board, w *Window, at uint64, tiles *TileRoute) (a access) {
	const everything = 1<<64 - 1
	switch w.Kind {
	case gen.WindowKindHost:
		return access{end: everything, widths: allWidths, traits: allTraits | accessDMA}
	case gen.WindowKindConfig:
		return access{end: everything, widths: 1 | 2 | 4, traits: accessCombined}
	case gen.WindowKindTlb:
		if tiles != nil {
			a.forbidden = board.FindForbiddenRange(*tiles, at, w.Size)
		}
		if tiles == nil || a.forbidden != nil {
			return a
		}
		return access{end: everything, widths: allWidths, traits: allTraits}
	}
	barSize := v.Devices[w.Device].MinBarSizes()[w.Bar]
	r := board.FindRule(w.Bar, at, 1)
	if r == nil || at >= barSize {
		return a
	}
	a = access{first: r.First, end: min(r.Last+1, barSize), widths: r.Widths, rule: r}
	a.traits = accessManyBytes
	if !r.LoadOnly {
		a.traits |= accessStores | accessDMA
	}
	if r.IsMemory {
		a.traits |= accessCombined
	}
	if r.IsMemory && r.Widths == allWidths {
		a.traits |= accessAnyWidth
	}
	return a
}

// windowState is the range of a window that was accessed last, in offsets in the window.
type windowState struct {
	barOffset        uint64 // of a Bar window in its BAR
	first, end       uint64 // empty before the first access, and in a Tlb window without a Point
	widths           uint8
	traits           accessTraits
	hasPassedDMATest bool
}

func (s *windowState) setRange(w *Window, a access) {
	s.first, s.end = max(a.first, s.barOffset)-s.barOffset, min(a.end-s.barOffset, w.Size)
	s.widths, s.traits = a.widths, a.traits
}

// checkAccess checks that a window accepts accesses to `size` bytes.
func (c *commandChecker) checkAccess(m *Command, size uint64,
	traits accessTraits) (problem string) {
	if int(m.Window) >= len(c.windowStates) {
		return describeMissingWindow(m.Window)
	}
	s, offset := &c.windowStates[m.Window], uint64(m.Offset)
	if offset < s.first || offset >= s.end {
		return c.findRangeAndCheckAccess(m, size, traits)
	}
	if offset+size > s.end {
		return c.describeOutsideRange(m, size, s)
	}
	if m.Width&s.widths == 0 || !hasAtMostOneBit(m.Width) {
		return c.describeInvalidWidth(m)
	}
	if traits&^s.traits != 0 {
		return c.describeRejectedTraits(m, traits)
	}
	if traits&accessAnyWidth == 0 && (s.barOffset|offset)&uint64(m.Width-1) != 0 {
		return describeMisalignment(m, s)
	}
	return ""
}

// findRangeAndCheckAccess checks an access that begins outside the range of c.windowStates.
func (c *commandChecker) findRangeAndCheckAccess(m *Command, size uint64,
	traits accessTraits) (problem string) {
	s, w := &c.windowStates[m.Window], &c.view.Windows[m.Window]
	if w.Kind == gen.WindowKindTlb && s.end == 0 {
		return Text("window %d needs a point command first, and another after each call",
			uint64(m.Window))
	}
	if uint64(m.Offset) >= w.Size {
		return c.describeOutsideRange(m, size, s)
	}
	a := c.accessOf(m)
	if a.end == 0 {
		place := Text(" has no memory or register at offset %x of BAR %d",
			w.Offset+uint64(m.Offset), uint64(w.Bar))
		return c.boards[w.Device].Name + place
	}
	if w.Flags&FlagWriteCombining != 0 && a.traits&accessCombined == 0 {
		return Text("window %d is write-combining, but ", uint64(m.Window)) +
			c.describePlace(m) + " is not memory; remove write-combining"
	}
	s.setRange(w, a)
	return c.checkAccess(m, size, traits)
}

// accessOf returns what accessAt decides about the first byte that m accesses.
func (c *commandChecker) accessOf(m *Command) access {
	w := &c.view.Windows[m.Window]
	at := c.windowStates[m.Window].barOffset + uint64(m.Offset)
	return c.view.accessAt(c.boards[w.Device], w, at, nil)
}

func hasAtMostOneBit(width uint8) bool { return width&(width-1) == 0 }

// Inlining would enlarge the program.
//
//go:noinline
func describeMissingWindow(index uint16) string {
	return Text("window %d does not exist", uint64(index))
}

func (c *commandChecker) describeOutsideRange(m *Command, size uint64, s *windowState) string {
	offset, window := uint64(m.Offset), &c.view.Windows[m.Window]
	if offset+size > window.Size {
		return Text("%x bytes at offset %x reach outside the window of %x bytes",
			size, offset, window.Size)
	}
	return Text("%x bytes at offset %x extend beyond their access rule: %x to %x of the window",
		size, offset, s.first, s.end-1)
}

func (c *commandChecker) describeInvalidWidth(m *Command) string {
	if m.Width&allWidths == 0 || !hasAtMostOneBit(m.Width) {
		return Text("invalid width %d; must be 1, 2, 4 or 8", uint64(m.Width))
	}
	return Text("width %d is not accepted by ", uint64(m.Width)) + c.describePlace(m) +
		"; use another width"
}

func (c *commandChecker) describeRejectedTraits(m *Command, traits accessTraits) string {
	if c.view.Windows[m.Window].Kind == gen.WindowKindConfig {
		return Text("window %d is configuration space, which only expect commands may access",
			uint64(m.Window))
	}
	if traits&accessAnyWidth != 0 {
		return "bulk access is only for memory that accepts every width, not for " +
			c.describePlace(m) + "; use exact access"
	}
	remedy := ""
	if c.accessOf(m).rule.IsMemory {
		// The only memory in a BAR that accepts no stores is the range of the TLB windows.
		remedy = "; store to tiles through a TLB window"
	}
	return "images must not store to " + c.describePlace(m) + remedy
}

// describePlace names the first byte that m accesses.
func (c *commandChecker) describePlace(m *Command) string {
	w := &c.view.Windows[m.Window]
	if w.Kind == gen.WindowKindConfig {
		return "configuration space"
	}
	place := Text("'s BAR %d at offset %x (", uint64(w.Bar), w.Offset+uint64(m.Offset))
	return c.boards[w.Device].Name + place + c.accessOf(m).rule.Name + ")"
}

func describeMisalignment(m *Command, s *windowState) string {
	width := uint64(m.Width)
	if s.barOffset%width != 0 {
		return Text("the window starts at %x of its BAR, which is not a multiple of the width %d",
			s.barOffset, width)
	}
	return Text("offset %x is not a multiple of the width %d", uint64(m.Offset), width)
}

// CheckDMAPages checks that images may store the bus address of a window to another device. It
// returns the first problem, or "". An IOMMU maps whole pages, and only the other device knows how
// much it stores, so every byte of every page that the window touches must accept stores.
func (v *View) CheckDMAPages(window uint16, board *boards.Board, pageSize uint64) string {
	w := &v.Windows[window]
	next, last := w.Offset&^(pageSize-1), (w.Offset+w.Size-1)|(pageSize-1)
	for next <= last {
		a := v.accessAt(board, w, next, nil)
		if a.traits&accessDMA != 0 {
			next = a.end
			continue
		}
		if w.Kind != gen.WindowKindBar {
			return Text("window %d has no bus address; only BAR and host windows have one",
				uint64(window))
		}
		return Text("byte %x of BAR %d accepts no stores, but shares a page of %x bytes with "+
			"window %d; relocate a window in other pages", next, uint64(w.Bar), pageSize,
			uint64(window))
	}
	return ""
}
