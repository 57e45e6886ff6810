package fbs

import "lightmetal/fbs/gen"

// Form is what commands of one opcode are made of. What it does not name is
// zero. FORMAT.md section 6 is the same table in words.
type Form struct {
	Name           string
	Modes, Options uint8  // accepted values, a bit each; 1: zero alone
	Widths         uint16 // as well; 1: it makes no access
	Kinds          uint8  // of windows, a bit each
	Index          uint8  // what index names
	Range          bool   // amount is bytes from offset on (from value on in a memory), and not 0
	AmountMax      uint32 // where it is a time
	Value, Mask    uint8  // what they may hold
	Each           bool   // every command is looked at, whatever came before it
	Stores         bool   // to its window
	CostUs         uint8  // of a command, beside its time, and the accesses of a Range
}

// What a command counts in View.LongestUs, in microseconds. FORMAT.md section
// 6.3 has the same numbers and where they come from.
const (
	baseUs   = 1  // every command
	accessUs = 1  // each load and store; checker.access counts those of a Range
	queryUs  = 10 // each time a device is asked about its state

	loadUs  = baseUs + accessUs + queryUs // all ones may come of a device that is gone
	storeUs = baseUs + accessUs
	pointUs = baseUs + 4*accessUs // three registers, and one of them read back
)

// What Form.Index may be.
const (
	none     = iota
	input    // memory: the payload, or an input
	output   // memory: an output
	bus      // a window that has a bus address
	interval // microseconds, with a deadline
	sequence // another sequence, that calls none
)

// What Form.Value and Form.Mask may be.
const (
	zero   = iota
	width  // bits of the width
	inMask // bits of the mask
	memory // an offset in what index names
	own    // looked at on its own
)

const (
	bar    = 1 << gen.WindowKindBar
	tlb    = 1 << gen.WindowKindTlb
	host   = 1 << gen.WindowKindHost
	config = 1 << gen.WindowKindConfig
	ranges = bar | tlb | host

	all, wide          = 1<<1 | 1<<2 | 1<<4 | 1<<8, 1<<4 | 1<<8
	exact, fixed, bulk = 1 << gen.AccessExact, 1 << gen.AccessFixed, 1 << gen.AccessBulk
	conditions         = 1<<gen.ConditionEqual | 1<<gen.ConditionNotEqual
	policies           = 1<<gen.PolicyFail | 1<<gen.PolicyIgnore
)

var forms = [...]Form{
	gen.OpcodeInvalid: {},
	gen.OpcodeWrite: {"write", 1, 1, all, ranges, none, false, 0, width, zero, false, true,
		storeUs},
	gen.OpcodeChange: {"change", 1, 1, all, ranges, none, false, 0, inMask, width, true, true,
		loadUs + accessUs},
	gen.OpcodeAddress: {"address", 1, 1, wide, ranges, bus, false, 0, width, zero, true, true,
		storeUs},
	gen.OpcodeCopyIn: {"copy in", exact | fixed | bulk, 1, all, ranges, input, true, 0, memory,
		zero, false, true, baseUs},
	gen.OpcodeFill: {"fill", exact | fixed, 1, all, ranges, none, true, 0, width, zero, false,
		true, baseUs},
	gen.OpcodeCopyOut: {"copy out", exact | fixed | bulk, 1, all, ranges, output, true, 0, memory,
		zero, false, false, baseUs + queryUs},
	gen.OpcodeCheck: {"check", conditions, policies, all, ranges | config, interval, false,
		1<<32 - 1, inMask, width, false, false, loadUs},
	gen.OpcodeCompare: {"compare", 1, policies, all, ranges, input, true, 0, memory, zero, false,
		false, baseUs},
	gen.OpcodePoint: {"point", 1, 1, 1, tlb, none, false, 0, own, own, true, false, pointUs},
	gen.OpcodeFence: {"fence", 1, 1, 1, 0, none, false, 0, zero, zero, false, false, baseUs},
	gen.OpcodeDelay: {"delay", 1, 1, 1, 0, none, false, DelayMaxUs, zero, zero, true, false,
		baseUs},
	gen.OpcodeCall: {"call", 1, 1, 1, 0, sequence, false, 0, zero, zero, true, false, baseUs},
	gen.OpcodeEnd:  {"end", 1, 1, 1, 0, none, false, 0, zero, zero, true, false, baseUs},
}
