package importer

import (
	"fmt"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

// hold is a window's target whose cores the program let run.
type hold struct {
	aim    int32
	window uint16
	offset uint32 // of the reset register
}

// isReset tells whether a step accesses the register that holds the cores of a
// tile in reset.
func (p *program) isReset(at *aim, s *step) bool {
	return p.board.Reset.Mask != 0 && at.address+uint64(s.offset) == p.board.Reset.Address && p.isCores(at.kinds[0])
}

func (p *program) isCores(k chips.Kind) bool { return k == chips.Tensix || k == chips.Ethernet }

// release notes a store that lets cores run.
func (l *lifter) release(s *step, at *aim) {
	if s.op != stepStore || s.width != 4 || s.count != 1 || !l.isReset(at, s) || uint32(s.value)&l.board.Reset.Mask == l.board.Reset.Mask {
		return
	}
	for _, h := range l.running {
		if h.aim == s.aim {
			return
		}
	}
	l.running = append(l.running, hold{s.aim, s.window, s.offset})
}

// safe says whether the image gets a sequence of that name. A driver that puts
// cores back into reset when a replay ends does so for one tile.
func (p *program) safe() (out outcome, err error) {
	if len(p.safeCommands()) > 0 {
		out.did = fmt.Sprintf("the program let cores of %d tiles or rectangles run: sequence safe holds them in reset", len(p.running))
	}
	return out, nil
}

func (p *program) safeCommands() (list []lmb.Command) {
	if len(p.running) == 1 && !p.aims[p.running[0].aim].target.Multicast {
		return nil
	}
	for _, h := range p.running {
		a, reset := &p.aims[h.aim], &p.board.Reset
		list = append(list,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint, Window: h.window, Value: a.address, Mask: a.target.Pack()}},
			lmb.Command{Command: fbs.Command{
				Opcode: gen.OpcodeWrite, Width: 4, Window: h.window, Offset: h.offset,
				Value: uint64(reset.Mask),
			}})
	}
	return list
}
