package fbs

import "lightmetal/fbs/gen"

// Longest times in microseconds, as FORMAT.md section 6.3 defines them.
const (
	eachUs        = 1  // one command, in addition to its accesses
	accessUs      = 1  // one load or store
	pointUs       = 4  // to program a TLB window: three stores, one load
	DeviceQueryUs = 10 // one check whether a device still responds

	worstCaseLimitUs = 1 << 62 // largest value in View.WorstCaseUs
)

// opcodeForm is one row of the table of commands in FORMAT.md section 6.
type opcodeForm struct {
	name     string       // in messages
	empty    Command      // all bits are set in the fields that must be 0
	modes    uint8        // set of the accepted modes: bit n for mode n
	modeText string       // the accepted modes in messages
	traits   accessTraits // of the accesses; the mode Bulk adds accessAnyWidth
	us       uint8        // longest time without Amount, and without the queries of Ignore
}

// All bits of a field in opcodeForm.empty, by the size of the field in bits.
const (
	ones8, ones16, ones32, ones64 = 1<<8 - 1, 1<<16 - 1, 1<<32 - 1, 1<<64 - 1
)

const (
	noMode     = 1 << 0
	copyModes  = 1<<gen.AccessExact | 1<<gen.AccessFixed | 1<<gen.AccessBulk
	fillModes  = 1<<gen.AccessExact | 1<<gen.AccessFixed
	conditions = 1<<gen.ConditionEqual | 1<<gen.ConditionNotEqual | 1<<gen.ConditionReached

	copyModesText = "1 (exact), 2 (fixed) or 3 (bulk)"
)

var opcodeForms = [...]opcodeForm{
	gen.OpcodeWrite: {
		name:   "write",
		empty:  Command{Mode: ones8, Option: ones8, Index: ones16, Amount: ones32, Mask: ones64},
		traits: accessStores, us: eachUs + accessUs,
	},
	gen.OpcodeModify: {
		name:   "modify",
		empty:  Command{Mode: ones8, Option: ones8, Index: ones16, Amount: ones32},
		traits: accessStores, us: eachUs + 2*accessUs + DeviceQueryUs,
	},
	gen.OpcodeRelocate: {
		name:   "relocate",
		empty:  Command{Mode: ones8, Option: ones8, Amount: ones32, Mask: ones64},
		traits: accessStores, us: eachUs + accessUs,
	},
	gen.OpcodeCopyIn: {
		name:  "copy in",
		empty: Command{Option: ones8, Mask: ones64},
		modes: copyModes, modeText: copyModesText,
		traits: accessManyBytes | accessStores, us: eachUs,
	},
	gen.OpcodeFill: {
		name:  "fill",
		empty: Command{Option: ones8, Index: ones16, Mask: ones64},
		modes: fillModes, modeText: "1 (exact) or 2 (fixed)",
		traits: accessManyBytes | accessStores, us: eachUs,
	},
	gen.OpcodeCopyOut: {
		name:  "copy out",
		empty: Command{Option: ones8, Mask: ones64},
		modes: copyModes, modeText: copyModesText,
		traits: accessManyBytes, us: eachUs + DeviceQueryUs,
	},
	gen.OpcodeExpect: {
		name:  "expect",
		modes: conditions, modeText: "1 (equal), 2 (not equal) or 3 (reached)",
		traits: accessSingleLoad, us: eachUs + accessUs + DeviceQueryUs,
	},
	gen.OpcodeCompare: {
		name:   "compare",
		empty:  Command{Mode: ones8, Mask: ones64},
		modes:  noMode,
		traits: accessManyBytes, us: eachUs,
	},
	gen.OpcodePoint: {
		name: "point",
		empty: Command{Width: ones8, Mode: ones8, Option: ones8, Index: ones16, Offset: ones32,
			Amount: ones32},
		us: eachUs + pointUs,
	},
	gen.OpcodeFence: {
		name: "fence",
		empty: Command{Width: ones8, Mode: ones8, Option: ones8, Window: ones16, Index: ones16,
			Offset: ones32, Amount: ones32, Value: ones64, Mask: ones64},
		us: eachUs,
	},
	gen.OpcodeDelay: {
		name: "delay",
		empty: Command{Width: ones8, Mode: ones8, Option: ones8, Window: ones16, Index: ones16,
			Offset: ones32, Value: ones64, Mask: ones64},
		us: eachUs,
	},
	gen.OpcodeCall: {
		name: "call",
		empty: Command{Width: ones8, Mode: ones8, Option: ones8, Window: ones16, Offset: ones32,
			Amount: ones32, Value: ones64, Mask: ones64},
		us: eachUs, // verifyCalls adds the time of the called sequence
	},
	gen.OpcodeEnd: {
		name: "end",
		empty: Command{Width: ones8, Mode: ones8, Option: ones8, Window: ones16, Index: ones16,
			Offset: ones32, Amount: ones32, Value: ones64, Mask: ones64},
		us: eachUs,
	},
	gen.OpcodeAdvance: {
		name: "advance",
		empty: Command{Width: ones8, Mode: ones8, Option: ones8, Window: ones16, Offset: ones32,
			Amount: ones32, Mask: ones64},
		us: eachUs,
	},
	gen.OpcodeReset: {
		name: "reset",
		empty: Command{Width: ones8, Mode: ones8, Option: ones8, Window: ones16, Offset: ones32,
			Amount: ones32, Value: ones64, Mask: ones64},
		us: eachUs,
	},
	gen.OpcodeWith: {
		name: "with",
		empty: Command{Width: ones8, Option: ones8, Window: ones16, Offset: ones32,
			Value: ones64},
		modes: 1<<gen.PlaceValue | 1<<gen.PlaceOffset, modeText: "1 (value) or 2 (offset)",
		us: eachUs,
	},
}

// formOf returns the row of an opcode, or nil if the opcode is unknown.
func formOf(o gen.Opcode) *opcodeForm {
	if o == gen.OpcodeInvalid || int(o) >= len(opcodeForms) {
		return nil
	}
	return &opcodeForms[o]
}

func (f *opcodeForm) setsUnusedField(m *Command) bool {
	got, empty := wordsOf(m), wordsOf(&f.empty)
	return got[0]&empty[0]|got[1]&empty[1]|got[2]&empty[2]|got[3]&empty[3] != 0
}

// describeUnusedField names the first field of m that is not 0, but must be.
func (f *opcodeForm) describeUnusedField(m *Command) (problem string) {
	e := &f.empty
	for _, field := range [...]struct {
		name       string
		got, empty uint64
	}{
		{"width", uint64(m.Width), uint64(e.Width)}, {"mode", uint64(m.Mode), uint64(e.Mode)},
		{"option", uint64(m.Option), uint64(e.Option)},
		{"window", uint64(m.Window), uint64(e.Window)}, {"index", uint64(m.Index), uint64(e.Index)},
		{"offset", uint64(m.Offset), uint64(e.Offset)},
		{"amount", uint64(m.Amount), uint64(e.Amount)}, {"value", m.Value, e.Value},
		{"mask", m.Mask, e.Mask},
	} {
		if field.got&field.empty != 0 && problem == "" {
			problem = Text(field.name+" is %x, but must be 0", field.got)
		}
	}
	return problem
}

// longestUs returns the longest time of m, without a called sequence and without the queries of
// Ignore. The result is meaningless if the width is invalid.
func (f *opcodeForm) longestUs(m *Command) uint64 {
	if f.traits&accessManyBytes == 0 {
		return uint64(f.us) + uint64(m.Amount) // a deadline, a delay or 0
	}
	log2 := m.Width/2 - m.Width/8
	return uint64(f.us) + (uint64(m.Amount)+uint64(m.Width)-1)>>log2*accessUs
}

func (f *opcodeForm) describeInvalidMode(m *Command) string {
	return Text("invalid mode %d; must be "+f.modeText, uint64(m.Mode))
}

// ConditionMet reports whether the loaded value meets the condition of the Expect command c.
//
// The condition Reached is for counters that return to 0 after their largest value, c.Mask. Half of
// all values, those from c.Value on, count as reached or passed (as with serial numbers, RFC 1982).
func ConditionMet(c *Command, loaded uint64) bool {
	switch gen.Condition(c.Mode) {
	case gen.ConditionEqual:
		return loaded&c.Mask == c.Value
	case gen.ConditionNotEqual:
		return loaded&c.Mask != c.Value
	}
	return (loaded-c.Value)&c.Mask <= c.Mask>>1
}
