package main

// This file defines the vectors of rings.

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/tools/check/vectors/vector"
)

const (
	sRing      = "A *ring* moves an access or a number from run to run"
	sNumbers   = "A reader keeps two numbers for each ring of an image"
	sShared    = "All sequences of the image share them."
	sReset     = "**Reset** sets the ring"
	sAdvance   = "**Advance** takes `value` units of the ring, its *step*"
	sWrap      = "If position + step > end, the position becomes `begin`"
	sWith      = "With Offset, it adds the value of the ring, shifted right"
	sLap       = "With Value, it adds the same to the command's `value`"
	sNext      = "The command that a With changes is the next one"
	sTwo       = "At most these two stand before a command."
	sOffsets   = "With Offset changes one of these, or a CopyIn"
	sValues    = "With Value changes a Write, Relocate, Fill or Expect."
	sNoBulk    = "With Bulk, no command is changed."
	sAdvanced  = "A With stands after an Advance of its ring in the same sequence"
	sLargest   = "The command is valid as it stands, and it is valid with the largest addend"
	sSameRule  = "In a Bar window, one rule contains the first bytes that the command accesses"
	sMultiple  = "If a With moves an offset, its `mask` is 0"
	sLapBits   = "With Value, `mask` has only bits inside the `width`"
	sFromBit0  = "If the largest addend is not 0, the `mask` of an Expect is 2^n - 1."
	sBusFits   = "An image is rejected at load if a With stands before a Relocate"
	sNeeds     = "A sequence *needs* a ring if it advances the ring before it resets it."
	sCalled    = "What a called sequence needs and resets"
	sSafeNeeds = "The sequence `safe` needs no ring."
	sUnset     = "A run of a sequence that needs a ring which is not set ends before"
	sNoneSet   = "After the load and after a failed run, no ring is set."
)

var (
	host2 = vector.OfHost(2)

	// ringMachine is for rings.lmb.
	ringMachine = machine{accessNs: 1000, bus: []vector.Window{{Index: 2, Bus: 0x1_2345_6000}}}
)

// ringRuns lets a reader run sequences of rings.lmb one after the other.
func ringRuns(name, want string, sentences []string, sequences ...string) definition {
	d := definition{name: "rings-" + name, image: "rings.lmb", machine: ringMachine, want: want,
		format: sentences}
	for _, sequence := range sequences {
		d.runs = append(d.runs, run{sequence: sequence})
	}
	return d
}

// withAnswers returns d on a machine with answers.
func withAnswers(d definition, answers ...answer) definition {
	d.answers = answers
	return d
}

// interrupted returns d on a machine in which an access fails, or after which the device is gone.
func interrupted(d definition, failAt, goneAt int) definition {
	d.failAt, d.goneAt = failAt, goneAt
	return d
}

// Indices of commands in rings.lmb, after the name of their sequence.
const (
	frame0, wait0, copies0, values0, fit0, large0 = 7, 20, 27, 40, 55, 65

	ends0, twice0, fails0, alone0, safe0 = 72, 82, 89, 93, 102
)

// ringEdge defines a vector of an image that a reader accepts after a change of its commands.
func ringEdge(name, sentence string, change func(f *file, c []fbs.Command)) definition {
	d := ringRuns(name, "done", []string{sentence}, "init", "frame")
	d.change = func(f *file) {
		change(f, f.view.Commands)
		f.stamp()
	}
	return d
}

// rejectRing defines a vector in which a change of the commands makes one of them invalid.
func rejectRing(name string, command int, sentence string, change func([]fbs.Command)) definition {
	return of("rings.lmb", reject("rings-"+name, fmt.Sprint("command ", command), sentence,
		func(f *file) { change(f.view.Commands) }))
}

// rejectRingTable defines a vector in which a change of the tables makes a part invalid.
func rejectRingTable(name, place, sentence string, change func(*file)) definition {
	return of("rings.lmb", reject("rings-"+name, place, sentence, change))
}

// replaceAfter replaces the command after a With, which is then invalid.
func replaceAfter(name string, with int, sentence string, by fbs.Command) definition {
	return rejectRing(name, with, sentence, func(c []fbs.Command) { c[with+1] = by })
}

var rings = []definition{
	ringRuns("reset", "done", []string{sReset}, "init"),
	ringRuns("wrap-in-a-frame", "done", []string{sRing, sWrap}, "init", "frame", "frame"),
	ringRuns("eight-frames", "done", []string{sNumbers, sAdvance, sWith}, "init", "frame",
		"frame", "frame", "frame", "frame", "frame", "frame", "frame"),
	ringRuns("entry-does-not-fit", "done", []string{sWrap, sLap}, "init", "fit", "fit", "fit"),
	ringRuns("two-sequences-in-turn", "done", []string{sShared}, "init", "frame", "copies",
		"frame", "copies", "frame", "copies"),
	ringRuns("large", "done", []string{sLap}, "init", "large", "large", "large"),
	ringRuns("both-ends", "done", []string{sLargest, sSameRule}, "init", "ends", "ends"),
	ringRuns("copies", "done", []string{sOffsets, sNext}, "init", "copies", "copies", "copies"),
	ringRuns("values", "done, ignored 1", []string{sValues, sLapBits, sFromBit0}, "init", "values"),
	ringRuns("values-of-an-odd-lap", "done, ignored 1", []string{sLap, sTwo}, "init", "values",
		"values", "values", "values", "values", "values", "values", "values"),
	ringRuns("calls", "done", []string{sCalled}, "twice", "frame"),
	ringRuns("reset-again", "done", []string{sReset}, "init", "frame", "init", "frame"),
	ringRuns("resets-itself", "done", []string{sNeeds}, "alone", "alone"),
	ringRuns("unset", "ring-unset", []string{sUnset, sNoneSet}, "frame"),
	ringRuns("unset-then-set", "done", []string{sUnset}, "frame", "init", "frame"),
	ringRuns("one-of-two-unset", "ring-unset", []string{sUnset}, "alone", "frame"),
	ringRuns("unset-by-no-other-run", "done", []string{sUnset}, "init", "alone", "frame"),
	withAnswers(ringRuns("phase", "done", []string{sLap}, "init", "wait", "wait", "wait", "wait",
		"wait", "wait", "wait"),
		first(1, host2, 0xc, 1<<31), first(1, host2, 0x1c, 1<<31), first(1, host2, 0x2c, 1<<31),
		first(1, host2, 0xc, 0), first(1, host2, 0x1c, 0), first(1, host2, 0x2c, 0),
		always(host2, 0xc, 1<<31)),
	withAnswers(ringRuns("phase-comes-late", "done", []string{sLap}, "init", "wait", "wait"),
		always(host2, 0xc, 1<<31), first(3, host2, 0x1c, 0), always(host2, 0x1c, 1<<31)),
	ringRuns("phase-does-not-come", "deadline-passed command 23, safe done", []string{sLap},
		"init", "wait"),
	withAnswers(ringRuns("expect-fails", "expect-failed command 91, safe done", []string{sLap},
		"init", "frame", "fails"), always(bar0, 0x100c, 0x11)),
	withAnswers(ringRuns("expect-holds", "done", []string{sLap}, "init", "frame", "fails"),
		always(bar0, 0x100c, 0x12)),
	withAnswers(ringRuns("after-a-failure", "disabled", []string{sNoneSet}, "init", "fails",
		"frame"), always(bar0, 0x100c, 0x99)),
	interrupted(ringRuns("store-fails", "bus-fault command 9, safe done", []string{sNext}, "init",
		"frame"), 1, 0),
	interrupted(ringRuns("fill-fails", "bus-fault command 12, safe done", []string{sNext}, "init",
		"frame"), 3, 0),
	interrupted(ringRuns("load-fails", "bus-fault command 31, safe done", []string{sNext}, "init",
		"copies"), 10, 0),
	interrupted(ringRuns("device-gone", "device-gone command 33, safe done", []string{sNext},
		"init", "copies"), 0, 24),
	withAnswers(ringRuns("compare-fails", "compare-failed command 33, safe done", []string{sNext},
		"init", "copies"), first(1, bar0, 0x138, 0), always(bar0, 0x138, 1)),

	{name: "rings-bus-fits", image: "rings.lmb", want: "done", format: []string{sBusFits},
		runs:    []run{{sequence: "init"}, {sequence: "copies"}},
		machine: machine{bus: []vector.Window{{Index: 2, Bus: 0xffff_e000}}},
		change: func(f *file) {
			f.view.Commands[copies0+11].Width = 4
			f.stamp()
		}},
	{name: "rings-bus-too-large", image: "rings.lmb", format: []string{sBusFits},
		want:    fmt.Sprint("reject wrong-device command ", copies0+11),
		machine: machine{bus: []vector.Window{{Index: 2, Bus: 0xffff_f000}}},
		change: func(f *file) {
			f.view.Commands[copies0+11].Width = 4
			f.stamp()
		}},
	{name: "rings-tlb-window", image: "rings-wormhole.lmb", want: "done", runs: []run{{}, {}},
		format: []string{sOffsets, sSameRule}},

	ringEdge("step-of-the-whole-ring", sAdvance,
		func(_ *file, c []fbs.Command) { c[frame0].Value = 0x60 }),
	ringEdge("datum-up-to-the-width", sLargest, func(_ *file, c []fbs.Command) {
		c[frame0+10].Mask, c[frame0+11].Value = 0xffffffff, 0xfffffffc
	}),
	ringEdge("offset-up-to-the-rule", sSameRule,
		func(_ *file, c []fbs.Command) { c[frame0+2].Offset = 0xeac }),
	ringEdge("shift-of-63", sWith,
		func(_ *file, c []fbs.Command) { c[frame0+10].Amount = 63 }),
	ringEdge("mask-of-one-bit-without-addend", sFromBit0,
		func(_ *file, c []fbs.Command) { c[wait0+1].Amount = 6 }),
	ringEdge("unused-ring-of-no-size", sRing, func(f *file, c []fbs.Command) {
		copy(c[fit0:], make([]fbs.Command, 9))
		for i := range 9 {
			c[fit0+i].Opcode = opFence
		}
		r := &f.view.Rings[3]
		r.Begin, r.First, r.End = 7, 7, 7
	}),

	rejectRingTable("first-below-begin", "ring 0", sRing,
		func(f *file) { f.view.Rings[0].First = 0xf0 }),
	rejectRingTable("first-above-end", "ring 1", sRing,
		func(f *file) { f.view.Rings[1].First = 0x40 }),
	rejectRingTable("begin-above-end", "ring 2", sRing,
		func(f *file) { f.view.Rings[2].Begin = 5 }),
	rejectRingTable("reserved", "ring 2", "Fields called `reserved` are zero.",
		func(f *file) { f.view.Rings[2].Reserved = 1 }),
	rejectRingTable("no-name", "ring 3", "Names are UTF-8",
		func(f *file) { f.view.Rings[3].Name = 0 }),
	rejectRingTable("too-many", "flatbuffer", "rings | 32", setCount(fieldRings, 33)),
	rejectRingTable("begin-no-multiple", "ring 0", sMultiple, func(f *file) {
		f.view.Rings[0].Begin = 0x102
	}),
	rejectRingTable("first-no-multiple", "ring 0", sMultiple,
		func(f *file) { f.view.Rings[0].First = 0x124 }),
	rejectRingTable("step-no-multiple", "ring 0", sMultiple,
		func(f *file) { f.view.Commands[twice0+3].Value = 12 }),
	rejectRingTable("shifted-step-no-multiple", "ring 0", sMultiple, func(f *file) {
		f.view.Commands[frame0+1].Amount, f.view.Commands[frame0+2].Width = 5, 1
	}),
	rejectRingTable("far-shifted", "ring 0", sMultiple,
		func(f *file) { f.view.Commands[frame0+1].Amount = 63 }),
	rejectRingTable("safe-needs-a-ring", "sequence 11", sSafeNeeds,
		func(f *file) { f.view.Commands[safe0] = fence }),
	rejectRingTable("safe-calls-what-needs-a-ring", "sequence 11", sCalled, func(f *file) {
		c := f.view.Commands
		c[safe0+1] = fbs.Command{Opcode: opCall, Index: 1}
		c[safe0+2], c[safe0+3] = fence, fence
	}),

	rejectRing("advance-of-no-ring", frame0, "Advance | advance",
		func(c []fbs.Command) { c[frame0].Index = 6 }),
	rejectRing("advance-by-0", frame0, sAdvance, func(c []fbs.Command) { c[frame0].Value = 0 }),
	rejectRing("advance-too-far", frame0, sAdvance,
		func(c []fbs.Command) { c[frame0].Value = 0x61 }),
	rejectRing("advance-with-a-mask", frame0, "Advance | advance",
		func(c []fbs.Command) { c[frame0].Mask = 1 }),
	rejectRing("advance-with-a-window", frame0, "Advance | advance",
		func(c []fbs.Command) { c[frame0].Window = 1 }),
	rejectRing("reset-of-no-ring", 0, "Reset | reset",
		func(c []fbs.Command) { c[0].Index = 6 }),
	rejectRing("reset-with-a-value", 0, "Reset | reset",
		func(c []fbs.Command) { c[0].Value = 1 }),
	rejectRing("with-of-no-ring", frame0+1, "With | with",
		func(c []fbs.Command) { c[frame0+1].Index = 6 }),
	rejectRing("with-mode-0", frame0+1, "With | with",
		func(c []fbs.Command) { c[frame0+1].Mode = 0 }),
	rejectRing("with-mode-3", frame0+1, "With | with",
		func(c []fbs.Command) { c[frame0+1].Mode = 3 }),
	rejectRing("with-shift-64", frame0+1, "With | with",
		func(c []fbs.Command) { c[frame0+1].Amount = 64 }),
	rejectRing("with-a-value", frame0+1, "With | with",
		func(c []fbs.Command) { c[frame0+1].Value = 1 }),
	rejectRing("with-a-width", frame0+1, "With | with",
		func(c []fbs.Command) { c[frame0+1].Width = 4 }),

	rejectRing("not-advanced", frame0+1, sAdvanced, func(c []fbs.Command) { c[frame0] = fence }),
	rejectRing("another-advanced", frame0+1, sAdvanced,
		func(c []fbs.Command) { c[frame0].Index = 5 }),
	rejectRing("advanced-later", frame0, sAdvanced,
		func(c []fbs.Command) { c[frame0] = c[frame0+1] }),
	rejectRing("not-advanced-after-reset", alone0+6, sAdvanced,
		func(c []fbs.Command) { c[alone0+5] = fence }),
	rejectRing("not-advanced-after-call", twice0+4, sAdvanced, func(c []fbs.Command) {
		c[twice0+2], c[twice0+3] = c[twice0+3], c[twice0+2]
	}),

	replaceAfter("before-a-fence", frame0+1, sNext, fence),
	replaceAfter("before-a-delay", frame0+1, sNext, fbs.Command{Opcode: opDelay, Amount: 1}),
	replaceAfter("before-a-call", twice0+4, sNext, fbs.Command{Opcode: opCall, Index: 1}),
	replaceAfter("before-an-advance", frame0+1, sNext,
		fbs.Command{Opcode: opAdvance, Value: 16}),
	replaceAfter("before-a-reset", frame0+1, sNext, fbs.Command{Opcode: opReset}),
	replaceAfter("before-a-modify", frame0+1, sOffsets,
		fbs.Command{Opcode: opModify, Width: 4, Mask: 1}),
	rejectRing("before-the-end", safe0+3, sNext, func(c []fbs.Command) {
		c[safe0+3] = c[safe0+2]
		c[safe0+2] = fence
	}),
	replaceAfter("before-an-unknown-opcode", frame0+1, sNext, fbs.Command{Opcode: 17}),
	replaceAfter("before-a-large-opcode", frame0+1, sNext, fbs.Command{Opcode: 0xff}),
	rejectRing("before-bulk", copies0+1, sNoBulk,
		func(c []fbs.Command) { c[copies0+2].Mode = 3 }),
	rejectRing("before-bulk-copy-out", copies0+3, sNoBulk,
		func(c []fbs.Command) { c[copies0+4].Mode = 3 }),
	rejectRing("value-of-a-copy", copies0+1, sValues,
		func(c []fbs.Command) { c[copies0+1].Mode = 1 }),
	rejectRing("value-of-a-compare", copies0+5, sValues,
		func(c []fbs.Command) { c[copies0+5].Mode = 1 }),
	rejectRing("two-values", copies0+9, sTwo,
		func(c []fbs.Command) { c[copies0+10].Mode = 1 }),
	rejectRing("two-offsets", copies0+9, sTwo,
		func(c []fbs.Command) { c[copies0+9].Mode = 2 }),
	rejectRing("offset-before-value", copies0+9, sTwo, func(c []fbs.Command) {
		c[copies0+9].Mode, c[copies0+10].Mode = 2, 1
	}),
	rejectRing("in-configuration-space", values0+7, sOffsets, func(c []fbs.Command) {
		c[values0+7].Mode = 2
		c[values0+8].Window, c[values0+8].Width, c[values0+8].Mask = 3, 1, 0xff
	}),

	rejectRing("offset-beyond-the-rule", frame0+1, sSameRule,
		func(c []fbs.Command) { c[frame0+2].Offset = 0xeb0 }),
	rejectRing("offset-partly-beyond-the-rule", frame0+4, sSameRule,
		func(c []fbs.Command) { c[frame0+5].Offset = 0xec8 }),
	rejectRing("offset-in-another-rule", ends0+1, sSameRule,
		func(c []fbs.Command) { c[ends0+2].Width, c[ends0+2].Offset = 4, 0x10 }),
	rejectRing("offset-beyond-the-window", wait0+2, sLargest,
		func(c []fbs.Command) { c[wait0+3].Offset = 0xff0 }),
	rejectRing("offset-beyond-32-bits", large0+1, sLargest, func(c []fbs.Command) {
		c[large0+1].Mode = 2
		c[large0+2].Width = 1
	}),
	rejectRing("offset-carries", large0+1, sLargest, func(c []fbs.Command) {
		c[large0+1].Mode, c[large0+1].Amount = 2, 32
		c[large0+2].Width, c[large0+2].Offset = 1, 1
	}),
	rejectRing("mask-with-offset", frame0+1, sMultiple,
		func(c []fbs.Command) { c[frame0+1].Mask = 1 }),
	rejectRing("datum-too-large", values0+1, sLargest,
		func(c []fbs.Command) { c[values0+2].Value = 0xfffd }),
	rejectRing("fill-too-large", values0+3, sLargest,
		func(c []fbs.Command) { c[values0+4].Value = 0xfd }),
	rejectRing("expect-too-large", values0+5, sLargest,
		func(c []fbs.Command) { c[values0+6].Value = 5 }),
	rejectRing("reached-too-large", values0+7, sLargest,
		func(c []fbs.Command) { c[values0+8].Value = 0xfffffffd }),
	rejectRing("value-carries-beyond-64-bits", large0+1, sLargest,
		func(c []fbs.Command) { c[large0+2].Value = 0xffff_ffff_ffff }),
	rejectRing("addend-beyond-the-window", copies0+9, sLargest,
		func(c []fbs.Command) { c[copies0+11].Value = 0xf00 }),
	rejectRing("expect-mask-with-gaps", values0+5, sFromBit0,
		func(c []fbs.Command) { c[values0+6].Mask = 0xf7 }),
	rejectRing("expect-mask-not-from-bit-0", wait0+1, sFromBit0,
		func(c []fbs.Command) { c[wait0+1].Amount = 0 }),
	rejectRing("parity-beyond-the-width", values0+1, sLapBits,
		func(c []fbs.Command) { c[values0+1].Mask = 0x10000 }),
	rejectRing("parity-beyond-the-fill", values0+3, sLapBits,
		func(c []fbs.Command) { c[values0+3].Mask = 0x100 }),
	rejectRing("parity-outside-the-mask", values0+5, sLapBits,
		func(c []fbs.Command) { c[values0+5].Mask = 8 }),
	rejectRing("parity-of-an-address", copies0+9, sLapBits,
		func(c []fbs.Command) { c[copies0+9].Mask = 1 }),
	rejectRing("width-of-the-changed-command", frame0+1, sLargest,
		func(c []fbs.Command) { c[frame0+2].Width = 3 }),
	rejectRing("no-width-of-the-changed-command", values0+1, sLargest,
		func(c []fbs.Command) { c[values0+2].Width = 0 }),
	rejectRing("window-of-the-changed-command", frame0+1, sLargest,
		func(c []fbs.Command) { c[frame0+2].Window = 4 }),
	of("rings-wormhole.lmb", reject("rings-without-a-point", "command 3", sLargest,
		func(f *file) { f.view.Commands[1] = fence })),
	of("rings-wormhole.lmb", reject("rings-before-a-point", "command 3", sNext,
		func(f *file) { f.view.Commands[4] = f.view.Commands[1] })),
}
