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
	CheckEach      bool   // every command is looked at, whatever came before it
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
	indexNone      = iota
	indexInput     // memory: the payload, or an input
	indexOutput    // memory: an output
	indexBusWindow // a window that has a bus address
	indexInterval  // microseconds, with a deadline
	indexSequence  // another sequence, that calls none
)

// What Form.Value and Form.Mask may be.
const (
	valueZero         = iota
	valueWidth        // bits of the width
	valueInMask       // bits of the mask
	valueMemoryOffset // an offset in what index names
	valueSpecial      // looked at on its own
)

const (
	kindBar     = 1 << gen.WindowKindBar
	kindTLB     = 1 << gen.WindowKindTlb
	kindHost    = 1 << gen.WindowKindHost
	kindConfig  = 1 << gen.WindowKindConfig
	kindsMapped = kindBar | kindTLB | kindHost

	widthsAll, widthsWide          = 1<<1 | 1<<2 | 1<<4 | 1<<8, 1<<4 | 1<<8
	modeExact, modeFixed, modeBulk = 1 << gen.AccessExact, 1 << gen.AccessFixed, 1 << gen.AccessBulk
	modeConditions                 = 1<<gen.ConditionEqual | 1<<gen.ConditionNotEqual
	optionPolicies                 = 1<<gen.PolicyFail | 1<<gen.PolicyIgnore
)

var opcodeForms = [...]Form{
	gen.OpcodeInvalid: {},
	gen.OpcodeWrite: {"write", 1, 1, widthsAll, kindsMapped, indexNone, false, 0, valueWidth,
		valueZero, false, true,
		storeUs},
	gen.OpcodeModify: {"change", 1, 1, widthsAll, kindsMapped, indexNone, false, 0, valueInMask,
		valueWidth, true, true,
		loadUs + accessUs},
	gen.OpcodeRelocate: {"address", 1, 1, widthsWide, kindsMapped, indexBusWindow, false, 0,
		valueWidth, valueZero, true, true,
		storeUs},
	gen.OpcodeCopyIn: {"copy in", modeExact | modeFixed | modeBulk, 1, widthsAll, kindsMapped,
		indexInput, true, 0, valueMemoryOffset,
		valueZero, false, true, baseUs},
	gen.OpcodeFill: {"fill", modeExact | modeFixed, 1, widthsAll, kindsMapped, indexNone, true, 0,
		valueWidth, valueZero, false,
		true, baseUs},
	gen.OpcodeCopyOut: {"copy out", modeExact | modeFixed | modeBulk, 1, widthsAll, kindsMapped,
		indexOutput, true, 0, valueMemoryOffset,
		valueZero, false, false, baseUs + queryUs},
	gen.OpcodeExpect: {"check", modeConditions, optionPolicies, widthsAll, kindsMapped | kindConfig,
		indexInterval, false,
		1<<32 - 1, valueInMask, valueWidth, false, false, loadUs},
	gen.OpcodeCompare: {"compare", 1, optionPolicies, widthsAll, kindsMapped, indexInput, true, 0,
		valueMemoryOffset, valueZero, false,
		false, baseUs},
	gen.OpcodePoint: {"point", 1, 1, 1, kindTLB, indexNone, false, 0, valueSpecial, valueSpecial,
		true, false, pointUs},
	gen.OpcodeFence: {"fence", 1, 1, 1, 0, indexNone, false, 0, valueZero, valueZero, false, false,
		baseUs},
	gen.OpcodeDelay: {"delay", 1, 1, 1, 0, indexNone, false, DelayMaxUs, valueZero, valueZero, true,
		false,
		baseUs},
	gen.OpcodeCall: {"call", 1, 1, 1, 0, indexSequence, false, 0, valueZero, valueZero, true, false,
		baseUs},
	gen.OpcodeEnd: {"end", 1, 1, 1, 0, indexNone, false, 0, valueZero, valueZero, true, false,
		baseUs},
}
