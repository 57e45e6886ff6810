package chips

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Decode is the inverse of Encode: what a configuration points at. ok is false
// where it sets bits that no target sets (linked, reserved).
func Decode(l *boards.TLB, g *boards.Group, w boards.Words) (t fbs.Target, address uint64, ok bool) {
	f := &g.Fields
	t = fbs.Target{
		X: uint8(Extract(l, w, f.XEnd)), Y: uint8(Extract(l, w, f.YEnd)),
		XStart: uint8(Extract(l, w, f.XStart)), YStart: uint8(Extract(l, w, f.YStart)),
		NoC:       uint8(Extract(l, w, f.NoC)),
		Ordering:  gen.OrderingDefault + gen.Ordering(Extract(l, w, f.Ordering)),
		StaticVC:  extractVC(l, w, f),
		Multicast: Extract(l, w, f.Multicast) == 1,
	}
	address = Extract(l, w, f.Address) * g.Size
	// What Encode does not give back has bits that mean nothing here.
	again, ok := l.Encode(g, t, address)
	if !ok || again != w {
		return fbs.Target{}, 0, false
	}
	return t, address, true
}

// Extract gives the bits of one field of a configuration, valid or not.
func Extract(l *boards.TLB, w boards.Words, f boards.Field) uint64 {
	size := 8 * uint(l.ConfigWidth)
	i, shift := uint(f.Low)/size, uint(f.Low)%size
	v := w[i] >> shift
	if shift+uint(f.Bits) > size {
		v |= w[i+1] << (size - shift)
	}
	return v & (1<<f.Bits - 1)
}

func extractVC(l *boards.TLB, w boards.Words, f *boards.Fields) uint8 {
	switch {
	case f.UseStaticVC.Bits == 0:
		return uint8(Extract(l, w, f.StaticVC))
	case Extract(l, w, f.UseStaticVC) == 0:
		return 0
	default:
		return 1 + uint8(Extract(l, w, f.StaticVC))
	}
}

// Slot gives the window that covers an offset in a BAR, and the offset inside
// it; ok is false where no window lies.
func Slot(l *boards.TLB, bar uint8, offset uint64) (slot int, inside uint64, ok bool) {
	for i := range l.Groups {
		g := &l.Groups[i]
		if g.Bar != bar || offset < g.Offset || offset-g.Offset >= uint64(g.Count)*g.Size {
			continue
		}
		return g.First + int((offset-g.Offset)/g.Size), (offset - g.Offset) % g.Size, true
	}
	return 0, 0, false
}

// Config gives the window that the register at an offset in a BAR configures,
// and the offset inside that window's registers; ok is false where the
// register is none of a window's.
func Config(l *boards.TLB, bar uint8, offset uint64) (slot int, inside uint64, ok bool) {
	if bar != l.ConfigBar || offset < l.ConfigOffset {
		return 0, 0, false
	}
	slot = int((offset - l.ConfigOffset) / l.ConfigStride)
	return slot, (offset - l.ConfigOffset) % l.ConfigStride, l.Group(slot) != nil
}
