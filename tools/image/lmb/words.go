package lmb

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
)

// DTypes has the names of the element types, by number; the first is empty.
var DTypes = func() []string {
	list := make([]string, len(gen.EnumNamesDType))
	for d := gen.DTypeInvalid + 1; int(d) < len(list); d++ {
		list[d] = strings.ToLower(d.String())
	}
	return list
}()

// Poll is the number of CommandKind for an Expect with a deadline.
const Poll gen.Opcode = 0xfe

// CommandKind returns the opcode of a command, or Poll.
func CommandKind(c *fbs.Command) gen.Opcode {
	if c.Opcode == gen.OpcodeExpect && c.Amount != 0 {
		return Poll
	}
	return c.Opcode
}

// CommandKinds are the kinds of commands in the order of tables, without End.
var CommandKinds = []gen.Opcode{gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate,
	gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeExpect, Poll, gen.OpcodeCompare,
	gen.OpcodePoint, gen.OpcodeFence, gen.OpcodeDelay, gen.OpcodeCall, gen.OpcodeAdvance,
	gen.OpcodeReset, gen.OpcodeWith}

// OpcodeName returns the name of an opcode, or of Poll, as all output has it: "write", "copy in".
func OpcodeName(op gen.Opcode) string {
	switch op {
	case gen.OpcodeCopyIn:
		return "copy in"
	case gen.OpcodeCopyOut:
		return "copy out"
	case Poll:
		return "poll"
	}
	return strings.ToLower(gen.EnumNamesOpcode[op])
}

// PlaceText returns the position of a command for use within a sentence: "command 3 of main".
// Messages that begin with a position use the form of runtime.AppendCommandPosition instead.
func PlaceText(view *fbs.View, index int) string {
	sequence, number := SequenceOf(view, index)
	return fmt.Sprintf("command %d of %s", number, view.Name(view.Sequences[sequence].Name))
}

// RoleName returns "input", "output" or "scratch".
func RoleName(role gen.Role) string { return strings.ToLower(gen.EnumNamesRole[role]) }

// ShapeText formats the lengths of a tensor's dimensions: "16x16", or "scalar".
func ShapeText(shape []uint32) string {
	if len(shape) == 0 {
		return "scalar"
	}
	return DimsText(shape)
}

// DimsText formats the lengths of a tensor's dimensions within the brackets of its type: "16x16",
// and nothing for a scalar.
func DimsText(shape []uint32) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "x")
}

// TypeText formats type and shape of a tensor as in a listing: "int32[16x16]".
func TypeText(dtype gen.DType, shape []uint32) string {
	return DTypes[dtype] + "[" + DimsText(shape) + "]"
}

// SizeText formats a number of bytes exactly, in the largest unit that divides it: "512 MiB",
// "7,380 bytes".
func SizeText(n uint64) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if shift := 40 - 10*i; n != 0 && n>>shift<<shift == n {
			return fmt.Sprintf("%d %s", n>>shift, unit)
		}
	}
	return english.Count(n, "byte")
}

// TimeText formats a time in nanoseconds with three significant digits: "86.6 us", "1 s".
func TimeText(ns int64) string {
	value, unit := float64(ns), 0
	for math.Abs(value) >= 1000 && unit < 3 {
		value /= 1000
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d ns", ns)
	}
	return ThreeDigits(value) + " " + [...]string{"ns", "us", "ms", "s"}[unit]
}

// WaitText formats a time in microseconds, which may be longer than Go can express.
func WaitText(us uint64) string {
	if us > math.MaxInt64/1000 {
		return "longer than " + TimeText(math.MaxInt64)
	}
	return TimeText(int64(us) * 1000)
}

// ThreeDigits formats a number with two decimals, with one from 10 on and none from 100 on, without
// trailing zeros.
func ThreeDigits(value float64) string {
	decimals := 2
	switch size := math.Abs(value); {
	case size >= 99.95:
		decimals = 0
	case size >= 9.995:
		decimals = 1
	}
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
