package main

// This file defines the vectors of scratch tensors.

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/tools/check/vectors/vector"
)

const (
	sScratch   = "*Scratch* carries a value that a run has loaded into a later store"
	sFirst     = "Scratch tensors come before all others, and take the first 4,096 bytes"
	sNoData    = "They have no data, and a caller can neither read nor write them."
	sOneAccess = "A CopyIn or a CopyOut of scratch has the mode Exact"
	sLoaded    = "Each byte that a CopyIn stores was loaded before"
	sUnwritten = "A Call makes all scratch unwritten."
)

// loaded answers the loads of scratch.lmb.
var loaded = machine{answers: []answer{
	first(1, bar0, 0x38, 0x44332211), always(bar0, 0x38, 0x55443322),
	always(bar0, 0x3c, 0x88776655), always(bar0, 0x1, 0x91), always(bar0, 0x2, 0xa2a1),
	always(bar0, 0x4, 0xb4b3b2b1), always(bar0, 0x8, 0xc8c7c6c5c4c3c2c1),
	always(vector.OfBar(1, 0), 0x3c, 0xd4d3d2d1), always(vector.OfHost(1), 0x8, 0xe4e3e2e1),
}}

// runsOfScratch lets a machine that answers with different values execute a sequence.
func runsOfScratch(sequence, sentence string) definition {
	return definition{name: "scratch-" + sequence, image: "scratch.lmb", runs: named(sequence),
		machine: loaded, want: "done", format: []string{sentence}}
}

// failsAfter is a run of main in which an access fails, or after which the device is gone.
func failsAfter(name, want string, failAt, goneAt int) definition {
	d := runsOfScratch("main", sScratch)
	d.name, d.want = "scratch-"+name, want
	d.failAt, d.goneAt = failAt, goneAt
	d.answers = []answer{always(bar0, 0x38, 0xffffffff)}
	return d
}

var scratch = []definition{
	runsOfScratch("main", sScratch), runsOfScratch("widths", sOneAccess),
	runsOfScratch("pieces", sLoaded), runsOfScratch("again", sLoaded),
	runsOfScratch("host", sLoaded), runsOfScratch("devices", sLoaded),
	runsOfScratch("last", sFirst), runsOfScratch("calls", sUnwritten),
	runsOfScratch("others", sScratch),
	{name: "scratch-of-two-runs", image: "scratch.lmb", runs: []run{{}, {sequence: "host"}, {}},
		machine: loaded, want: "done", format: []string{sScratch}},
	failsAfter("all-ones", "done", 0, 0),
	failsAfter("load-fails", "bus-fault command 0", 1, 0),
	failsAfter("store-fails", "bus-fault command 1", 2, 0),
	failsAfter("device-gone", "device-gone command 0", 0, 1),

	rejectScratch("never-loaded", 0, 1, sLoaded, func(c []fbs.Command) { c[0] = fence }),
	rejectScratch("loaded-later", 0, 0, sLoaded,
		func(c []fbs.Command) { c[0], c[1] = c[1], c[0] }),
	rejectScratch("loaded-elsewhere", 0, 1, sLoaded, func(c []fbs.Command) { c[1].Value = 4 }),
	rejectScratch("loaded-in-part", 0, 1, sLoaded,
		func(c []fbs.Command) { c[1].Width, c[1].Amount = 8, 8 }),
	rejectScratch("loaded-but-the-last-byte", 0, 1, sLoaded,
		func(c []fbs.Command) { c[1].Value = 1 }),
	rejectScratch("loaded-but-the-first-byte", 0, 1, sLoaded,
		func(c []fbs.Command) { c[0].Value = 1 }),
	rejectScratch("loaded-narrower", 0, 1, sLoaded,
		func(c []fbs.Command) { c[0].Width, c[0].Amount = 2, 2 }),
	rejectScratch("of-another-tensor", 0, 1, sLoaded, func(c []fbs.Command) { c[1].Index = 2 }),
	rejectScratch("of-another-device", 0, 1, sLoaded, func(c []fbs.Command) { c[1].Window = 2 }),
	rejectScratch("of-another-devices-memory", 4, 1, sLoaded,
		func(c []fbs.Command) { c[1].Window = 2 }),
	rejectScratch("partly-of-another-device", 5, 3, sLoaded, func(c []fbs.Command) {
		c[1].Value, c[1].Width, c[1].Amount = 2, 2, 2
		c[2] = fence
	}),
	rejectScratch("of-another-sequence", 3, 1, sLoaded, func(c []fbs.Command) { c[0] = fence }),
	rejectScratch("of-a-called-sequence", 7, 4, sUnwritten,
		func(c []fbs.Command) { c[3] = fence }),
	rejectScratch("of-before-a-call", 7, 4, sUnwritten, func(c []fbs.Command) {
		c[0].Value, c[1].Value, c[3].Value, c[4].Value = 8, 8, 4, 8
	}),
	rejectScratch("load-fixed", 0, 0, sOneAccess, func(c []fbs.Command) { c[0].Mode = 2 }),
	rejectScratch("store-fixed", 0, 1, sOneAccess, func(c []fbs.Command) { c[1].Mode = 2 }),
	rejectScratch("load-bulk", 4, 0, sOneAccess, func(c []fbs.Command) { c[0].Mode = 3 }),
	rejectScratch("store-bulk", 4, 3, sOneAccess, func(c []fbs.Command) { c[3].Mode = 3 }),
	rejectScratch("two-loads", 0, 0, sOneAccess, func(c []fbs.Command) { c[0].Amount = 8 }),
	rejectScratch("two-stores", 2, 2, sOneAccess, func(c []fbs.Command) { c[2].Width = 4 }),
	rejectScratch("no-bytes", 0, 0, sOneAccess, func(c []fbs.Command) { c[0].Amount = 0 }),
	rejectScratch("outside", 0, 0, sScratch, func(c []fbs.Command) { c[0].Value = 13 }),
	rejectScratch("far-outside", 0, 1, sScratch,
		func(c []fbs.Command) { c[1].Value = 1<<64 - 4 }),
	rejectScratch("compare", 0, 1, sScratch,
		func(c []fbs.Command) { c[1].Opcode, c[1].Mode, c[1].Option = opCompare, 0, 1 }),
	rejectScratch("into-an-input", 0, 0, sScratch, func(c []fbs.Command) { c[0].Index = 3 }),
	rejectScratch("from-an-output", 0, 1, sScratch, func(c []fbs.Command) { c[1].Index = 4 }),

	of("scratch.lmb", reject("scratch-of-4097-bytes", "tensor 1", sFirst, func(f *file) {
		t := &f.view.Tensors[1]
		t.Shape0, t.Size = 4033, 4033
	})),
	of("scratch.lmb", reject("scratch-with-data", "tensor 0", sNoData,
		func(f *file) { f.view.Tensors[0].HasData = 1 })),
	of("scratch.lmb", reject("scratch-after-an-input", "tensor 3", sFirst,
		func(f *file) { f.view.Tensors[3].Role = 3 })),
	of("scratch.lmb", reject("scratch-between", "tensor 1", sFirst,
		func(f *file) { f.view.Tensors[0].Role = 2 })),
}

var fence = fbs.Command{Opcode: opFence}

// rejectScratch defines a vector in which a change of the commands of a sequence makes a command of
// it invalid.
func rejectScratch(name string, sequence, command int, sentence string,
	change func([]fbs.Command)) definition {
	firsts := [...]int{0, 3, 12, 17, 23, 28, 33, 36, 42}
	first := firsts[sequence]
	return of("scratch.lmb", reject("scratch-"+name, fmt.Sprint("command ", first+command),
		sentence, func(f *file) { change(f.view.Commands[first:]) }))
}
