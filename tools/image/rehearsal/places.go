package rehearsal

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// places follows where the TLB windows of an image point.
type places struct {
	view    *fbs.View
	pointed map[uint16]*fbs.Command
}

func (p places) follow(c *fbs.Command) {
	if c.Opcode == gen.OpcodePoint {
		p.pointed[c.Window] = c
	}
}

// of returns the place of size bytes that a command loads, as flags of lm import name it; empty for
// a buffer in host memory, whose bus address only the recording knows. `exact` is true for a
// register.
func (p places) of(c *fbs.Command, size uint64) (place string, exact bool) {
	w := &p.view.Windows[c.Window]
	prefix, first := "", uint64(c.Offset)
	switch w.Kind {
	case gen.WindowKindBar:
		prefix, first = fmt.Sprintf("bar%d+", w.Bar), first+w.Offset
	case gen.WindowKindTlb:
		point := p.pointed[c.Window]
		tiles, _ := boards.UnpackTileRoute(point.Mask)
		prefix = fmt.Sprintf("%d,%d,", tiles.X, tiles.Y)
		first += point.Value
	default:
		return "", false
	}
	if c.Opcode == gen.OpcodeExpect {
		return fmt.Sprintf("%s0x%x", prefix, first), true
	}
	return fmt.Sprintf("%s0x%x-0x%x", prefix, first, first+size-1), false
}
