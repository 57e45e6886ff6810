package main

// This file defines the vectors whose images a reader rejects, each with one changed field, and the
// vectors of images at the limits of what a reader accepts.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/vector"
	"lightmetal/tools/image/lmb"
)

var little = binary.LittleEndian

// reject defines a vector in which a change makes everything.lmb invalid at a place. The change
// leaves the checksum of the envelope right.
func reject(name, place, sentence string, change func(*file)) definition {
	return definition{name: name, image: "everything.lmb", want: "reject bad-image " + place,
		format: []string{sentence}, change: func(f *file) { change(f); f.stamp() }}
}

// raw is reject for changes of bytes outside the envelope, or that change the checksum itself.
func raw(name, place, sentence string, change func(*file)) definition {
	d := reject(name, place, sentence, change)
	d.change = change
	return d
}

// of returns d for another image.
func of(image string, d definition) definition {
	d.image = image
	return d
}

// commandOf changes the first command with an opcode.
func commandOf(opcode gen.Opcode, change func(*fbs.Command)) func(*file) {
	return func(f *file) { change(f.command(opcode, 0)) }
}

// root returns the accessors of the FlatBuffer.
func (f *file) root() *gen.Image { return gen.GetRootAsImage(f.data, 0) }

// reservation changes a field of the reservation.
func reservation(change func(*gen.Reservation)) func(*file) {
	return func(f *file) { change(f.root().Reservation(nil)) }
}

// vtable returns the position of the vtable.
func (f *file) vtable() uint32 {
	position := little.Uint32(f.data)
	return position - little.Uint32(f.data[position:])
}

// field returns the position of a field of the root table.
func (f *file) field(id uint32) uint32 {
	return little.Uint32(f.data) + uint32(little.Uint16(f.data[f.vtable()+4+2*id:]))
}

// vectorOf returns the position of the number of elements of a vector.
func (f *file) vectorOf(id uint32) uint32 {
	return f.field(id) + little.Uint32(f.data[f.field(id):])
}

// setCount changes the number of elements of a vector.
func setCount(id, count uint32) func(*file) {
	return func(f *file) { little.PutUint32(f.data[f.vectorOf(id):], count) }
}

// removeField makes a field of the root table absent.
func removeField(id uint32) func(*file) {
	return func(f *file) { little.PutUint16(f.data[f.vtable()+4+2*id:], 0) }
}

// Numbers of the fields of table Image.
const (
	fieldReservation = iota
	fieldDevices
	fieldWindows
	fieldSequences
	fieldTensors
	fieldSegments
	fieldCommands
	fieldText
	fieldNotes
	fieldRules
	fieldRings
)

// rename replaces the first characters of the name of rule 1, "doorbells".
func rename(name string) func(*file) {
	return func(f *file) { copy(f.view.NameBytes(f.view.Rules[1].Name), name) }
}

// renameSequence replaces the first characters of the name of sequence 2, "last".
func renameSequence(name string) func(*file) {
	return func(f *file) { copy(f.view.NameBytes(f.view.Sequences[2].Name), name) }
}

// hidden has the first and the last character of each range that names must not contain.
var hidden = [][2]rune{{0, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c},
	{0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},
	{0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
	{0xfff0, 0xfffb}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
	{0xe0000, 0xe0fff}}

// hiddenNames defines vectors with a name that has the first or the last character of a range.
func hiddenNames() (list []definition) {
	for _, r := range hidden {
		for _, c := range r {
			d := reject(fmt.Sprintf("name-with-%04x", c), "rule 1", sPlain, rename(string(c)))
			if len(list) == 0 || list[len(list)-1].name != d.name {
				list = append(list, d)
			}
		}
	}
	return list
}

// namesBetween defines vectors with a name that has the characters on both sides of a range.
func namesBetween() (list []definition) {
	for _, r := range hidden {
		name := string(max(r[0]-1, ' ')) + string(r[1]+1)
		list = append(list, accept(fmt.Sprintf("name-beside-%04x", r[0]), sPlain, rename(name)))
	}
	return list
}

// relocateTo makes command 3 of everything.lmb store the bus address of byte `addend` of window 5,
// after it has set this window to a range of a BAR of device 1, a Wormhole.
func relocateTo(bar uint8, offset, size, addend uint64) func(*file) {
	return func(f *file) {
		w, c := &f.view.Windows[5], f.command(opRelocate, 0)
		w.Bar, w.Offset, w.Size = bar, offset, size
		c.Index, c.Value = 5, addend
	}
}

// relocateOwn makes command 3 of relocate.lmb store the bus address of a range of BAR 1 of device
// 1, which has one rule, for the bytes first to last.
func relocateOwn(first, last, offset, size, addend uint64) func(*file) {
	return func(f *file) {
		w, r := &f.view.Windows[2], &f.view.Rules[1]
		w.Offset, w.Size, r.First, r.Last = offset, size, first, last
		f.command(opRelocate, 3).Value = addend
	}
}

// relocateBoard makes command 4 of boards.lmb store the bus address of a window.
func relocateBoard(window uint16) func(*file) {
	return func(f *file) {
		c := f.command(opWrite, 3)
		c.Opcode, c.Index, c.Value = opRelocate, window, 0
	}
}

// Beginnings of sentences of FORMAT.md that several vectors show.
const (
	sPreamble = "Check the preamble: the size of the file"
	sFlat     = "The table `Image`, its vtable and its vectors lie inside the envelope"
	sObjects  = "The table, its vtable and its vectors are aligned as FlatBuffers requires"
	sCounts   = "The length of a vector equals its count in `reservation`."
	sTables   = "Check the elements of the tables devices, rules, windows"
	sName     = "A name selects 1 to 255 bytes of the vector `text`"
	sPlain    = "Names are UTF-8 (RFC 3629)"
	sSafe     = "The name of a sequence has only the characters"
	sReserved = "Fields called `reserved` are zero."
	sSegments = "The size of every segment but the last is a multiple of 4096."
	sFew      = "windows, tensors, sequences, segments | 4,096 of each"
	sTiB      = "size and offset of a tensor or a segment | 64 TiB"
	sRule     = "`device` is an index into `devices`. "
	sRange    = "The bytes `first` to `last` of a rule lie inside BAR number `bar`"
	sWidths   = "`widths` is the sum of the accepted widths"
	sAligned  = "`first` and `last + 1` of a rule are multiples of its least width."
	sSorted   = "Rules are sorted by `device`"
	sKnown    = "An image that has rules for a device with a known board is rejected."
	sOwnRules = "For a device without a known board, the image's `rules` apply."
	sEmpty    = "A field of a command that the table leaves empty is zero."
	sInside   = "All accessed bytes lie inside the window"
	sWidth    = "Without Bulk, three numbers are multiples of `width`"
	sOneRule  = "In a Bar window, one rule (section 3) contains"
	sBulk     = "Bulk needs a rule with `memory` 1 that accepts every width."
	sStores   = "Write, Modify, Relocate, CopyIn and Fill need a rule that accepts stores"
	sConfig   = "A Config window is read-only"
	sBus      = "The addend is smaller than the size of a Bar window"
	sPages    = "In a BAR, each byte of each page of 4096 bytes that the window touches"
	sPacked   = "A packed tile range has one byte for each field"
	sOrdering = "`ordering` | 1 default, 2 strict, 3 posted"
	sStart    = "`x_start`, `y_start` | 0 without multicast"
	sClosed   = "A Point is rejected if one element of the list contains the route"
	sMemory   = "The range of `amount` bytes that starts at offset `value` lies inside"
	sModes    = "The modes of CopyIn, Fill and CopyOut are Exact 1"
	sOfExpect = "The modes of an Expect are Equal 1, NotEqual 2 and Reached 3."
	sDatum    = "Datum, mask and addend have no bits above `width` bytes."
	sMask     = "The `value` of a Modify or an Expect has no bits outside `mask`."
	sFollow   = "Sequences follow each other in the vector of commands without a gap"
	sLast     = "The last command of each sequence is End, and no other command is End."
	sPoint    = "A sequence points each Tlb window (command Point)"
	sCall     = "A sequence that contains a Call is not called by any sequence."
	sTensor   = "A tensor has `dims` dimensions, 0 to 8"
	sSize     = "The size of a tensor in bytes is the product of the shape"
	sArena    = "The `arena_offset` of each further tensor is"
	sVectors  = "`interrupts`, `vectors` | kind and number"
	sRole     = "The `role` of a tensor is Input, Output or Scratch."
	sData     = "If `has_data` is 0, `data_offset` is 0."
	sHasData  = "If `has_data` is 1, the payload has data for the tensor"
	sHost     = "`reservation.host_bytes` is the sum of the sizes of Host windows"
	sPayload  = "`reservation.payload_bytes` is the sum of the sizes"
	sArenaSum = "`reservation.arena_bytes` is the first multiple of 64"
	sFlags    = "In `flags`, value 1 (bit 0) requests a write-combining mapping"
	sFixed    = "A fixed bus address is not 0, and is a multiple of 4096."
	sInOrder  = "The windows of one device with fixed bus addresses are sorted"
	sCounter  = "With Reached, `mask` is exactly 2^n - 1"
	sOneByte  = "Every window has at least 1 byte."
	sChecksum = "If the checksum of the envelope is wrong, a reader reports"
	sStep6    = "Check the checksum of the envelope, then the place of the payload"
	sNothing  = "Nothing else follows, except for a signature"
	sSum      = "CRC-32C of bytes 12 to 127 of the signature"
	sAbsent   = "`reservation` and the vectors `devices`, `windows`"
	sPolicy   = "The options are Fail 1 and Ignore 2."
	sNoTable  = "A device without a known board has no list of forbidden ranges"
)

// alsoShown has further sentences that vectors show, by the name of the vector.
var alsoShown = map[string][]string{
	"poll-deadline":     {"The deadline of a poll counts from the end of the first load"},
	"blackhole-windows": {"To program a window through registers"},
	"unchanged":         {"All integers are little endian"},
	"checksum-of-envelope": {"CRC-32C of the envelope",
		"CRC-32C is the CRC of Castagnoli"},
	"checksum-before-command":   {"A reader uses nothing of the envelope until"},
	"payload-in-segments":       {"References may overlap or be equal"},
	"no-devices":                {"A required vector is not empty."},
	"reservation-of-commands":   {"Check the lengths of the vectors that `reservation` counts"},
	"no-rule":                   {sOneRule},
	"width-not-of-the-rule":     {sOwnRules},
	"two-rules":                 {sOneRule},
	"window-with-flag-4":        {"All other bits of `flags` are zero."},
	"fixed-bus-of-a-bar-window": {"In `flags`, value 2 (bit 1) requests the fixed bus address"},
	"tensor-with-dimension-0":   {"these are not zero, and all other shape fields"},
	"tensor-misplaced":          {"A tensor lies in the arena at its `arena_offset`"},
	"point-at-pcie-tile": {"A board has a list of forbidden ranges",
		"Each element of the list has sets of"},
	"fence": {"Each command is complete before the next begins",
		"Every access before a Fence, to a device or to host memory"},
	"preamble-schema": {"The schema hash is computed from the lines of"},
	"fixed-copy-longer-than-its-window": {"All other commands access the `width` bytes",
		"A Fixed command makes `amount / width` accesses, all at `offset`."},
	"outside-window":            {"An Exact or Bulk command and a Compare access the `amount`"},
	"outside-window-by-width":   {"All other commands access the `width` bytes"},
	"write":                     {"All accesses of a Write, Modify, Relocate or Expect are at"},
	"device-gone-before-expect": {"To find out whether a device is gone, a reader"},
	"relocate-of-tlb-window":    {"A Relocate stores the bus address of a Bar or a Host window"},
	"relocate-of-config-window": {"A Relocate stores the bus address of a Bar or a Host window"},
	"missing-tensor":            {"A *memory* is the payload if `index` is 0"},
	"call":                      {"**End** ends the sequence."},
	"limit-equals-longest-time": {"each | 1", "each access | 1", "Point | 4",
		"Modify, Expect, CopyOut | 10", "Expect | its deadline", "Delay | its time"},
	"store-to-load-only-range": {"rules that accept only loads (`LoadOnly`)"},
}

var rejected = concat(preambles, flatBuffers, hiddenNames(), tables, shapes, checksums)

func concat(lists ...[]definition) (all []definition) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// put16, put32 and put64 change bytes of the file.
func put16(at int, value uint16) func(*file) {
	return func(f *file) { little.PutUint16(f.data[at:], value) }
}

func put64(at int, value uint64) func(*file) {
	return func(f *file) { little.PutUint64(f.data[at:], value) }
}

// resize cuts the file, or extends it with zeros.
func resize(difference int) func(*file) {
	return func(f *file) {
		size := len(f.data) + difference
		f.data = append(f.data[:min(size, len(f.data)):min(size, len(f.data))],
			make([]byte, max(0, difference))...)
	}
}

// vectors declares interrupt vectors of device 0.
func vectors(kind gen.InterruptKind, count uint16) func(*file) {
	return func(f *file) {
		f.view.Devices[0].Interrupts, f.view.Devices[0].Vectors = kind, count
	}
}

// preambles are rejected in step 1 of section 1.2.
var preambles = []definition{
	raw("preamble-identifier", "preamble", "`LMB1`",
		func(f *file) { f.data[4] = 'l' }),
	raw("preamble-major-2", "preamble", "A reader rejects every other major version", put16(8, 2)),
	raw("preamble-major-4", "preamble", "A reader rejects every other major version", put16(8, 4)),
	raw("preamble-minor", "preamble", "A reader rejects a larger minor version", put16(10, 1)),
	raw("preamble-schema", "preamble", "the first 8 bytes of the SHA-256",
		func(f *file) { f.data[23] ^= 0x80 }),
	raw("preamble-file-bytes", "preamble", "size of the whole file, without a signature",
		func(f *file) { f.data[24]++ }),
	raw("preamble-envelope-over-file", "preamble", "size of the envelope, from byte 0",
		func(f *file) { little.PutUint64(f.data[32:], uint64(len(f.data)+1)) }),
	raw("preamble-envelope-under-preamble", "preamble", "size of the envelope, from byte 0",
		put64(32, 71)),
	raw("preamble-reserved-first", "preamble", "reserved | zero",
		func(f *file) { f.data[40] = 1 }),
	raw("preamble-reserved-last", "preamble", "reserved | zero",
		func(f *file) { f.data[71] = 1 }),
	raw("file-of-71-bytes", "preamble", sPreamble, func(f *file) { f.data = f.data[:71] }),
	raw("file-of-one-byte", "preamble", sPreamble, func(f *file) { f.data = f.data[:1] }),
	raw("file-cut", "preamble", sPreamble, resize(-1)),
	raw("file-extended", "preamble", sNothing, resize(1)),
	raw("preamble-before-checksum", "preamble", sChecksum,
		func(f *file) { f.data[40], f.data[100] = 1, f.data[100]^1 }),
}

// flatBuffers are rejected in steps 2 and 3 of section 1.2.
var flatBuffers = []definition{
	reject("envelope-without-a-table", "flatbuffer", sFlat, put64(32, 72)),
	reject("root-in-preamble", "flatbuffer", "the first FlatBuffers object",
		func(f *file) { little.PutUint32(f.data, 68) }),
	reject("root-outside-envelope", "flatbuffer", sFlat,
		func(f *file) { little.PutUint32(f.data, uint32(len(f.view.Envelope))) }),
	reject("root-misaligned", "flatbuffer", sObjects,
		func(f *file) { little.PutUint32(f.data, little.Uint32(f.data)+2) }),
	reject("vtable-in-preamble", "flatbuffer", sFlat, func(f *file) {
		position := little.Uint32(f.data)
		little.PutUint32(f.data[position:], position-70)
	}),
	reject("vtable-outside-envelope", "flatbuffer", sFlat, func(f *file) {
		little.PutUint32(f.data[little.Uint32(f.data):], 0x80000000)
	}),
	reject("vtable-misaligned", "flatbuffer", sObjects, func(f *file) {
		position := little.Uint32(f.data)
		little.PutUint32(f.data[position:], little.Uint32(f.data[position:])+1)
	}),
	reject("vtable-too-small", "flatbuffer", sFlat,
		func(f *file) { little.PutUint16(f.data[f.vtable():], 2) }),
	reject("vtable-of-an-odd-size", "flatbuffer", sFlat,
		func(f *file) { little.PutUint16(f.data[f.vtable():], 5) }),
	reject("vtable-with-a-field-too-many", "flatbuffer", "The vtable has no entries beyond",
		func(f *file) { little.PutUint16(f.data[f.vtable():], 4+2*12) }),
	reject("table-too-small", "flatbuffer", sFlat,
		func(f *file) { little.PutUint16(f.data[f.vtable()+2:], 3) }),
	reject("table-outside-envelope", "flatbuffer", sFlat,
		func(f *file) { little.PutUint16(f.data[f.vtable()+2:], 0xfffc) }),
	reject("field-before-table", "flatbuffer", sFlat,
		func(f *file) { little.PutUint16(f.data[f.vtable()+4:], 3) }),
	reject("field-outside-table", "flatbuffer", sFlat, func(f *file) {
		size := little.Uint16(f.data[f.vtable()+2:])
		little.PutUint16(f.data[f.vtable()+4+2*fieldNotes:], size-3)
	}),
	reject("reservation-misaligned", "flatbuffer", sObjects, func(f *file) {
		at := f.data[f.vtable()+4:]
		little.PutUint16(at, little.Uint16(at)+4)
	}),
	reject("vector-outside-envelope", "flatbuffer", sFlat,
		func(f *file) { little.PutUint32(f.data[f.field(fieldText):], 0x7fffffff) }),
	reject("vector-misaligned", "flatbuffer", sObjects, func(f *file) {
		at := f.data[f.field(fieldText):]
		little.PutUint32(at, little.Uint32(at)+2)
	}),
	reject("elements-misaligned", "flatbuffer", sObjects, func(f *file) {
		at := f.data[f.field(fieldCommands):]
		little.PutUint32(at, little.Uint32(at)-4)
		little.PutUint32(f.data[f.vectorOf(fieldCommands):], 1)
	}),
	reject("notes-misaligned", "flatbuffer", sObjects, func(f *file) {
		at := f.data[f.field(fieldNotes):]
		little.PutUint32(at, little.Uint32(at)-4)
		little.PutUint32(f.data[f.vectorOf(fieldNotes):], 1)
	}),
	reject("elements-outside-envelope", "flatbuffer", sFlat, setCount(fieldCommands, 0x100000)),
	reject("too-many-devices", "flatbuffer", "devices | 8", setCount(fieldDevices, 9)),
	reject("too-many-windows", "flatbuffer", sFew, setCount(fieldWindows, 4097)),
	reject("too-many-sequences", "flatbuffer", sFew, setCount(fieldSequences, 4097)),
	reject("too-many-tensors", "flatbuffer", sFew, setCount(fieldTensors, 4097)),
	reject("too-many-segments", "flatbuffer", sFew, setCount(fieldSegments, 4097)),
	reject("too-many-commands", "flatbuffer", "commands | 16,777,216",
		setCount(fieldCommands, 1<<24+1)),
	reject("too-much-text", "flatbuffer", "text | 16 MiB", setCount(fieldText, 1<<24+1)),
	reject("too-many-notes", "flatbuffer", "notes | 256 MiB", setCount(fieldNotes, 1<<28+1)),
	reject("too-many-rules", "flatbuffer", "rules | 256", setCount(fieldRules, 257)),

	reject("no-reservation", "counts", sAbsent, removeField(fieldReservation)),
	reject("no-devices", "counts", sAbsent, removeField(fieldDevices)),
	reject("no-windows", "counts", sAbsent, removeField(fieldWindows)),
	reject("no-sequences", "counts", sAbsent, removeField(fieldSequences)),
	reject("no-commands", "counts", sAbsent, removeField(fieldCommands)),
	reject("zero-commands", "counts", sAbsent, func(f *file) {
		setCount(fieldCommands, 0)(f)
		f.root().Reservation(nil).MutateCommands(0)
	}),
	reject("reservation-of-commands", "counts", sCounts,
		reservation(func(r *gen.Reservation) { r.MutateCommands(r.Commands() + 1) })),
	reject("reservation-of-windows", "counts", sCounts,
		reservation(func(r *gen.Reservation) { r.MutateWindows(r.Windows() - 1) })),
	reject("reservation-of-tensors", "counts", sCounts,
		reservation(func(r *gen.Reservation) { r.MutateTensors(0) })),
	reject("reservation-of-sequences", "counts", sCounts,
		reservation(func(r *gen.Reservation) { r.MutateSequences(1) })),
	reject("reservation-of-segments", "counts", sCounts,
		reservation(func(r *gen.Reservation) { r.MutateSegments(2) })),
	reject("reservation-of-devices", "counts", sCounts,
		reservation(func(r *gen.Reservation) { r.MutateDevices(3) })),
	reject("counts-before-elements", "counts", sCounts, func(f *file) {
		f.view.Devices[0].Reserved = 1
		f.root().Reservation(nil).MutateTensors(77)
	}),
}

// tables are rejected in step 4 of section 1.2.
var tables = []definition{
	reject("device-reserved", "device 0", sReserved,
		func(f *file) { f.view.Devices[0].Reserved = 1 }),
	reject("device-without-name", "device 1", sName,
		func(f *file) { f.view.Devices[1].Board &^= 0xff }),
	reject("name-outside-text", "device 1", sName,
		func(f *file) { f.view.Devices[1].Board = uint32(len(f.view.Text)-1)<<8 | 2 }),
	reject("name-overlong-2", "rule 1", sPlain, rename("\xc1\xbfst")),
	reject("name-overlong-3", "rule 1", sPlain, rename("\xe0\x9f\xbft")),
	reject("name-overlong-4", "rule 1", sPlain, rename("\xf0\x8f\xbf\xbf")),
	reject("name-with-surrogate", "rule 1", sPlain, rename("\xed\xa0\x80t")),
	reject("name-over-unicode", "rule 1", sPlain, rename("\xf4\x90\x80\x80")),
	reject("name-with-cut-character", "rule 1", sPlain, rename("las\xc3")),
	reject("name-with-wrong-continuation", "rule 1", sPlain, rename("l\xc3\x28t")),
	reject("name-with-stray-continuation", "rule 1", sPlain, rename("la\x80t")),
	reject("sequence-with-blank", "sequence 2", sSafe, renameSequence("l st")),
	reject("sequence-with-delete", "sequence 2", sSafe, renameSequence("las\x7f")),
	reject("sequence-with-a-visible-character", "sequence 2", sSafe, renameSequence("l\u00e9t")),
	reject("sequence-with-an-invisible-character", "sequence 2", sSafe, renameSequence("\u200bt")),
	reject("board-with-line-feed", "device 0", sPlain,
		func(f *file) { f.view.NameBytes(f.view.Devices[0].Board)[1] = '\n' }),
	reject("name-of-rule-with-line-feed", "rule 1", sPlain,
		func(f *file) { f.view.NameBytes(f.view.Rules[1].Name)[1] = '\n' }),
	reject("name-of-tensor-with-line-feed", "tensor 0", sPlain,
		func(f *file) { f.view.NameBytes(f.view.Tensors[0].Name)[0] = '\n' }),

	reject("rule-of-missing-device", "rule 0", sRule,
		func(f *file) { f.view.Rules[0].Device = 2 }),
	reject("rule-of-known-board", "rule 2", sKnown,
		func(f *file) { f.view.Rules[2].Device, f.view.Rules[2].Bar = 1, 4 }),
	reject("rule-of-bar-6", "rule 2", sRange, func(f *file) { f.view.Rules[2].Bar = 6 }),
	reject("rule-of-absent-bar", "rule 2", sRange, func(f *file) { f.view.Rules[2].Bar = 5 }),
	reject("rule-outside-bar", "rule 2", sRange, func(f *file) { f.view.Rules[2].Last = 8192 }),
	reject("rule-far-outside-bar", "rule 2", sRange,
		func(f *file) { f.view.Rules[2].Last = 1<<64 - 1 }),
	reject("rule-backwards", "rule 1", sRange,
		func(f *file) { f.view.Rules[1].First = f.view.Rules[1].Last + 1 }),
	reject("rule-without-widths", "rule 1", sWidths,
		func(f *file) { f.view.Rules[1].Widths = 0 }),
	reject("rule-with-width-16", "rule 1", sWidths,
		func(f *file) { f.view.Rules[1].Widths = 4 | 16 }),
	reject("rule-with-memory-2", "rule 2", "`memory` is 0 or 1.",
		func(f *file) { f.view.Rules[2].Memory = 2 }),
	reject("rule-begins-in-an-access", "rule 1", sAligned,
		func(f *file) { f.view.Rules[1].First += 2 }),
	reject("rule-ends-in-an-access", "rule 1", sAligned,
		func(f *file) { f.view.Rules[1].Last -= 1 }),
	reject("rules-overlap", "rule 1", sSorted,
		func(f *file) { f.view.Rules[0].Last += 4 }),
	reject("rules-overlap-by-a-byte", "rule 1", sSorted, func(f *file) {
		r := f.view.Rules
		r[0].Widths, r[1].Widths, r[1].First = 15, 15, r[0].Last
	}),
	reject("rules-unsorted", "rule 1", sSorted, func(f *file) {
		r := f.view.Rules
		r[0], r[1] = r[1], r[0]
	}),
	reject("rules-unsorted-by-bar", "rule 1", sSorted, func(f *file) {
		r := f.view.Rules
		r[0], r[2] = r[2], r[0]
	}),
	reject("rule-without-name", "rule 1", "Each rule has a name.",
		func(f *file) { f.view.Rules[1].Name = 0 }),

	reject("window-of-kind-0", "window 0", "Bar | device, BAR 0..5",
		func(f *file) { f.view.Windows[0].Kind = 0 }),
	reject("window-of-kind-5", "window 0", "Bar | device, BAR 0..5",
		func(f *file) { f.view.Windows[0].Kind = 5 }),
	reject("window-of-missing-device", "window 0", "Bar | device, BAR 0..5",
		func(f *file) { f.view.Windows[0].Device = 2 }),
	reject("window-of-bar-6", "window 0", "Bar | device, BAR 0..5",
		func(f *file) { f.view.Windows[0].Bar = 6 }),
	reject("window-of-absent-bar", "window 0", "Bar | device, BAR 0..5",
		func(f *file) { f.view.Windows[0].Bar = 1 }),
	reject("window-outside-bar", "window 0", "Bar | device, BAR 0..5",
		func(f *file) { f.view.Windows[0].Offset = 1 }),
	reject("window-far-outside-bar", "window 0", "Bar | device, BAR 0..5",
		func(f *file) { f.view.Windows[0].Offset = 1<<64 - 4096 }),
	reject("window-without-bytes", "window 1", sOneByte,
		func(f *file) { f.view.Windows[1].Size = 0 }),
	reject("window-over-4-gib", "window 3", "size of a window | 4 GiB",
		func(f *file) { f.view.Windows[3].Size = 1<<32 + 1 }),
	reject("window-with-flag-4", "window 1", sFlags,
		func(f *file) { f.view.Windows[1].Flags = 4 }),
	reject("fixed-bus-of-a-bar-window", "window 1", sFlags,
		func(f *file) { f.view.Windows[1].Flags = 2 }),
	reject("fixed-bus-of-a-tlb-window", "window 2", sFlags,
		func(f *file) { f.view.Windows[2].Flags = 2 }),
	reject("fixed-bus-0", "window 3", sFixed, func(f *file) { f.view.Windows[3].Flags = 2 }),
	reject("fixed-bus-misaligned", "window 3", sFixed, func(f *file) {
		f.view.Windows[3].Flags, f.view.Windows[3].Offset = 2, 0x10000800
	}),
	reject("fixed-bus-beyond-the-last-address", "window 3",
		"A window with a fixed bus address, its size rounded up to a multiple of 4096",
		func(f *file) {
			f.view.Windows[3].Flags, f.view.Windows[3].Offset = 2, 1<<64-4096
		}),
	reject("fixed-bus-up-to-the-last-address", "window 3",
		"A window with a fixed bus address, its size rounded up to a multiple of 4096",
		func(f *file) {
			f.view.Windows[3].Flags, f.view.Windows[3].Offset = 2, 1<<64-8192
		}),
	of("fixed.lmb", reject("fixed-buses-overlap", "window 3", sInOrder,
		func(f *file) { f.view.Windows[3].Offset = 0x10001000 })),
	of("fixed.lmb", reject("fixed-buses-unsorted", "window 3", sInOrder,
		func(f *file) { f.view.Windows[3].Offset = 0x1000 })),
	reject("window-reserved", "window 1", sReserved,
		func(f *file) { f.view.Windows[1].Reserved = 0x100 }),
	reject("bar-window-with-slot", "window 1", "Bar | device, BAR 0..5",
		func(f *file) { f.view.Windows[1].Slot = 0 }),
	reject("host-window-with-slot", "window 3", "Host | device, 0",
		func(f *file) { f.view.Windows[3].Slot = 0 }),
	reject("host-window-with-offset", "window 3", "Host | device, 0",
		func(f *file) { f.view.Windows[3].Offset = 4096 }),
	reject("host-window-with-bar", "window 3", "Host | device, 0",
		func(f *file) { f.view.Windows[3].Bar = 1 }),
	reject("tlb-window-with-offset", "window 2", "Tlb | device, 0",
		func(f *file) { f.view.Windows[2].Offset = 1 }),
	reject("tlb-window-with-bar", "window 2", "Tlb | device, 0",
		func(f *file) { f.view.Windows[2].Bar = 4 }),
	reject("tlb-window-of-odd-size", "window 2", "Tlb | device, 0",
		func(f *file) { f.view.Windows[2].Size = 3 << 18 }),
	reject("config-window-of-512-bytes", "window 4", "Config | device, 0",
		func(f *file) { f.view.Windows[4].Size = 512 }),
	reject("config-window-with-offset", "window 4", "Config | device, 0",
		func(f *file) { f.view.Windows[4].Offset = 4 }),

	reject("sequence-begins-late", "sequence 1", sFollow,
		func(f *file) { f.view.Sequences[1].First++ }),
	reject("sequence-begins-early", "sequence 1", sFollow,
		func(f *file) { f.view.Sequences[1].First-- }),
	reject("sequence-without-commands", "sequence 1", sFollow,
		func(f *file) { f.view.Sequences[1].Count = 0 }),
	reject("sequence-outside-commands", "sequence 2", sFollow,
		func(f *file) { f.view.Sequences[2].Count++ }),
	reject("sequence-of-4294967295-commands", "sequence 1", sFollow,
		func(f *file) { f.view.Sequences[1].Count = 1<<32 - 1 }),
	reject("commands-without-sequence", "sequence 2", sFollow, func(f *file) {
		s := &f.view.Sequences[2]
		f.view.Commands[s.First].Opcode, f.view.Commands[s.First] = opEnd, fbs.Command{
			Opcode: opEnd}
		s.Count = 1
	}),
	reject("sequence-without-end", "sequence 1",
		"If the last command of a sequence is not End, a reader reports",
		func(f *file) {
			s := &f.view.Sequences[1]
			f.view.Commands[s.First+s.Count-1].Opcode = opFence
		}),
	reject("sequence-without-name", "sequence 0", sName,
		func(f *file) { f.view.Sequences[0].Name = 0 }),

	reject("segment-of-no-bytes", "segment 0", "Each segment has a checksum",
		func(f *file) { f.view.Segments[0].Size = 0 }),
	reject("segment-over-64-tib", "segment 0", sTiB,
		func(f *file) { f.view.Segments[0].Size = 1<<46 + 1 }),
	reject("segment-misplaced", "segment 0", "segments[0].offset",
		func(f *file) { f.view.Segments[0].Offset += 4096 }),
	reject("segment-far-away", "segment 0", sTiB,
		func(f *file) { f.view.Segments[0].Offset = 1<<46 + 4096 }),
	reject("segment-reserved", "segment 0", sReserved,
		func(f *file) { f.view.Segments[0].Reserved = 1 }),
	of("segments.lmb", reject("segment-of-part-of-a-page", "segment 1", sSegments,
		func(f *file) { f.view.Segments[1].Size-- })),
	of("segments.lmb", reject("segment-gap", "segment 2", "segment n: each starts at the end",
		func(f *file) { f.view.Segments[2].Offset += 4096 })),

	reject("vectors-without-a-kind", "device 0", sVectors,
		func(f *file) { f.view.Devices[0].Vectors = 1 }),
	reject("msi-without-vectors", "device 0", sVectors,
		func(f *file) { f.view.Devices[0].Interrupts = gen.InterruptKindMsi }),
	reject("msi-of-3-vectors", "device 0", sVectors, vectors(gen.InterruptKindMsi, 3)),
	reject("msi-of-64-vectors", "device 0", sVectors, vectors(gen.InterruptKindMsi, 64)),
	reject("msix-of-2049-vectors", "device 0", sVectors, vectors(gen.InterruptKindMsix, 2049)),
	reject("vectors-of-kind-3", "device 0", sVectors, vectors(3, 1)),

	reject("tensor-without-name", "tensor 0", sName, func(f *file) { f.view.Tensors[0].Name = 0 }),
	reject("tensor-without-role", "tensor 1", sRole, func(f *file) { f.view.Tensors[1].Role = 0 }),
	reject("tensor-of-role-4", "tensor 1", sRole, func(f *file) { f.view.Tensors[1].Role = 4 }),
	reject("tensor-of-type-0", "tensor 1", sSize, func(f *file) { f.view.Tensors[1].Dtype = 0 }),
	reject("tensor-of-type-13", "tensor 1", sSize, func(f *file) { f.view.Tensors[1].Dtype = 13 }),
	reject("tensor-of-9-dimensions", "tensor 1", sTensor,
		func(f *file) { f.view.Tensors[1].Dims = 9 }),
	reject("tensor-with-dimension-0", "tensor 0", sTensor,
		func(f *file) { f.view.Tensors[0].Shape0 = 0 }),
	reject("tensor-with-a-dimension-too-many", "tensor 0", sTensor,
		func(f *file) { f.view.Tensors[0].Shape2 = 1 }),
	reject("tensor-with-an-unused-dimension-8", "tensor 0", sTensor,
		func(f *file) { f.view.Tensors[0].Shape7 = 1 }),
	reject("tensor-over-64-tib", "tensor 1", sTiB, func(f *file) {
		t := &f.view.Tensors[1]
		t.Dims, t.Shape0, t.Shape1, t.Size = 2, 1<<24, 1<<21, 1<<47
	}),
	reject("tensor-size-overflows", "tensor 1", sTiB, func(f *file) {
		t := &f.view.Tensors[1]
		t.Dims, t.Shape0, t.Shape1 = 2, 1<<31, 1<<31
	}),
	reject("tensor-of-another-size", "tensor 1", sSize,
		func(f *file) { f.view.Tensors[1].Size = 16 }),
	reject("tensor-misplaced", "tensor 1", sArena,
		func(f *file) { f.view.Tensors[1].ArenaOffset = 128 }),
	reject("first-tensor-not-at-0", "tensor 0", sArena,
		func(f *file) { f.view.Tensors[0].ArenaOffset = 64 }),
	reject("tensor-with-has-data-2", "tensor 1", sHasData,
		func(f *file) { f.view.Tensors[1].HasData = 2 }),
	reject("tensor-with-offset-of-no-data", "tensor 1", sData,
		func(f *file) { f.view.Tensors[1].DataOffset = 1 }),
	reject("tensor-data-outside-payload", "tensor 2", sHasData,
		func(f *file) { f.view.Tensors[2].DataOffset = f.view.Reservation.PayloadBytes }),
	reject("tensor-data-far-outside-payload", "tensor 2", sHasData,
		func(f *file) { f.view.Tensors[2].DataOffset = 1<<64 - 1 }),

	reject("sum-of-host-bytes", "sums", sHost,
		reservation(func(r *gen.Reservation) { r.MutateHostBytes(5000) })),
	reject("sum-of-payload-bytes", "sums", sPayload,
		reservation(func(r *gen.Reservation) { r.MutatePayloadBytes(r.PayloadBytes() + 1) })),
	reject("sum-of-arena-bytes", "sums", sArenaSum,
		reservation(func(r *gen.Reservation) { r.MutateArenaBytes(0) })),
}

// shapes are rejected in step 5 of section 1.2.
var shapes = concat(unusedFields(), []definition{
	reject("opcode-0", "command 0", "A field of a command that the table leaves empty is zero.",
		commandOf(opWrite, func(c *fbs.Command) { c.Opcode = 0 })),
	reject("opcode-14", "command 0", "A field of a command that the table leaves empty is zero.",
		commandOf(opWrite, func(c *fbs.Command) { c.Opcode = 14 })),
	reject("end-in-a-sequence", "command 13", sLast,
		commandOf(opFence, func(c *fbs.Command) { c.Opcode = opEnd })),
	reject("width-0", "command 0", "1 | Write | write", commandOf(opWrite,
		func(c *fbs.Command) { c.Width = 0 })),
	reject("width-3", "command 0", "1 | Write | write", commandOf(opWrite,
		func(c *fbs.Command) { c.Width = 3 })),
	reject("width-16", "command 0", "1 | Write | write", commandOf(opWrite,
		func(c *fbs.Command) { c.Width = 16 })),
	reject("width-3-of-memory-with-all-widths", "command 0", "1 | Write | write",
		commandOf(opWrite, func(c *fbs.Command) { c.Width, c.Window, c.Offset = 3, 1, 0 })),
	reject("relocate-of-width-2", "command 3", "3 | Relocate | relocate", func(f *file) {
		c := f.command(opRelocate, 0)
		c.Width, c.Window, c.Offset, c.Value = 2, 1, 0, 0
	}),
	reject("missing-window", "command 0", "1 | Write | write",
		commandOf(opWrite, func(c *fbs.Command) { c.Window = 7 })),
	reject("missing-window-65535", "command 11", "9 | Point | point",
		commandOf(opPoint, func(c *fbs.Command) { c.Window = 0xffff })),
	reject("write-to-config", "command 0", sConfig, commandOf(opWrite,
		func(c *fbs.Command) { c.Window, c.Width = 4, 4 })),
	reject("modify-of-config", "command 2", sConfig,
		commandOf(opModify, func(c *fbs.Command) { c.Window = 4 })),
	reject("relocate-to-config", "command 3", sConfig, commandOf(opRelocate,
		func(c *fbs.Command) { c.Window, c.Width, c.Offset = 4, 4, 0x10 })),
	reject("copy-to-config", "command 4", sConfig,
		commandOf(opCopyIn, func(c *fbs.Command) { c.Window = 4 })),
	reject("fill-of-config", "command 6", sConfig,
		commandOf(opFill, func(c *fbs.Command) { c.Window = 4 })),
	reject("copy-from-config", "command 7", sConfig,
		commandOf(opCopyOut, func(c *fbs.Command) { c.Window = 4 })),
	reject("compare-with-config", "command 10", sConfig,
		commandOf(opCompare, func(c *fbs.Command) { c.Window = 4 })),
	reject("config-of-width-8", "command 16", sConfig, func(f *file) {
		c := f.command(opExpect, 2)
		c.Width, c.Offset = 8, 0
	}),

	reject("mode-0-of-copy-in", "command 4", sModes,
		commandOf(opCopyIn, func(c *fbs.Command) { c.Mode = 0 })),
	reject("mode-4-of-copy-in", "command 4", sModes,
		commandOf(opCopyIn, func(c *fbs.Command) { c.Mode = 4 })),
	reject("mode-0-of-fill", "command 6", sModes,
		commandOf(opFill, func(c *fbs.Command) { c.Mode = 0 })),
	reject("bulk-fill", "command 6", "5 | Fill | fill",
		commandOf(opFill, func(c *fbs.Command) { c.Mode, c.Window = 3, 1 })),
	reject("mode-4-of-copy-out", "command 7", sModes,
		commandOf(opCopyOut, func(c *fbs.Command) { c.Mode = 4 })),
	reject("mode-0-of-expect", "command 8", sOfExpect,
		commandOf(opExpect, func(c *fbs.Command) { c.Mode = 0 })),
	reject("mode-4-of-expect", "command 8", sOfExpect,
		commandOf(opExpect, func(c *fbs.Command) { c.Mode = 4 })),
	reject("reached-without-mask", "command 8", sCounter,
		commandOf(opExpect, func(c *fbs.Command) { c.Mode, c.Mask, c.Value = 3, 0, 0 })),
	reject("reached-with-a-gap-in-the-mask", "command 8", sCounter,
		commandOf(opExpect, func(c *fbs.Command) { c.Mode = 3 })),
	reject("reached-with-a-mask-that-begins-late", "command 8", sCounter,
		commandOf(opExpect, func(c *fbs.Command) { c.Mode, c.Mask, c.Value = 3, 0xe, 0 })),
	reject("mode-255-of-expect", "command 8", sOfExpect,
		commandOf(opExpect, func(c *fbs.Command) { c.Mode = 255 })),
	reject("option-0-of-expect", "command 8", sPolicy,
		commandOf(opExpect, func(c *fbs.Command) { c.Option = 0 })),
	reject("option-3-of-expect", "command 8", sPolicy,
		commandOf(opExpect, func(c *fbs.Command) { c.Option = 3 })),
	reject("option-0-of-compare", "command 10", sPolicy,
		commandOf(opCompare, func(c *fbs.Command) { c.Option = 0 })),
	reject("option-3-of-compare", "command 10", sPolicy,
		commandOf(opCompare, func(c *fbs.Command) { c.Option = 3 })),

	reject("copy-of-no-bytes", "command 4", "`bytes` is not 0.",
		commandOf(opCopyIn, func(c *fbs.Command) { c.Amount = 0 })),
	reject("fill-of-no-bytes", "command 6", "`bytes` is not 0.",
		commandOf(opFill, func(c *fbs.Command) { c.Amount = 0 })),
	reject("copy-out-of-no-bytes", "command 7", "`bytes` is not 0.",
		commandOf(opCopyOut, func(c *fbs.Command) { c.Amount = 0 })),
	reject("compare-of-no-bytes", "command 10", "`bytes` is not 0.",
		commandOf(opCompare, func(c *fbs.Command) { c.Amount = 0 })),
	reject("copy-in-of-part-of-an-access", "command 4", sWidth,
		commandOf(opCopyIn, func(c *fbs.Command) { c.Amount = 6 })),
	reject("fixed-copy-of-part-of-an-access", "command 4", sWidth,
		commandOf(opCopyIn, func(c *fbs.Command) { c.Mode, c.Amount = 2, 6 })),
	reject("fill-of-part-of-an-access", "command 6", sWidth,
		commandOf(opFill, func(c *fbs.Command) { c.Amount = 6 })),
	reject("copy-out-of-part-of-an-access", "command 7", sWidth,
		commandOf(opCopyOut, func(c *fbs.Command) { c.Amount = 6 })),
	reject("compare-of-part-of-an-access", "command 10", sWidth,
		commandOf(opCompare, func(c *fbs.Command) { c.Amount = 6 })),
	reject("offset-misaligned", "command 0", sWidth,
		commandOf(opWrite, func(c *fbs.Command) { c.Offset = 2 })),
	reject("window-misaligned", "command 17", sWidth, func(f *file) {
		f.view.Windows[6].Offset++
		f.view.Windows[6].Size--
		c := f.command(opCopyOut, 1)
		*c = fbs.Command{Opcode: opWrite, Width: 2, Window: 6}
	}),
	reject("interval-without-deadline", "command 9",
		"7 | Expect | expect", func(f *file) { f.command(opExpect, 1).Amount = 0 }),
	reject("delay-of-0", "command 14", "11 | Delay | delay",
		commandOf(opDelay, func(c *fbs.Command) { c.Amount = 0 })),
	reject("delay-over-10-s", "command 14", "11 | Delay | delay",
		commandOf(opDelay, func(c *fbs.Command) { c.Amount = 10_000_001 })),
	reject("call-of-missing-sequence", "command 15", "12 | Call | call",
		commandOf(opCall, func(c *fbs.Command) { c.Index = 3 })),
	reject("call-of-itself", "sequence 0", sCall,
		commandOf(opCall, func(c *fbs.Command) { c.Index = 0 })),
	reject("calls-nest", "sequence 1", sCall, func(f *file) {
		first := f.view.Sequences[1].First
		f.view.Commands[first] = fbs.Command{Opcode: opCall, Index: 2}
	}),

	reject("write-too-wide-a-value", "command 0", sDatum,
		commandOf(opWrite, func(c *fbs.Command) { c.Value = 1 << 32 })),
	reject("fill-too-wide-a-value", "command 6", sDatum,
		commandOf(opFill, func(c *fbs.Command) { c.Value = 1 << 32 })),
	reject("modify-too-wide-a-mask", "command 2", sDatum,
		commandOf(opModify, func(c *fbs.Command) { c.Mask |= 1 << 32 })),
	reject("expect-too-wide-a-mask", "command 8", sDatum,
		commandOf(opExpect, func(c *fbs.Command) { c.Mask |= 1 << 32 })),
	reject("relocate-too-wide-an-addend", "command 3", sDatum, func(f *file) {
		f.view.Windows[3].Size = 1 << 32
		f.root().Reservation(nil).MutateHostBytes(1 << 32)
		c := f.command(opRelocate, 0)
		c.Width, c.Value = 4, 1<<32
	}),
	reject("modify-value-outside-mask", "command 2", sMask,
		commandOf(opModify, func(c *fbs.Command) { c.Value = 0x105 })),
	reject("modify-without-mask", "command 2", "2 | Modify | modify",
		commandOf(opModify, func(c *fbs.Command) { c.Mask, c.Value = 0, 0 })),
	reject("expect-value-outside-mask", "command 8", sMask,
		commandOf(opExpect, func(c *fbs.Command) { c.Value = 0x11 })),

	reject("outside-window", "command 5", sInside, func(f *file) {
		f.view.Windows[1].Size = 12
	}),
	reject("outside-window-by-offset", "command 0", sInside,
		commandOf(opWrite, func(c *fbs.Command) { c.Offset = 4096 })),
	reject("outside-window-by-far", "command 5", sInside, func(f *file) {
		f.command(opCopyIn, 1).Offset = 1<<32 - 1
	}),
	reject("outside-window-by-width", "command 12", sInside, func(f *file) {
		f.view.Windows[2].Size = 4
		c := f.command(opWrite, 2)
		c.Width = 8
	}),
	reject("outside-host-window", "command 0", sInside,
		commandOf(opWrite, func(c *fbs.Command) { c.Window, c.Offset = 3, 5000 })),
	reject("no-rule", "command 0", sOneRule,
		commandOf(opWrite, func(c *fbs.Command) { c.Offset = 0xc00 })),
	reject("rules-are-absent", "command 0", sOneRule, removeField(fieldRules)),
	reject("two-rules", "command 6", sOneRule,
		commandOf(opFill, func(c *fbs.Command) { c.Offset = 0x7fc })),
	reject("last-byte-outside-rule", "command 5", sOneRule, func(f *file) {
		f.view.Rules[2].Last = 8190
		f.command(opCopyIn, 1).Offset = 8192 - 12
	}),
	reject("width-not-of-the-rule", "command 0", sOneRule,
		commandOf(opWrite, func(c *fbs.Command) { c.Width = 8; c.Offset = 0 })),
	reject("bulk-to-registers", "command 4", sBulk,
		commandOf(opCopyIn, func(c *fbs.Command) { c.Mode = 3 })),
	reject("bulk-to-memory-without-width-1", "command 5", sBulk,
		func(f *file) { f.view.Rules[2].Widths = 14 }),
	reject("write-combining-registers", "command 0", "A write-combining window (flag 1)",
		func(f *file) { f.view.Windows[0].Flags = 1 }),
	reject("store-to-load-only-range", "command 0", sStores,
		commandOf(opWrite, func(c *fbs.Command) { c.Window = 5 })),
	reject("modify-of-load-only-range", "command 2", sStores,
		commandOf(opModify, func(c *fbs.Command) { c.Window = 5 })),
	reject("relocate-to-load-only-range", "command 3", sStores,
		commandOf(opRelocate, func(c *fbs.Command) { c.Window = 5 })),
	reject("copy-to-load-only-range", "command 4", sStores,
		commandOf(opCopyIn, func(c *fbs.Command) { c.Window = 5 })),
	reject("fill-of-load-only-range", "command 6", sStores,
		commandOf(opFill, func(c *fbs.Command) { c.Window = 5 })),
	of("fixed.lmb", reject("store-to-the-iatu", "command 0", sStores, func(f *file) {
		w := &f.view.Windows[0]
		w.Device, w.Bar, w.Offset = 1, 2, 0x1200
		f.view.Commands[0] = fbs.Command{Opcode: opWrite, Width: 4, Offset: 8}
	})),
	of("boards.lmb", reject("width-not-of-the-board", "command 3", sOneRule,
		func(f *file) { f.command(opWrite, 2).Width = 8; f.command(opWrite, 2).Offset = 8 })),
	of("boards.lmb", reject("range-not-of-the-board", "command 1", sOneRule,
		func(f *file) { f.command(opWrite, 0).Offset = 0x18 })),

	reject("payload-outside", "command 4", sMemory, func(f *file) {
		f.command(opCopyIn, 0).Value = f.view.Reservation.PayloadBytes - 7
	}),
	reject("payload-far-outside", "command 4", sMemory,
		commandOf(opCopyIn, func(c *fbs.Command) { c.Value = 1<<64 - 4 })),
	of("relocate.lmb", reject("payload-of-an-image-without-any", "command 0", sMemory,
		func(f *file) {
			f.view.Commands[0] = fbs.Command{Opcode: opCopyIn, Width: 4, Mode: 1, Amount: 4}
		})),
	reject("missing-tensor", "command 5", sMemory,
		func(f *file) { f.command(opCopyIn, 1).Index = 4 }),
	reject("copy-in-of-an-output", "command 5", "4 | CopyIn | copy in",
		func(f *file) { f.command(opCopyIn, 1).Index = 2 }),
	reject("outside-tensor", "command 5", sMemory,
		func(f *file) { f.command(opCopyIn, 1).Value = 1 }),
	reject("copy-out-to-payload", "command 7", "6 | CopyOut | copy out",
		commandOf(opCopyOut, func(c *fbs.Command) { c.Index = 0 })),
	reject("copy-out-to-an-input", "command 7", "6 | CopyOut | copy out",
		commandOf(opCopyOut, func(c *fbs.Command) { c.Index = 1 })),
	reject("copy-out-outside-tensor", "command 7", sMemory,
		commandOf(opCopyOut, func(c *fbs.Command) { c.Value = 4 })),
	reject("compare-with-an-output", "command 10", "8 | Compare | compare",
		commandOf(opCompare, func(c *fbs.Command) { c.Index = 2 })),
	reject("compare-outside-payload", "command 10", sMemory, func(f *file) {
		f.command(opCompare, 0).Value = f.view.Reservation.PayloadBytes
	}),

	reject("relocate-of-missing-window", "command 3", "3 | Relocate | relocate",
		commandOf(opRelocate, func(c *fbs.Command) { c.Index = 7 })),
	reject("relocate-of-tlb-window", "command 3", sBus,
		commandOf(opRelocate, func(c *fbs.Command) { c.Index, c.Value = 2, 0 })),
	reject("relocate-of-config-window", "command 3", sBus,
		commandOf(opRelocate, func(c *fbs.Command) { c.Index, c.Value = 4, 0 })),
	reject("relocate-behind-window", "command 3", sBus,
		commandOf(opRelocate, func(c *fbs.Command) { c.Value = 5001 })),
	of("relocate.lmb", reject("relocate-to-the-end-of-a-bar-window", "command 3", sBus,
		relocateOwn(0, 0x1fff, 0x1000, 0x1000, 0x1000))),
	of("relocate.lmb", reject("relocate-of-a-page-that-starts-without-rule", "command 3", sPages,
		relocateOwn(0x1008, 0x1fff, 0x1800, 8, 0))),
	of("relocate.lmb", reject("relocate-of-a-page-that-ends-without-rule", "command 3", sPages,
		relocateOwn(0x1000, 0x1ffe, 0x1800, 8, 0))),
	of("relocate.lmb", reject("relocate-of-two-pages-the-first-closed", "command 3", sPages,
		relocateOwn(0x1000, 0x1fff, 0xff8, 0x10, 0))),
	of("relocate.lmb", reject("relocate-of-two-pages-the-second-closed", "command 3", sPages,
		relocateOwn(0, 0x17ff, 0xff8, 0x10, 0))),
	of("relocate.lmb", reject("relocate-without-rule", "command 3", sPages,
		relocateOwn(0, 0xfff, 0x1000, 0x1000, 0))),
	reject("relocate-of-a-page-with-a-gap", "command 3", sPages, func(f *file) {
		c := f.command(opRelocate, 0)
		c.Index, c.Value = 0, 0
	}),
	reject("relocate-of-load-only-window", "command 3", sPages, relocateTo(0, 0, 4096, 0)),
	reject("relocate-beside-a-load-only-register", "command 3", sPages,
		relocateTo(0, 0x1ff30000, 0x78, 0)),
	reject("relocate-across-a-page-with-a-load-only-register", "command 3", sPages,
		relocateTo(0, 0x1ff30ff8, 0x10, 0)),
	reject("relocate-of-unlisted-registers", "command 3", sPages,
		relocateTo(0, 0x1ff40000, 0x1000, 0)),
	of("boards.lmb", reject("relocate-of-a-page-with-a-reserved-register", "command 4", sPages,
		relocateBoard(0))),
	of("boards.lmb", reject("relocate-of-a-page-behind-its-bar", "command 4", sPages,
		func(f *file) {
			relocateBoard(2)(f)
			f.view.Devices[2].Bar2, f.view.Windows[2].Size = 0x3ff800, 0x800
		})),

	reject("access-before-point", "command 0", sPoint,
		commandOf(opWrite, func(c *fbs.Command) { c.Window = 2 })),
	reject("access-after-call", "command 16", sPoint, func(f *file) {
		c := f.command(opExpect, 2)
		c.Window = 2
	}),
	reject("access-in-another-sequence", "command 20", sPoint, func(f *file) {
		f.view.Commands[f.view.Sequences[1].First].Window = 2
	}),
	reject("point-of-bar-window", "command 11", "9 | Point | point",
		commandOf(opPoint, func(c *fbs.Command) { c.Window = 0 })),
	reject("point-at-misaligned-address", "command 11",
		"The address of a Point is a multiple of the window's size.",
		commandOf(opPoint, func(c *fbs.Command) { c.Value = 1 << 19 })),
	reject("point-over-noc-2", "command 11", "`noc` | 0 or 1", tilesOf(4, 2)),
	reject("point-with-ordering-0", "command 11", sOrdering, tilesOf(5, 0)),
	reject("point-with-ordering-4", "command 11", sOrdering, tilesOf(5, 4)),
	reject("point-with-channel-9", "command 11", "`static_vc` | 0: no static", tilesOf(6, 9)),
	reject("point-with-multicast-2", "command 11", "`multicast` | 0", tilesOf(7, 2)),
	reject("unicast-with-x-start", "command 11", sStart, tilesOf(2, 1)),
	reject("unicast-with-y-start", "command 11", sStart, tilesOf(3, 1)),
	reject("point-at-pcie-tile", "command 11", sClosed, point(0, 3, 0, 0, 0, false)),
	reject("point-at-pcie-tile-over-noc-1", "command 11", sClosed, point(9, 8, 0, 0, 1, false)),
	reject("point-at-pcie-tile-translated", "command 11", sClosed, point(16, 20, 0, 0, 0, false)),
	reject("multicast-to-the-last-tile", "command 11", sClosed, point(9, 11, 0, 0, 0, true)),
	reject("point-at-arc-windows", "command 11", sClosed, func(f *file) {
		point(0, 10, 0, 0, 0, false)(f)
		f.command(opPoint, 0).Value = 0x8_9000_0000
	}),
	reject("point-before-arc-windows", "command 11", sClosed, func(f *file) {
		point(0, 10, 0, 0, 0, false)(f)
		f.command(opPoint, 0).Value = 0x8_8000_0000
	}),
	reject("point-at-last-arc-windows", "command 11", sClosed, func(f *file) {
		point(0, 10, 0, 0, 0, false)(f)
		f.command(opPoint, 0).Value = 0x8_a000_0000
	}),
	reject("multicast-over-column-0", "command 11", sClosed, point(4, 4, 0, 1, 0, true)),
	reject("multicast-around-the-edge", "command 11",
		"A multicast Point has the x coordinates `x_start` to `x`",
		point(2, 4, 5, 1, 0, true)),
	reject("multicast-over-noc-1", "command 11", sClosed, point(9, 4, 8, 1, 1, true)),
	of("blackhole.lmb", reject("blackhole-pcie-tile", "command 0", sClosed,
		point(2, 0, 0, 0, 0, false))),
	of("blackhole.lmb", reject("blackhole-second-pcie-tile", "command 0", sClosed,
		point(11, 0, 0, 0, 0, false))),
	of("blackhole.lmb", reject("blackhole-pcie-tile-translated", "command 0", sClosed,
		point(19, 24, 0, 0, 0, false))),
	of("blackhole.lmb", reject("blackhole-pcie-tile-over-noc-1", "command 0", sClosed,
		point(14, 11, 0, 0, 1, false))),
	of("blackhole.lmb", reject("blackhole-multicast", "command 0", sClosed,
		point(16, 11, 0, 0, 0, true))),
	of("blackhole.lmb", reject("blackhole-arc-windows", "command 0", sClosed, func(f *file) {
		point(8, 0, 0, 0, 0, false)(f)
		f.command(opPoint, 0).Value = 0xce00_0000
	})),
	of("blackhole.lmb", reject("blackhole-multicast-over-noc-1", "command 0", sClosed,
		point(7, 11, 1, 2, 1, true))),

	{name: "longest-time-of-calls", image: "everything.lmb", want: "reject bad-image sequence 0",
		machine: machine{limitUs: everythingUs - 1},
		format: []string{"At load, a reader rejects an image with a sequence",
			"Expect and Compare with Ignore"}},
})

// everythingUs is the longest time of sequence 0 of everything.lmb in microseconds, added up by
// hand from the table in FORMAT.md section 6.3. The image has two devices.
const everythingUs = 3*2 + // Write
	(1 + 2 + 10) + // Modify
	2 + // Relocate
	(1 + 2) + (1 + 2) + // CopyIn: 8 bytes in 2 accesses, 12 in 2
	(1 + 4) + (1 + 4) + // Fill
	(1 + 3 + 10) + (1 + 1 + 10) + // CopyOut
	(1 + 1 + 10 + 20) + (1 + 1 + 10 + 20 + 1000) + (1 + 1 + 10 + 20) + // Expect with Ignore
	(1 + 2 + 20) + // Compare with Ignore
	(1 + 4) + // Point
	1 + // Fence
	(1 + 5) + // Delay
	1 + (2 + 1) + // Call of a sequence with a Write and an End
	1 // End

// tilesOf changes one byte of the packed tile range of the first Point.
func tilesOf(index uint, value uint64) func(*file) {
	return commandOf(opPoint, func(c *fbs.Command) {
		c.Mask = c.Mask&^(0xff<<(8*index)) | value<<(8*index)
	})
}

// point points the first Point at tiles.
func point(x, y, xStart, yStart, noc uint8, multicast bool) func(*file) {
	return commandOf(opPoint, func(c *fbs.Command) {
		t := fbs.TileRoute{X: x, Y: y, XStart: xStart, YStart: yStart, NoC: noc,
			Ordering: boards.OrderingDefault, Multicast: multicast}
		c.Mask = t.Pack()
	})
}

// unusedFields defines a vector for each field that a command leaves empty.
func unusedFields() (list []definition) {
	fields := []struct {
		name string
		set  func(*fbs.Command)
	}{
		{"width", func(c *fbs.Command) { c.Width = 4 }},
		{"mode", func(c *fbs.Command) { c.Mode = 1 }},
		{"option", func(c *fbs.Command) { c.Option = 1 }},
		{"window", func(c *fbs.Command) { c.Window = 1 }},
		{"index", func(c *fbs.Command) { c.Index = 1 }},
		{"offset", func(c *fbs.Command) { c.Offset = 8 }},
		{"amount", func(c *fbs.Command) { c.Amount = 8 }},
		{"value", func(c *fbs.Command) { c.Value = 1 }},
		{"mask", func(c *fbs.Command) { c.Mask = 1 }},
	}
	commands := []struct {
		opcode gen.Opcode
		place  string
		empty  string // fields that the table of FORMAT.md leaves empty
	}{
		{opWrite, "command 0", "mode option index amount mask"},
		{opModify, "command 2", "mode option index amount"},
		{opRelocate, "command 3", "mode option amount mask"},
		{opCopyIn, "command 4", "option mask"},
		{opFill, "command 6", "option index mask"},
		{opCopyOut, "command 7", "option mask"},
		{opCompare, "command 10", "mode mask"},
		{opPoint, "command 11", "width mode option index offset amount"},
		{opFence, "command 13", "width mode option window index offset amount value mask"},
		{opDelay, "command 14", "width mode option window index offset value mask"},
		{opCall, "command 15", "width mode option window offset amount value mask"},
		{opEnd, "command 19", "width mode option window index offset amount value mask"},
	}
	for _, c := range commands {
		for _, field := range fields {
			if !strings.Contains(" "+c.empty+" ", " "+field.name+" ") {
				continue
			}
			name := strings.ToLower(c.opcode.String()) + "-with-" + field.name
			list = append(list, reject(name, c.place, sEmpty, commandOf(c.opcode, field.set)))
		}
	}
	return list
}

// checksums are rejected in step 6 of section 1.2.
var checksums = []definition{
	raw("checksum-of-envelope", "checksum", sStep6, func(f *file) { f.data[12] ^= 1 }),
	raw("checksum-covers-last-byte", "checksum", sStep6,
		func(f *file) { f.data[len(f.view.Envelope)-1] ^= 0x80 }),
	raw("checksum-before-flatbuffer", "checksum", sChecksum, func(f *file) {
		little.PutUint32(f.data, 68)
	}),
	raw("checksum-before-command", "checksum", sChecksum,
		commandOf(opWrite, func(c *fbs.Command) { c.Opcode = 99 })),
	raw("checksum-before-segment", "checksum", sChecksum, func(f *file) {
		f.data[12] ^= 1
		f.data[len(f.data)-1] ^= 1
	}),
	raw("padding-not-zero", "payload", "zero bytes up to the next multiple of 4096",
		func(f *file) { f.data[len(f.view.Envelope)] = 1 }),
	raw("padding-not-zero-at-its-end", "payload", "zero bytes up to the next multiple of 4096",
		func(f *file) { f.data[f.view.Segments[0].Offset-1] = 1 }),
	reject("file-longer-than-segments", "payload", "end of the last segment, or of the envelope",
		func(f *file) { resize(1)(f); little.PutUint64(f.data[24:], uint64(len(f.data))) }),
	reject("file-shorter-than-segments", "payload", "end of the last segment, or of the envelope",
		func(f *file) { resize(-1)(f); little.PutUint64(f.data[24:], uint64(len(f.data))) }),
	of("minimal.lmb", reject("file-longer-than-envelope", "payload",
		"end of the last segment, or of the envelope", func(f *file) {
			resize(1)(f)
			little.PutUint64(f.data[24:], uint64(len(f.data)))
		})),
	raw("checksum-of-segment", "segment 0", "Each segment has a checksum",
		func(f *file) { f.data[len(f.data)-1] ^= 1 }),
	of("segments.lmb", raw("checksum-of-segment-2", "segment 2", "Each segment has a checksum",
		func(f *file) { f.data[len(f.data)-1] ^= 1 })),
	of("segments.lmb", raw("checksum-of-segment-1", "segment 1", "Each segment has a checksum",
		func(f *file) { f.data[len(f.data)-101] ^= 1; f.data[len(f.data)-1] ^= 1 })),

	signed("signature-of-another-kind", "LMBSIGN1", func(b []byte) { b[7] = '2' }, "signature"),
	signed("signature-with-a-wrong-checksum", sSum, func(b []byte) { b[8] ^= 1 }, "signature"),
	signed("signature-with-a-changed-key", sSum, func(b []byte) { b[32] ^= 1 }, "signature"),
	signed("signature-with-a-changed-end", sSum, func(b []byte) { b[127] ^= 1 }, "signature"),
	signed("signature-reserved", "16 | 16 bytes | zero", func(b []byte) {
		b[16] = 1
		little.PutUint32(b[8:], fbs.Checksum(b[12:]))
	}, "signature"),
	{name: "signature-cut", image: "minimal.lmb", want: "reject bad-image preamble",
		format: []string{sNothing}, change: func(f *file) {
			addSignature(f)
			f.data = f.data[:len(f.data)-1]
		}},
}

// addSignature appends a block with the form of a signature. Its key is not the key of anybody.
func addSignature(f *file) {
	block := lmb.SignatureBlock(0, bytes.Repeat([]byte{0x4b}, 32), bytes.Repeat([]byte{0x53}, 64))
	f.data = vector.Aligned(append(f.data, block...))
}

// signed defines a vector with a signature that is changed.
func signed(name, sentence string, change func(block []byte), place string) definition {
	return definition{name: name, image: "minimal.lmb", want: "reject bad-image " + place,
		format: []string{sentence}, change: func(f *file) {
			addSignature(f)
			change(f.data[len(f.data)-fbs.SignatureSize:])
		}}
}

// accept defines a vector in which a changed everything.lmb is still valid, and sequence 2 runs.
func accept(name, sentence string, change func(*file)) definition {
	return definition{name: name, image: "everything.lmb", want: "done", runs: named("last"),
		machine: machine{bus: []vector.Window{{Index: 3, Bus: 0x1000}}},
		format:  []string{sentence}, change: func(f *file) { change(f); f.stamp() }}
}

// acceptSequence defines a vector in which sequence 2 has another name.
func acceptSequence(vector, name string) definition {
	d := accept(vector, sSafe, renameSequence(name))
	d.runs = named(name)
	return d
}

// acceptDMA defines a vector in which a Relocate stores the bus address of a window.
func acceptDMA(name, image, want, sentence string, change func(*file)) definition {
	return definition{name: name, image: image, want: want, format: []string{sentence},
		machine: machine{bus: []vector.Window{{Index: 0, Bus: 0x1_0000}, {Index: 1, Bus: 0x10_0000},
			{Index: 2, Bus: 0x80_0000}, {Index: 3, Bus: 0x20_0000}, {Index: 5, Bus: 0x100_0000}}},
		change: func(f *file) { change(f); f.stamp() }}
}

// accepted are at the limits of what a reader accepts.
var accepted = append(namesBetween(), []definition{
	accept("unchanged", sStep6, func(*file) {}),
	{name: "signature", image: "minimal.lmb", want: "done", change: addSignature,
		format: []string{"A reader that does not require signatures skips", sNothing}},
	{name: "signature-with-a-version", image: "minimal.lmb", want: "done",
		format: []string{"12 | u32 | the version that the signer"}, change: func(f *file) {
			addSignature(f)
			block := f.data[len(f.data)-fbs.SignatureSize:]
			little.PutUint32(block[12:], 1<<32-1)
			little.PutUint32(block[8:], fbs.Checksum(block[12:]))
		}},
	accept("name-of-the-last-character", sPlain, rename("\U0010ffff")),
	acceptSequence("sequence-with-the-first-character", "!ast"),
	acceptSequence("sequence-with-the-last-character", "las~"),
	accept("names-share-bytes", "Names may share bytes.", func(f *file) {
		f.view.Sequences[1].Name = f.view.Sequences[0].Name + 1<<8 - 1
	}),
	accept("names-are-equal", "Names need not be unique: a lookup finds the first",
		func(f *file) { f.view.Sequences[1].Name = f.view.Sequences[0].Name }),
	accept("notes-are-absent", "An absent vector counts as empty.", removeField(fieldNotes)),
	accept("notes-are-damaged", "The runtime ignores the notes.",
		func(f *file) { clear(f.view.Notes) }),
	accept("bus-address-of-the-end", sBus,
		commandOf(opRelocate, func(c *fbs.Command) { c.Value = 5000 })),
	accept("delay-of-10-s", "11 | Delay | delay",
		commandOf(opDelay, func(c *fbs.Command) { c.Amount = 10_000_000 })),
	accept("last-byte-of-a-window", sInside, func(f *file) {
		f.command(opCopyIn, 1).Offset = 8192 - 12
	}),
	accept("fixed-copy-longer-than-its-window", sInside, func(f *file) {
		c := f.command(opFill, 0)
		c.Mode, c.Offset, c.Amount = 2, 0x7fc, 1<<20
	}),
	accept("empty-condition", sReached,
		commandOf(opExpect, func(c *fbs.Command) { c.Mask, c.Value = 0, 0 })),
	accept("point-after-arc-windows", sClosed, func(f *file) {
		point(0, 10, 0, 0, 0, false)(f)
		f.command(opPoint, 0).Value = 0x8_8010_0000
	}),
	accept("point-at-another-tile-of-column-0", sClosed, point(0, 2, 0, 0, 0, false)),
	accept("multicast-next-to-column-0", sClosed, point(8, 11, 1, 1, 0, true)),
	accept("rectangle-of-one-tile", sPacked, point(4, 4, 4, 4, 0, true)),
	accept("ordering-posted", sOrdering, tilesOf(5, 3)),
	{name: "limit-equals-longest-time", image: "everything.lmb", runs: named("last"), want: "done",
		machine: machine{limitUs: everythingUs,
			bus: []vector.Window{{Index: 3, Bus: 0x1000}}},
		format: []string{"At load, a reader rejects an image with a sequence",
			"CopyIn, Fill, CopyOut and Compare make `amount / width` accesses",
			"The longest time of a sequence, in microseconds, is the sum"}},
	acceptDMA("relocate-to-the-last-byte-of-a-bar-window", "relocate.lmb", "done", sBus,
		relocateOwn(0, 0x1fff, 0x1000, 0x1000, 0xfff)),
	acceptDMA("relocate-of-a-page-with-exactly-one-rule", "relocate.lmb", "done", sPages,
		relocateOwn(0x1000, 0x1fff, 0x1800, 8, 7)),
	acceptDMA("relocate-of-two-pages", "relocate.lmb", "done", sPages,
		relocateOwn(0, 0x1fff, 0xff8, 0x10, 0xf)),
	acceptDMA("relocate-of-a-page-behind-a-load-only-register", "everything.lmb",
		"done, ignored 2", sPages,
		relocateTo(0, 0x1ff31000, 0x1000, 0)),
	acceptDMA("relocate-of-the-last-page-of-a-rule", "everything.lmb",
		"done, ignored 2", sPages,
		relocateTo(4, 0x01efff00, 0x100, 0)),
	acceptDMA("relocate-of-a-page-with-two-rules", "everything.lmb",
		"done, ignored 2", sPages, func(f *file) {
			f.view.Rules[1].Last = 0xfff
			c := f.command(opRelocate, 0)
			c.Index, c.Value = 0, 0
		}),
	acceptDMA("relocate-of-the-last-page-of-a-bar", "boards.lmb", "done", sPages, relocateBoard(2)),
}...)

// badDefinitions defines a vector for each image of testdata/bad.
func badDefinitions(paths []string) (list []definition) {
	for _, path := range paths {
		name := "bad-" + strings.TrimSuffix(filepath.Base(path), ".lmb")
		list = append(list, definition{name: name, image: path, want: badPlaces[name]})
	}
	return list
}

// badPlaces has what a reader must say of the images in testdata/bad.
var badPlaces = map[string]string{
	"bad-arena-overflow":            "reject bad-image sums",
	"bad-empty":                     "reject bad-image preamble",
	"bad-flipped-bit":               "reject bad-image checksum",
	"bad-larger-than-the-machine":   "reject bad-image memory",
	"bad-misaligned":                "reject bad-image command 1",
	"bad-name-that-is-not-utf8":     "reject bad-image sequence 0",
	"bad-name-with-a-bidi-override": "reject bad-image sequence 0",
	"bad-name-with-a-c1-control":    "reject bad-image sequence 0",
	"bad-name-with-a-newline":       "reject bad-image sequence 0",
	"bad-name-with-an-escape":       "reject bad-image sequence 0",
	"bad-newer-format":              "reject bad-image preamble",
	"bad-outside-the-rules":         "reject bad-image command 0",
	"bad-outside-window":            "reject bad-image command 1",
	"bad-payload-outside-segment":   "reject bad-image command 1",
	"bad-poll-without-deadline":     "reject bad-image command 1",
	"bad-random":                    "reject bad-image preamble",
	"bad-reservation-of-another":    "reject bad-image counts",
	"bad-rule-misaligned":           "reject bad-image rule 1",
	"bad-rule-of-a-known-board":     "reject bad-image rule 0",
	"bad-rule-of-no-target":         "reject bad-image rule 0",
	"bad-rule-outside-bar":          "reject bad-image rule 1",
	"bad-rule-without-widths":       "reject bad-image rule 0",
	"bad-rules-out-of-order":        "reject bad-image rule 1",
	"bad-rules-overlap":             "reject bad-image rule 1",
	"bad-short":                     "reject bad-image preamble",
	"bad-too-many-commands":         "reject bad-image flatbuffer",
	"bad-too-many-rules":            "reject bad-image flatbuffer",
	"bad-truncated":                 "reject bad-image preamble",
	"bad-unknown-opcode":            "reject bad-image command 1",
	"bad-width-not-of-the-board":    "reject bad-image command 1",
	"bad-width-not-of-the-rules":    "reject bad-image command 0",
	"bad-wrong-schema":              "reject bad-image preamble",
}
