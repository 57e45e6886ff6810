package main

// This file defines the vectors whose images a reader executes.

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/vector"
)

// named runs one sequence by its name.
func named(sequence string) []run { return []run{{sequence: sequence}} }

var (
	bar0   = vector.OfBar(0, 0)
	bar2   = vector.OfBar(0, 2)
	config = vector.OfConfig(0)
)

// always returns an answer to all loads of a place.
func always(space vector.Space, offset, value uint64) answer {
	return answer{space: space, offset: offset, value: value}
}

// first returns an answer to the first loads of a place.
func first(times int, space vector.Space, offset, value uint64) answer {
	return answer{space: space, offset: offset, value: value, times: times}
}

// before returns an answer to loads of a place until a time.
func before(ns int64, space vector.Space, offset, value uint64) answer {
	return answer{space: space, offset: offset, value: value, until: ns}
}

// loads answers loads of different values at registers.
var loads = machine{answers: []answer{
	always(bar0, 0x1, 0x1), always(bar0, 0x2, 0x1ff), always(bar0, 0x4, 0x44434241),
	always(bar0, 0x8, 0x8877665544332211),
}}

// copied answers the loads of the sequence copy-out: of 1, 2, 4 and 8 bytes.
var copied = machine{answers: []answer{
	always(bar0, 0x1, 0x11), first(1, bar0, 0x2, 0x12), always(bar0, 0x3, 0x13),
	always(bar0, 0x2, 0x2221), first(1, bar0, 0x4, 0x2423),
	always(bar0, 0x4, 0x44434241), first(1, bar0, 0x8, 0x48474645),
	always(bar0, 0x8, 0x8877665544332211), always(bar0, 0x10, 0xffeeddccbbaa9988),
}}

// memory answers loads of the bytes of memory that commands.lms copies out.
var memory = machine{answers: byteAnswers()}

// byteAnswers returns answers for single bytes of ram and far.
func byteAnswers() (list []answer) {
	for i := range uint64(16) {
		list = append(list, always(bar0, 0x801+i, 0x20+i), always(bar2, 0x1003+i, 0x40+i))
	}
	return list
}

// fifo answers each load of a place with another value.
var fifo = machine{answers: []answer{
	first(1, bar0, 0x1, 0x1), first(1, bar0, 0x1, 0x2), first(1, bar0, 0x1, 0x3),
	first(1, bar0, 0x2, 0x1111), first(1, bar0, 0x2, 0x2222),
	first(1, bar0, 0x4, 0x33333333), first(1, bar0, 0x4, 0x44444444),
	first(1, bar0, 0x7f8, 0x5555555555555555), first(1, bar0, 0x7f8, 0x6666666666666666),
	first(1, bar0, 0x7f8, 0x7777777777777777),
}}

var commands = []definition{
	{name: "write", image: "commands.lmb", runs: named("write"), want: "done",
		format: []string{"**Write** stores its datum.",
			"Accesses are `width` bytes wide."}},
	{name: "modify", image: "commands.lmb", runs: named("modify"), want: "done", machine: loads,
		format: []string{"**Modify** loads, replaces the bits inside mask"}},
	{name: "copy-in-exact", image: "commands.lmb", runs: named("copy-exact"), want: "done",
		format: []string{"**CopyIn** stores bytes of the payload",
			"An Exact command and a Compare make `amount / width` accesses at rising offsets"}},
	{name: "copy-in-fixed", image: "commands.lmb", runs: named("copy-fixed"), want: "done",
		format: []string{
			"An Exact command and a Compare make `amount / width` accesses at rising offsets"}},
	{name: "copy-in-bulk", image: "commands.lmb", runs: named("copy-bulk"), want: "done",
		format: []string{"With Bulk the accessed range is memory"}},
	{name: "copy-in-default-data", image: "commands.lmb", runs: named("copy-input"),
		want:   "done",
		format: []string{"If `has_data` is 1, the payload has data for the tensor"}},
	{name: "copy-in-other-data", image: "commands.lmb", want: "done",
		runs: []run{{sequence: "copy-input", inputs: map[int][]byte{
			0: []byte("sixteen bytes...")}}},
		format: []string{"**CopyIn** stores bytes of the payload"}},
	{name: "fill", image: "commands.lmb", runs: named("fill"), want: "done",
		format: []string{"**CopyIn** stores bytes of the payload"}},
	{name: "copy-out-exact", image: "commands.lmb", runs: named("copy-out"), want: "done",
		machine: copied, format: []string{"**CopyIn** stores bytes of the payload"}},
	{name: "copy-out-fixed", image: "commands.lmb", runs: named("copy-out-fixed"), want: "done",
		machine: fifo, format: []string{"**CopyIn** stores bytes of the payload"}},
	{name: "copy-out-bulk", image: "commands.lmb", runs: named("copy-out-bulk"), want: "done",
		machine: memory, format: []string{"With Bulk the accessed range is memory"}},
	{name: "expect", image: "commands.lmb", runs: named("expect"), want: "done, ignored 1",
		machine: machine{answers: []answer{always(bar0, 0x1, 0x1), always(bar0, 0x2, 0x1ff),
			always(bar0, 0x4, 0x2), always(bar0, 0x8, 1<<63)}},
		format: []string{"An Expect with Equal holds if",
			"With Ignore, the run counts the failure and continues."}},
	{name: "config", image: "commands.lmb", runs: named("config"), want: "done",
		machine: machine{answers: []answer{first(1, config, 0, 0xffff),
			always(config, 0, 0x1ffff)}},
		format: []string{"A Config window is read-only, and accepts widths 1, 2 and 4."}},
	{name: "compare", image: "commands.lmb", runs: named("compare"), want: "done, ignored 1",
		machine: machine{answers: []answer{
			always(bar0, 0x1, 1), first(1, bar0, 0x2, 2), always(bar0, 0x2, 0x302),
			always(bar0, 0x3, 3), always(bar0, 0x4, 0x504),
			always(bar0, 0x804, 0x07060504), always(bar0, 0x808, 0x0b0a0908),
			always(vector.OfHost(4), 0x8, 0x0807060504030201),
			always(vector.OfHost(4), 0x10, 0x100f0e0d0c0b0a09),
			always(bar0, 0x10, 0x08070605), always(bar0, 0x20, 0x0201),
			always(bar0, 0x22, 0x0403), always(bar0, 0x24, 0x0606)}},
		format: []string{"**Compare** makes its loads in order",
			"A Compare ends at the first load that differs."}},
	{name: "fence", image: "commands.lmb", runs: named("fence"), want: "done",
		format: []string{"Every access before a Fence, to a device or to host memory",
			"A run executes the commands of one sequence in order."}},
	{name: "delay", image: "commands.lmb", runs: named("delay"), want: "done",
		machine: machine{elapsed: true},
		format:  []string{"**Delay** waits."}},
	{name: "call", image: "commands.lmb", runs: named("call"), want: "done",
		machine: machine{elapsed: true},
		format:  []string{"**Call** runs another sequence."}},
	{name: "several-runs", image: "commands.lmb", want: "done",
		runs: []run{{sequence: "write"}, {sequence: "nothing"}, {sequence: "write"}}},
	{name: "payload-in-segments", image: "segments.lmb", want: "done",
		format: []string{"A reference lies inside the payload, and may cross the end of a segment.",
			"The *payload* is the bytes of all segments in order"}},
	{name: "everything", image: "everything.lmb", want: "done, ignored 4",
		machine: machine{answers: []answer{always(bar0, 0x40, 0x1), always(bar0, 0x50, 0x1)},
			bus: []vector.Window{{Index: 3, Bus: 0x10000000}}, accessNs: 1000}},
}

// sReached is the beginning of a sentence of FORMAT.md.
const sReached = "An Expect with Reached holds if"

var polls = []definition{
	{name: "poll-at-once", image: "polls.lmb", runs: named("interval"), want: "done",
		machine: machine{answers: []answer{always(bar0, 0x10, 0x105)}},
		format:  []string{"A poll repeats the load until the condition holds"}},
	{name: "poll-interval", image: "polls.lmb", runs: named("interval"), want: "done",
		machine: machine{accessNs: 1000, elapsed: true, answers: []answer{
			first(4, bar0, 0x10, 0x4), always(bar0, 0x10, 0x5)}},
		format: []string{"Between two loads, a poll pauses for `interval`."}},
	{name: "poll-deadline", image: "polls.lmb", runs: named("interval"),
		want: "deadline-passed command 0", machine: machine{elapsed: true},
		format: []string{"A poll repeats the load until the condition holds",
			"A run ends if an Expect or a Compare with Fail does not hold"}},
	{name: "poll-load-after-deadline", image: "polls.lmb", runs: named("interval"), want: "done",
		machine: machine{lateNs: 5_000_000, answers: []answer{
			before(6_000_000-1_000_000, bar0, 0x10, 0x4), always(bar0, 0x10, 0x5)}},
		format: []string{"A poll repeats the load until the condition holds"}},
	{name: "poll-slow-load", image: "polls.lmb", runs: named("interval"), want: "done",
		machine: machine{accessNs: 3_000_000, answers: []answer{
			first(1, bar0, 0x10, 0x4), always(bar0, 0x10, 0x5)}},
		format: []string{"A poll repeats the load until the condition holds"}},
	{name: "poll-not-equal", image: "polls.lmb", runs: named("not-equal"), want: "done",
		machine: machine{accessNs: 10, answers: []answer{
			first(3, bar0, 0x10, 0x0), always(bar0, 0x10, 0x80000000)}},
		format: []string{"An Expect with NotEqual holds if"}},
	{name: "poll-without-interval", image: "polls.lmb", runs: named("adaptive"), want: "done",
		machine: machine{accessNs: 1000, answers: []answer{
			before(5_000_000, bar0, 0x10, 0x0), always(bar0, 0x10, 0x1)}},
		format: []string{"Without an interval, a poll pauses for at most 1/32"}},
	{name: "poll-without-interval-deadline", image: "polls.lmb", runs: named("adaptive"),
		want: "deadline-passed command 6",
		machine: machine{accessNs: 1000, answers: []answer{
			before(20_000_000, bar0, 0x10, 0x2)}},
		format: []string{"Without an interval, a poll pauses for at most 1/32"}},
	{name: "poll-ignored", image: "polls.lmb", runs: named("ignore"), want: "done, ignored 1",
		format: []string{"With Ignore, the run counts the failure and continues.",
			"A reader queries all devices of the image if an Expect"}},
	{name: "poll-widths", image: "polls.lmb", runs: named("widths"), want: "done",
		machine: machine{answers: []answer{first(1, bar0, 0x11, 0), always(bar0, 0x11, 1),
			first(1, bar0, 0x12, 0x101), always(bar0, 0x12, 1), first(1, bar0, 0x18, 1),
			always(bar0, 0x18, 0), first(1, vector.OfHost(2), 4, 0),
			always(vector.OfHost(2), 4, 1)}}},
	{name: "reached-exactly", image: "polls.lmb", runs: named("reached"), want: "done",
		machine: machine{answers: []answer{
			first(1, bar0, 0x10, 0xfffef), always(bar0, 0x10, 0xffff0),
			always(bar0, 0x18, 1<<63), always(bar0, 0x11, 1)}},
		format: []string{sReached}},
	{name: "reached-and-passed", image: "polls.lmb", runs: named("reached"),
		want: "done, ignored 1",
		machine: machine{answers: []answer{first(1, bar0, 0x10, 0x7ff0), always(bar0, 0x10, 0x7fef),
			always(bar0, 0x18, 1<<64-1), always(bar0, 0x11, 0)}},
		format: []string{sReached}},
	{name: "reached-from-0-again", image: "polls.lmb", runs: named("reached"),
		want:    "expect-failed command 24",
		machine: machine{answers: []answer{always(bar0, 0x10, 0x7), always(bar0, 0x18, 0)}},
		format:  []string{sReached}},
	{name: "not-reached", image: "polls.lmb", runs: named("reached"),
		want:    "deadline-passed command 23",
		machine: machine{answers: []answer{always(bar0, 0x10, 0xffef)}},
		format:  []string{sReached}},
	{name: "limit-reached", image: "polls.lmb", runs: named("long"), want: "done",
		machine: machine{limitUs: 5_000_005, elapsed: true}},
	{name: "limit-by-clock", image: "polls.lmb", runs: named("long"),
		want:    "frame-late command 17",
		machine: machine{limitUs: 5_000_005, lateNs: 10_000_000_000},
		format:  []string{"A reader also measures the time of a run"}},
	{name: "limit-of-poll-by-clock", image: "polls.lmb", runs: named("ignore"),
		want:    "frame-late command 9",
		machine: machine{limitUs: 5_000_005, lateNs: 10_000_000_000},
		format:  []string{"A reader also measures the time of a run"}},
	{name: "limit-too-short", image: "polls.lmb", want: "reject bad-image sequence 5",
		machine: machine{limitUs: 5_000_003},
		format:  []string{"At load, a reader rejects an image with a sequence"}},
}

var failures = []definition{
	{name: "expect-fails", image: "failing.lmb", runs: failing("main"),
		want:    "expect-failed command 1, safe done",
		machine: machine{answers: []answer{always(bar0, 0x10, 0x4)}},
		format: []string{"A run ends if an Expect or a Compare with Fail does not hold",
			"After a failed run, the sequence named `safe` runs",
			"A reader queries all devices of the image if an Expect"}},
	{name: "safe-fails", image: "failing.lmb", runs: failing("main"),
		want:    "expect-failed command 1, safe expect-failed",
		machine: machine{answers: []answer{always(bar0, 0x10, 0x6)}},
		format:  []string{"runs after `safe` until the image is loaded again"}},
	{name: "safe-runs-alone-and-fails", image: "failing.lmb", runs: failing("safe"),
		want:    "expect-failed command 34",
		machine: machine{answers: []answer{always(bar0, 0x10, 0x6)}},
		format:  []string{"runs after `safe` until the image is loaded again"}},
	{name: "nothing-runs-after-a-failure", image: "failing.lmb",
		runs: append(failing("main"), run{sequence: "quiet"}, run{sequence: "safe"}),
		want: "disabled", format: []string{"runs after `safe` until the image is loaded again"}},
	{name: "called-sequence-fails", image: "failing.lmb", runs: failing("caller"),
		want:    "expect-failed command 1, safe done",
		machine: machine{answers: []answer{always(bar0, 0x10, 0x4)}}},
	{name: "compare-fails", image: "failing.lmb", runs: failing("compare"),
		want: "compare-failed command 16, safe done",
		machine: machine{answers: []answer{always(bar0, 0x20, 1), always(bar0, 0x24, 0x102),
			always(bar0, 0x28, 3)}},
		format: []string{"A Compare ends at the first load that differs.",
			"A run ends if an Expect or a Compare with Fail does not hold"}},
	{name: "compare-with-input-fails", image: "failing.lmb",
		runs: []run{{sequence: "compare-input", inputs: map[int][]byte{0: []byte("abcdEFGH")}}},
		want: "compare-failed command 19, safe done",
		machine: machine{answers: []answer{always(bar0, 0x20, 0x64636261),
			always(bar0, 0x24, 0x48474665)}}},
	{name: "poll-fails", image: "failing.lmb", runs: failing("poll"),
		want:   "deadline-passed command 22, safe done",
		format: []string{"After a failed run, the sequence named `safe` runs"}},
	{name: "ignored-failures", image: "failing.lmb", runs: failing("ignore"),
		want:   "done, ignored 2",
		format: []string{"With Ignore, the run counts the failure and continues."}},
	{name: "failure-after-ignored-failures", image: "failing.lmb", runs: failing("ignore"),
		want: "bus-fault command 27, safe done, ignored 2", machine: machine{failAt: 3},
		format: []string{"With Ignore, the run counts the failure and continues."}},
	{name: "input-missing", image: "failing.lmb", runs: named("main"), want: "input-missing"},
	{name: "input-missing-then-set", image: "failing.lmb", want: "done",
		runs: []run{{sequence: "copy"}, failing("copy")[0]}},

	{name: "store-fails", image: "failing.lmb", runs: failing("main"),
		want: "bus-fault command 0, safe done", machine: machine{failAt: 1},
		format: []string{"A device fails if an access is answered with an error"}},
	{name: "load-fails", image: "failing.lmb", runs: failing("main"),
		want: "bus-fault command 1, safe done", machine: machine{failAt: 2},
		format: []string{"A device fails if an access is answered with an error"}},
	{name: "load-of-modify-fails", image: "failing.lmb", runs: failing("modify"),
		want: "bus-fault command 5, safe done", machine: machine{failAt: 2},
		format: []string{"A device fails if an access is answered with an error"}},
	{name: "store-of-modify-fails", image: "failing.lmb", runs: failing("modify"),
		want: "bus-fault command 5, safe done", machine: machine{failAt: 3},
		format: []string{"A device fails if an access is answered with an error"}},
	{name: "store-of-copy-fails", image: "failing.lmb", runs: failing("copy"),
		want: "bus-fault command 11, safe done", machine: machine{failAt: 2}},
	{name: "load-of-copy-fails", image: "failing.lmb", runs: failing("copy"),
		want: "bus-fault command 12, safe done", machine: machine{failAt: 4}},
	{name: "load-of-compare-fails", image: "failing.lmb", runs: failing("compare"),
		want: "bus-fault command 16, safe done", machine: machine{failAt: 3,
			answers: []answer{always(bar0, 0x20, 1)}}},
	{name: "load-of-poll-fails", image: "failing.lmb", runs: failing("poll"),
		want: "bus-fault command 22, safe done", machine: machine{failAt: 3}},
	{name: "store-of-safe-fails", image: "failing.lmb", runs: failing("main"),
		want: "expect-failed command 1, safe bus-fault", machine: machine{failAt: 3,
			answers: []answer{always(bar0, 0x10, 0x4)}}},

	{name: "device-gone-before-expect", image: "failing.lmb", runs: failing("main"),
		want:    "device-gone command 1, safe device-gone",
		machine: machine{goneAt: 1},
		format:  []string{"A reader queries the device if the load of a Modify"}},
	{name: "device-gone-before-modify", image: "failing.lmb", runs: failing("modify"),
		want:    "device-gone command 5, safe device-gone",
		machine: machine{goneAt: 1},
		format:  []string{"A reader queries the device if the load of a Modify"}},
	{name: "device-gone-before-compare", image: "failing.lmb", runs: failing("compare"),
		want:    "device-gone command 16, safe device-gone",
		machine: machine{goneAt: 1},
		format: []string{
			"A reader queries all devices of the image if an Expect"}},
	{name: "device-gone-in-copy-out", image: "failing.lmb", runs: failing("copy"),
		want:    "device-gone command 12, safe device-gone",
		machine: machine{goneAt: 4},
		format:  []string{"A reader queries the device if the load of a Modify"}},
	{name: "device-gone-in-poll", image: "failing.lmb", runs: failing("poll"),
		want:    "device-gone command 22, safe device-gone",
		machine: machine{goneAt: 3},
		format:  []string{"A reader queries the device if the load of a Modify"}},
	{name: "device-gone-with-ignore", image: "failing.lmb", runs: failing("ignore"),
		want:    "device-gone command 26, safe device-gone",
		machine: machine{goneAt: 1, answers: []answer{always(bar0, 0x10, 5)}},
		format: []string{
			"A reader queries all devices of the image if an Expect"}},
	{name: "device-gone-after-expect", image: "failing.lmb", runs: failing("main"),
		want:    "device-gone command 1, safe device-gone",
		machine: machine{goneAt: 2, answers: []answer{always(bar0, 0x10, 4)}},
		format: []string{
			"A reader queries all devices of the image if an Expect"}},
	{name: "all-ones-of-a-present-device", image: "failing.lmb", runs: failing("modify-byte"),
		want:    "done",
		machine: machine{answers: []answer{always(bar0, 0x10, 0xff)}},
		format:  []string{"A reader queries the device if the load of a Modify"}},
	{name: "all-ones-copied-from-a-present-device", image: "failing.lmb", runs: failing("copy"),
		want: "done",
		machine: machine{answers: []answer{always(bar0, 0x24, 0xffffffff),
			always(bar0, 0x28, 0xffffffff), always(bar0, 0x2c, 0xffffffff)}},
		format: []string{"A reader queries the device if the load of a Modify"}},
	{name: "discarded-store-goes-unnoticed", image: "commands.lmb", runs: named("fill"),
		want: "done", machine: machine{goneAt: 1},
		format: []string{"A reader queries the device if the load of a Modify"}},
	{name: "other-device-gone", image: "polls.lmb", runs: named("two"),
		want:    "device-gone command 20",
		machine: machine{goneAt: 1, goneDevice: 0},
		format: []string{
			"A reader queries all devices of the image if an Expect"}},
}

// failing runs a sequence of failing.lms, whose input has no default data.
func failing(sequence string) []run {
	return []run{{sequence: sequence, inputs: map[int][]byte{0: []byte("ABCDEFGH")}}}
}

var addresses = []definition{
	{name: "relocate", image: "relocate.lmb", want: "done",
		machine: machine{bus: []vector.Window{{Index: 1, Bus: 0x1_2345_6000},
			{Index: 2, Bus: 0x80_0000_1000}, {Index: 3, Bus: 0xffff_e000}}},
		format: []string{"Relocate** stores the bus address of the window plus the addend."}},
	{name: "relocate-does-not-fit", image: "relocate.lmb", want: "reject wrong-device command 2",
		machine: machine{bus: []vector.Window{{Index: 1, Bus: 0x1_2345_6000},
			{Index: 2, Bus: 0x80_0000_1000}, {Index: 3, Bus: 0xffff_fff8}}},
		format: []string{"An image is rejected at load if the sum of a Relocate does not fit"}},
	{name: "relocate-overflows", image: "relocate.lmb", want: "reject wrong-device command 3",
		machine: machine{bus: []vector.Window{{Index: 1, Bus: 0x1_2345_6000},
			{Index: 2, Bus: 0xffff_ffff_ffff_fff0}, {Index: 3, Bus: 0x1000}}},
		format: []string{"An image is rejected at load if the sum of a Relocate does not fit"}},
	{name: "relocate-without-bus-address", image: "relocate.lmb",
		want: "reject no-device command 3",
		machine: machine{bus: []vector.Window{{Index: 1, Bus: 0x1_2345_6000},
			{Index: 3, Bus: 0x1000}}},
		format: []string{"An image is rejected at load if the sum of a Relocate does not fit"}},

	{name: "wormhole-windows", image: "wormhole.lmb", want: "done",
		format: []string{"**Point** programs a Tlb window."}},
	{name: "wormhole-call", image: "wormhole.lmb", runs: named("call"), want: "done"},
	{name: "wormhole-fixed-windows", image: "wormhole.lmb", runs: named("fixed"), want: "done",
		machine: machine{answers: []answer{always(config, 0, 0x401e1e52)}},
		format:  []string{"If a reader knows a board with the PCI ids of the device"}},
	{name: "wormhole-cannot-use-channel", image: "wormhole.lmb",
		want: "reject refused command 4", change: func(f *file) {
			f.command(opPoint, 2).Mask |= 2 << 48
			f.stamp()
		},
		format: []string{"If the device cannot express the tile range, the image is rejected at " +
			"load."}},
	{name: "wormhole-cannot-reach-address", image: "wormhole.lmb",
		want: "reject refused command 0", change: func(f *file) {
			f.command(opPoint, 0).Value = 1 << 36
			f.stamp()
		},
		format: []string{"If the device cannot express the tile range, the image is rejected at " +
			"load."}},
	{name: "wormhole-cannot-reach-tile", image: "wormhole.lmb",
		want: "reject refused command 0", change: func(f *file) {
			f.command(opPoint, 0).Mask |= 64
			f.stamp()
		},
		format: []string{"If the device cannot express the tile range, the image is rejected at " +
			"load."}},
	{name: "blackhole-windows", image: "blackhole.lmb", want: "done",
		format: []string{"**Point** programs a Tlb window."}},
	{name: "blackhole-cannot-reach-tile", image: "blackhole.lmb",
		want: "reject refused command 0", change: func(f *file) {
			f.command(opPoint, 0).Mask |= 64 << 8
			f.stamp()
		}},
	{name: "wormhole-host-memory", image: "wormhole-host.lmb", want: "done",
		machine: machine{unloads: true, bus: []vector.Window{{Index: 3, Bus: 0x1_2345_6000},
			{Index: 4, Bus: 0x7000_0000}}},
		format: []string{"Relocate** stores the bus address of the window plus the addend.",
			"Tlb | device, 0"}},
	{name: "blackhole-host-memory", image: "blackhole-host.lmb", want: "done",
		machine: machine{unloads: true, bus: []vector.Window{{Index: 1, Bus: 0x12_3456_7000}}},
		format:  []string{"Relocate** stores the bus address of the window plus the addend."}},
	{name: "fixed-bus-addresses", image: "fixed.lmb", want: "done",
		machine: machine{unloads: true, bus: []vector.Window{{Index: 1, Bus: 0x20000000},
			{Index: 2, Bus: 0x10000000}, {Index: 3, Bus: 0x10002000}, {Index: 4, Bus: 0x30000000},
			{Index: 5, Bus: 0x40000000}}},
		format: []string{"exactly the fixed bus address",
			"A reader assigns fixed bus addresses",
			"On a device with tiles, the fixed bus address is the address"}},
	{name: "fixed-bus-address-not-available", image: "fixed.lmb",
		want: "reject no-device window 3",
		machine: machine{bus: []vector.Window{{Index: 1, Bus: 0x20000000},
			{Index: 2, Bus: 0x10000000}, {Index: 3, Bus: 0x10003000}, {Index: 4, Bus: 0x30000000},
			{Index: 5, Bus: 0x40000000}}},
		format: []string{"exactly the fixed bus address"}},
	{name: "fixed-bus-address-not-of-tiles", image: "fixed.lmb",
		want:   "reject no-device window 5",
		change: func(f *file) { f.view.Windows[5].Offset = 0x7_ffff_f000; f.stamp() },
		machine: machine{bus: []vector.Window{{Index: 2, Bus: 0x10000000},
			{Index: 3, Bus: 0x10002000}, {Index: 5, Bus: 0x7_ffff_f000}}},
		format: []string{"exactly the fixed bus address"}},
	{name: "fixed-bus-addresses-of-two-devices", image: "fixed.lmb",
		want:   "reject no-device window 5",
		change: func(f *file) { f.view.Windows[5].Offset = 0x1000; f.stamp() },
		machine: machine{bus: []vector.Window{{Index: 2, Bus: 0x10000000},
			{Index: 3, Bus: 0x10002000}, {Index: 5, Bus: 0x1000}}},
		format: []string{sInOrder}},
	{name: "wormhole-relocates-bar", image: "wormhole-host.lmb",
		want:    "reject usage command 1",
		machine: machine{bus: []vector.Window{{Index: 3, Bus: 0x1000}, {Index: 4, Bus: 0x2000}}},
		change: func(f *file) {
			w := &f.view.Windows[4]
			w.Kind, w.Bar, w.Offset, w.Size = kindBar, 0, 0x1fe80000, 4
			f.root().Reservation(nil).MutateHostBytes(8192)
			f.command(opRelocate, 0).Index, f.command(opRelocate, 0).Value = 4, 0
			f.command(opRelocate, 1).Index = 3
			f.stamp()
		}},
	{name: "no-tlb-window-is-large-enough", image: "wormhole-host.lmb",
		want: "reject no-device window 2",
		change: func(f *file) {
			f.view.Windows[2].Size = 32 << 20
			f.command(opPoint, 2).Value = 0
			f.stamp()
		},
		format: []string{"Tlb | device, 0"}},
	{name: "tlb-windows-only-outside-small-bar", image: "wormhole-host.lmb",
		want: "reject wrong-device device 0",
		machine: machine{devices: []vector.Device{{Vendor: 0x1e52, Device: 0x401e,
			Bars: [6]uint64{0: 256 << 20, 2: 1 << 20}}}}},
	{name: "device-without-tlb-windows", image: "boards.lmb",
		want: "reject wrong-device window 2",
		change: func(f *file) {
			w := &f.view.Windows[2]
			w.Kind, w.Flags, w.Bar, w.Offset = kindTlb, 0, 0, 0
			f.view.Commands[5] = fbs.Command{Opcode: opFence}
			f.view.Commands[6] = fbs.Command{Opcode: opFence}
			f.stamp()
		},
		format: []string{sNoTable}},
	{name: "rules-of-known-boards", image: "boards.lmb", want: "done",
		machine: machine{answers: []answer{always(bar0, 0, 0x0004000000000fff)}},
		format:  []string{"If a reader knows a board with the PCI ids of the device"}},

	{name: "msi-of-32-vectors", image: "minimal.lmb", want: "done",
		change: func(f *file) { vectors(gen.InterruptKindMsi, 32)(f); f.stamp() },
		format: []string{sVectors}},
	{name: "msix-of-2048-vectors", image: "minimal.lmb", want: "done",
		change: func(f *file) { vectors(gen.InterruptKindMsix, 2048)(f); f.stamp() },
		format: []string{sVectors}},
	{name: "other-vendor", image: "minimal.lmb", want: "reject wrong-device device 0",
		machine: machine{devices: []vector.Device{{Vendor: 0xfffe, Device: 1,
			Bars: [6]uint64{0: 16}}}}},
	{name: "other-device", image: "minimal.lmb", want: "reject wrong-device device 0",
		machine: machine{devices: []vector.Device{{Vendor: 0xffff, Device: 2,
			Bars: [6]uint64{0: 16}}}}},
	{name: "small-bar", image: "minimal.lmb", want: "reject wrong-device device 0",
		machine: machine{devices: []vector.Device{{Vendor: 0xffff, Device: 1,
			Bars: [6]uint64{0: 15}}}},
		format: []string{"`bar0` to `bar5` | the least size of each BAR"}},
	{name: "large-bar", image: "minimal.lmb", want: "done",
		machine: machine{devices: []vector.Device{{Vendor: 0xffff, Device: 1, Subsystem: 5,
			Bars: [6]uint64{0: 32, 1: 16}}}},
		format: []string{"`bar0` to `bar5` | the least size of each BAR",
			"`subsystem` | the u32 at 0x2c of configuration space"}},
	{name: "other-subsystem", image: "minimal.lmb", want: "reject wrong-device device 0",
		change: func(f *file) { f.view.Devices[0].Subsystem = 0x11001af4; f.stamp() },
		machine: machine{devices: []vector.Device{{Vendor: 0xffff, Device: 1,
			Subsystem: 0x11011af4, Bars: [6]uint64{0: 16}}}},
		format: []string{"`subsystem` | the u32 at 0x2c of configuration space"}},
	{name: "same-subsystem", image: "minimal.lmb", want: "done",
		change: func(f *file) { f.view.Devices[0].Subsystem = 0x11001af4; f.stamp() },
		machine: machine{devices: []vector.Device{{Vendor: 0xffff, Device: 1,
			Subsystem: 0x11001af4, Bars: [6]uint64{0: 16}}}},
		format: []string{"`subsystem` | the u32 at 0x2c of configuration space"}},
}
