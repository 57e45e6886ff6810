package importer

import (
	"lightmetal/fbs/gen"
	"lightmetal/tools/importer/traces"
	"lightmetal/tools/lmb"
)

// fencer puts a store fence behind every run of bulk copies: they may go
// through a write-combining mapping, and what comes next may start the device,
// move the window they went through, or read them back. So it does between
// stores to host memory and the device, and between a wait in host memory and
// what is compared there.
type fencer struct {
	open   bool // a bulk copy, or a store to host memory
	waited bool // in host memory
	n      int
}

// before tells whether a fence belongs in front of a command.
func (f *fencer) before(p *program, c *lmb.Command) bool {
	if c.Opcode == lmb.OpcodeMark {
		return false
	}
	host := c.Opcode != gen.OpcodePoint && c.Opcode != gen.OpcodeFence && p.windows[c.Window].Kind == gen.WindowKindHost
	bulk := c.Opcode == gen.OpcodeFill || c.Opcode == gen.OpcodeCopyIn && gen.Access(c.Mode) == gen.AccessBulk
	stores := c.Opcode == gen.OpcodeWrite || c.Opcode == gen.OpcodeAddress || c.Opcode == gen.OpcodeFill || c.Opcode == gen.OpcodeCopyIn
	poll := c.Opcode == gen.OpcodeCheck && c.Amount != 0
	if c.Opcode == gen.OpcodeFence {
		f.open, f.waited = false, false
		return false
	}
	fence := f.open && !bulk && !(host && stores) || f.waited && !(host && poll)
	if fence {
		f.open, f.waited = false, false
	}
	f.open = f.open || bulk || host && stores
	f.waited = f.waited || host && poll
	return fence
}

// end puts a fence behind the last command where one is due.
func (f *fencer) end(m *maker) {
	if f.open && m.with("fence") {
		m.emitFence()
	}
}

// fenced reports the fences.
func (m *maker) fenced() (out outcome, err error) {
	if m.fences.n > 0 {
		out.did = traces.Counted(m.fences.n, "store fence") + " behind bulk copies"
	}
	return out, nil
}
