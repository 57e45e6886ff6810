package runtime

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// CheckRules holds every access of an image to one of its targets against what
// that target's board accepts. The error is a *hal.Fault.
func CheckRules(view *fbs.View, target int, board *boards.Board) error {
	for i := range view.Commands {
		c := &view.Commands[i]
		w := &view.Windows[c.Window] // 0 in commands that have none
		if !touchesWindow(c) || w.Device != uint8(target) || w.Kind != gen.WindowKindBar {
			continue
		}
		if reason := ruleReason(board, w, c); reason != "" {
			return &hal.Fault{Code: hal.BadImage, Reason: command(i) + reason}
		}
	}
	return nil
}

// CheckTime refuses an image with a sequence that may take longer than the view
// allows. The error is a *hal.Fault.
func CheckTime(view *fbs.View) error {
	for i, us := range view.LongestUs() {
		if us > view.AllowedUs {
			return &hal.Fault{Code: hal.BadImage, Reason: "sequence " + fbs.Quote(view.Sequences[i].Name) + fbs.Text(" may take %d s, %d are allowed; -longest allows more", us/1e6, view.AllowedUs/1e6)}
		}
	}
	return nil
}

// touchesWindow tells whether a command loads or stores through its window.
func touchesWindow(c *fbs.Command) bool {
	switch c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeCopyIn, gen.OpcodeCopyOut, gen.OpcodePoll, gen.OpcodeExpect, gen.OpcodeCompare:
		return true
	case gen.OpcodeFence:
		return gen.FenceMode(c.Mode) == gen.FenceModeReadBack
	}
	return false
}

// ruleReason says what a board has against an access, empty if nothing.
func ruleReason(board *boards.Board, w *fbs.Window, c *fbs.Command) string {
	size, bulk := uint64(c.Width), false
	switch c.Opcode {
	case gen.OpcodeCopyIn, gen.OpcodeCopyOut:
		if gen.Access(c.Option) != gen.AccessFixed {
			size = uint64(c.Amount)
		}
		bulk = gen.Access(c.Option) == gen.AccessBulk
	case gen.OpcodeCompare:
		size = uint64(c.Amount)
	}
	offset := w.Offset + uint64(c.Offset)
	rule := board.Rule(w.Bar, offset, size)
	reason := ""
	switch {
	case rule == nil:
		return fbs.Text("%d bytes at %x of BAR %d are more than one register of ", size, offset, uint64(w.Bar)) + board.Name
	case rule.Widths&c.Width == 0:
		reason = fbs.Text("width %d is", uint64(c.Width))
	case bulk && rule.Widths&narrowest(offset|size) == 0:
		reason = fbs.Text("the narrow accesses that %d bytes need are", size)
	case bulk && !rule.Memory:
		reason = "bulk access, which is for memory, is"
	case w.Flags&fbs.FlagWriteCombining != 0 && !rule.Memory:
		reason = "a write-combining window, which is for memory, is"
	case rule.IATU && (c.Opcode == gen.OpcodeWrite || c.Opcode == gen.OpcodeCopyIn):
		reason = "a store, which opens host memory to the device (declare a host window), is"
	}
	if reason != "" {
		return reason + " not accepted by " + board.Name + fbs.Text(" BAR %d at %x (", uint64(w.Bar), offset) + rule.Name + ")"
	}
	return ""
}

// narrowest is the width of the narrowest access that a bulk copy makes, given
// its start and size ORed: at an odd end, or in the middle.
func narrowest(ends uint64) uint8 {
	ends |= 8
	return uint8(ends & -ends)
}
