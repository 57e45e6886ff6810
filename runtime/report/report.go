// Package report describes the failure of a run as text: the command that failed, and the values
// that it loaded and expected. lmrun, lm and the C archive use these texts.
package report

import (
	"math/bits"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
)

// AppendFailure appends a description of a failed run, or nothing if no command has failed:
//
//	main, command 3: poll.4 w0+0x20 & 0x1 == 0x0: got 0x1 after 1 s (bits that differ: 0)
//
// `window` is the name of the command's window. If it is "", the text has an index, such as w0: the
// target does not read names. Then AppendFailure allocates nothing if text has room for
// FailureTextMax more bytes.
func AppendFailure(text []byte, view *fbs.View, r *runtime.Result, window string) []byte {
	if r.Command < 0 {
		return text
	}
	text = append(runtime.AppendCommandPosition(text, view, int(r.Command)), ": "...)
	c := &view.Commands[r.Command]
	text = appendCommand(text, c, window)
	if r.Command > 0 {
		with := &view.Commands[r.Command-1]
		if with.Opcode == gen.OpcodeWith && gen.Place(with.Mode) == gen.PlaceOffset {
			text = fbs.AppendText(text, " (offset moved by ring %d)", uint64(with.Index))
		}
	}
	if r.FileTruncated {
		text = append(append(text, ": "...), runtime.FileTruncatedText...)
	}
	if r.Mask != 0 {
		text = appendMismatch(text, c, r)
	}
	return text
}

// FailureTextMax is how many bytes AppendFailure appends at most: a name, and 192 bytes.
const FailureTextMax = 192 + fbs.NameMax

// commandFormats have the width, if the command has one, the window, the offset and the value. The
// mark @ before a window is not printed.
var commandFormats = [...]string{
	gen.OpcodeWrite:    "write.%d @w%d+%x %x",
	gen.OpcodeModify:   "write.%d @w%d+%x %x",
	gen.OpcodeRelocate: "write.%d @w%d+%x",
	gen.OpcodeCopyIn:   "copy.%d @w%d+%x",
	gen.OpcodeFill:     "fill.%d @w%d+%x",
	gen.OpcodeCopyOut:  "copy.%d <- @w%d+%x",
	gen.OpcodeExpect:   "expect.%d @w%d+%x",
	gen.OpcodeCompare:  "compare.%d @w%d+%x",
	gen.OpcodePoint:    "point @w%d",
	gen.OpcodeFence:    "fence",
	gen.OpcodeDelay:    "delay",
	gen.OpcodeCall:     "call",
	gen.OpcodeEnd:      "end",
	gen.OpcodeAdvance:  "advance",
	gen.OpcodeReset:    "reset",
	gen.OpcodeWith:     "with",
}

var conditionFormats = [...]string{
	gen.ConditionEqual:    " == %x",
	gen.ConditionNotEqual: " != %x",
	gen.ConditionReached:  " reached %x",
}

// appendCommand appends a description in the form of listings (lm dump), for example "poll.4
// w0+0x20 & 0x1 == 0x0".
func appendCommand(text []byte, c *fbs.Command, window string) []byte {
	format := commandFormats[c.Opcode]
	isExpect := c.Opcode == gen.OpcodeExpect
	switch {
	case isExpect && c.Amount != 0:
		format = "poll.%d @w%d+%x"
	case isExpect && c.Mask == 0:
		format, isExpect = "read.%d @w%d+%x", false // no value is expected
	}
	before, after := hal.Cut(format, '@')
	text = fbs.AppendText(text, before, uint64(c.Width))
	numbers := []uint64{uint64(c.Window), uint64(c.Offset), c.Value}
	if after != "" && window != "" {
		text = hal.AppendParts(text, window)
		after, numbers = after[len("w%d"):], numbers[1:]
	}
	text = fbs.AppendText(text, after, numbers...)
	if !isExpect {
		return text
	}
	if c.Mask != fbs.WidthMask(c.Width) {
		text = fbs.AppendText(text, " & %x", c.Mask)
	}
	return fbs.AppendText(text, conditionFormats[c.Mode], c.Value)
}

func appendMismatch(text []byte, c *fbs.Command, r *runtime.Result) []byte {
	format := ": element %d: got %x, wanted %x"
	numbers := []uint64{r.ElementIndex, r.Got, r.Want}
	if c.Opcode != gen.OpcodeCompare {
		format, numbers = ": got %x", numbers[1:] // appendCommand has written the wanted value
		if r.Want != c.Value {
			format = ": got %x, wanted %x here, by its ring"
		}
	}
	text = fbs.AppendText(text, format, numbers...)
	if r.Code == hal.DeadlinePassed {
		time, unit := uint64(c.Amount), " us"
		if time%1000 == 0 {
			time, unit = time/1000, " ms"
		}
		if time%1000 == 0 {
			time, unit = time/1000, " s"
		}
		text = append(fbs.AppendText(text, " after %d", time), unit...)
	}
	if c.Opcode == gen.OpcodeExpect && gen.Condition(c.Mode) != gen.ConditionEqual {
		return text // many values meet the condition, so single bits do not matter
	}
	differing := (r.Got ^ r.Want) & r.Mask
	const listedMax = 4
	if count := bits.OnesCount64(differing); count > listedMax {
		return fbs.AppendText(text, " (%d bits differ)", uint64(count))
	}
	format = " (bits that differ: %d"
	for ; differing != 0; differing &= differing - 1 { // clears the lowest bit that is set
		text = fbs.AppendText(text, format, uint64(bits.TrailingZeros64(differing)))
		format = ", %d"
	}
	return append(text, ')')
}
