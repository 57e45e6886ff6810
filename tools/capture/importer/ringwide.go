package importer

import (
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// moveOffset makes the ring move where a command accesses, in a window that shows all of the ring.
func (w *ringWriter) moveOffset(c *lmb.Command, u *ringUse) error {
	isShown := u.position <= uint64(c.Offset) &&
		uint64(c.Offset)-u.position+u.ring.end-u.ring.begin <= w.image.Windows[c.Window].Size
	if !isShown && !w.widen(c, u) {
		return traces.TraceError(u.ring.line, "the ring at %s0x%x from %#x to %#x does not lie in "+
			"one window", u.space, u.address, u.ring.begin, u.ring.end)
	}
	c.Offset -= uint32(u.position)
	return nil
}

// widen moves a command to a larger TLB window, which the frame points before its other commands.
// It returns false if the board has none that shows all of the ring.
func (w *ringWriter) widen(c *lmb.Command, u *ringUse) bool {
	win, shown := &w.image.Windows[c.Window], w.shown[c.Window]
	address := shown.address + uint64(c.Offset)
	if win.Kind != gen.WindowKindTlb || u.position > address {
		return false
	}
	first := address - u.position
	last := first + u.ring.end - u.ring.begin - 1
	groups := w.board.TLB.Groups // smaller ones first
	at := slices.IndexFunc(groups, func(g boards.WindowGroup) bool {
		return g.Size <= fbs.WindowSizeMax && first&^(g.Size-1) == last&^(g.Size-1)
	})
	if at < 0 {
		return false
	}
	base := first &^ (groups[at].Size - 1)
	c.Window, c.Offset = w.wideWindow(win, &shown, base, groups[at].Size), uint32(address-base)
	return true
}

// wideWindow returns the window of a size that shows the address `base` in the tiles of `like`.
func (w *ringWriter) wideWindow(like *lmb.Window, shown *windowTarget, base,
	size uint64) (window uint16) {
	point := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint, Value: base,
		Mask: shown.route.Pack(), Window: uint16(len(w.image.Windows))}}
	for _, p := range w.points {
		if p.Mask == point.Mask && p.Value == base && w.image.Windows[p.Window].Size == size {
			return p.Window
		}
	}
	wide := *like
	wide.Name, wide.Size, wide.Slot = fmt.Sprintf("wide%d", len(w.points)), size, fbs.AnySlot
	w.image.Windows = append(w.image.Windows, wide)
	w.points = append(w.points, point)
	return point.Window
}
