package corpus

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// signatureReserved is the offset of the reserved bytes in a signature.
const signatureReserved = 16

// editedFile is a file to be changed. Its tables are in the memory of the file.
type editedFile struct {
	file []byte
	*fbs.View
	root *gen.Image
}

// firstCommand returns the first command with an opcode.
func (o *editedFile) firstCommand(opcode gen.Opcode) *fbs.Command {
	for i := range o.Commands {
		if o.Commands[i].Opcode == opcode {
			return &o.Commands[i]
		}
	}
	panic(fmt.Sprint("no command ", opcode))
}

// indexOf returns the index of the first window of a kind.
func (o *editedFile) indexOf(kind gen.WindowKind) uint16 {
	for i := range o.Windows {
		if o.Windows[i].Kind == kind {
			return uint16(i)
		}
	}
	panic(fmt.Sprint("no window of kind ", kind))
}

func (o *editedFile) windowOf(kind gen.WindowKind) *fbs.Window {
	return &o.Windows[o.indexOf(kind)]
}

// fixBusAddress assigns a fixed bus address to the first host window.
func (o *editedFile) fixBusAddress(address uint64) {
	w := o.windowOf(gen.WindowKindHost)
	w.Flags |= fbs.FlagFixedBus
	w.Offset = address
}

// expectCounter changes the first expect to one that waits for a counter whose largest value is
// mask.
func (o *editedFile) expectCounter(mask uint64) {
	m := o.firstCommand(gen.OpcodeExpect)
	m.Mode, m.Mask, m.Value = uint8(gen.ConditionReached), mask, 0
}

func (o *editedFile) setVectors(kind gen.InterruptKind, count uint16) {
	o.Devices[0].Interrupts, o.Devices[0].Vectors = kind, count
}

// overwriteName writes text over the start of the name of the last tensor, which is longer.
func (o *editedFile) overwriteName(text string) {
	copy(o.NameBytes(o.Tensors[len(o.Tensors)-1].Name), text)
}

// rootVtable returns the offset of the vtable of the root table.
func (o *editedFile) rootVtable() uint32 {
	pos := binary.LittleEndian.Uint32(o.file)
	return pos - binary.LittleEndian.Uint32(o.file[pos:])
}

// resize cuts the file to a size, or appends zeros up to that size.
func (o *editedFile) resize(size int) {
	o.file = append(o.file[:min(size, len(o.file)):min(size, len(o.file))],
		make([]byte, max(0, size-len(o.file)))...)
}

// invalidChanges need a file with every kind of command, at least two segments, and rules. They
// reach conditions of the verifier that Mutations does not reach, because another condition with
// the same message comes first.
var invalidChanges = []func(*editedFile){
	func(o *editedFile) { binary.LittleEndian.PutUint64(o.file[32:], fbs.PreambleSize) },
	func(o *editedFile) { binary.LittleEndian.PutUint16(o.file[o.rootVtable():], 2) },
	func(o *editedFile) { binary.LittleEndian.PutUint16(o.file[o.rootVtable():], 5) },
	func(o *editedFile) { binary.LittleEndian.PutUint16(o.file[o.rootVtable()+2:], 2) },
	func(o *editedFile) { binary.LittleEndian.PutUint16(o.file[o.rootVtable()+2:], 0xfffc) },
	func(o *editedFile) { binary.LittleEndian.PutUint16(o.file[o.rootVtable()+4:], 2) },
	func(o *editedFile) { // a field outside the table
		binary.LittleEndian.PutUint16(o.file[o.rootVtable()+4:],
			binary.LittleEndian.Uint16(o.file[o.rootVtable()+2:])-2)
	},
	func(o *editedFile) { // the vtable ends after the envelope
		at := uint32(len(o.Envelope) - 4)
		pos := binary.LittleEndian.Uint32(o.file)
		copy(o.file[at:], []byte{24, 0, 64, 0})
		binary.LittleEndian.PutUint32(o.file[pos:], pos-at)
	},
	func(o *editedFile) { o.resize(len(o.Envelope)) },
	func(o *editedFile) { o.resize(len(o.file) + 1) },
	func(o *editedFile) { o.resize(len(o.file) - 1) },
	func(o *editedFile) {
		last := &o.Segments[len(o.Segments)-1]
		o.root.Reservation(nil).MutatePayloadBytes(o.Reservation.PayloadBytes - last.Size + 1<<40)
		last.Size = 1 << 40
	},
	func(o *editedFile) { o.Segments[0].Size = 1 << 47 },
	func(o *editedFile) { o.Segments[0].Size = 0 },
	func(o *editedFile) { o.Segments[0].Offset = 1 << 47 },
	func(o *editedFile) { o.Segments[1].Crc32c++ },
	func(o *editedFile) { o.Sequences[0].Count = 0 },
	func(o *editedFile) { o.Sequences[0].Count = 1 << 30 },
	func(o *editedFile) { o.Sequences[0].First = 1 },
	func(o *editedFile) { o.Rules[0].Bar = 6 },
	func(o *editedFile) { o.Rules[0].First = o.Rules[0].Last + 1 },
	func(o *editedFile) { o.Rules[0].Widths = 0 },
	func(o *editedFile) { o.Rules[0].Widths = 16 },
	func(o *editedFile) { o.Rules[0].Memory = 2 },
	func(o *editedFile) { o.Rules[0].Device = 7 },
	func(o *editedFile) { o.Windows[1].Bar = 1 },
	func(o *editedFile) { o.Windows[1].Offset = 4096 },
	func(o *editedFile) { o.Windows[1].Flags |= fbs.FlagFixedBus },
	func(o *editedFile) { o.windowOf(gen.WindowKindHost).Offset = 4096 },
	func(o *editedFile) { o.windowOf(gen.WindowKindHost).Flags |= fbs.FlagFixedBus },
	func(o *editedFile) { o.fixBusAddress(1) },
	func(o *editedFile) { o.fixBusAddress(math.MaxUint64 &^ 4095) },
	func(o *editedFile) { // an address below the end of an earlier window with a fixed address
		o.fixBusAddress(1 << 40)
	},
	func(o *editedFile) { o.setVectors(gen.InterruptKindMsi, 0) },
	func(o *editedFile) { o.setVectors(gen.InterruptKindMsi, 3) },
	func(o *editedFile) { o.setVectors(gen.InterruptKindMsi, 64) },
	func(o *editedFile) { o.setVectors(gen.InterruptKindMsix, 2049) },
	func(o *editedFile) { o.setVectors(0, 1) },
	func(o *editedFile) { o.Tensors[1].Role = gen.RoleInvalid },
	func(o *editedFile) { o.Tensors[1].Role = gen.RoleScratch + 1 },
	func(o *editedFile) { o.Tensors[1].Dtype = 13 },
	func(o *editedFile) { o.Tensors[1].Dims = 9 },
	func(o *editedFile) { o.Tensors[1].Shape()[7] = 1 },
	func(o *editedFile) {
		o.Tensors[1].Dims, *o.Tensors[1].Shape() = 8, [8]uint32{1 << 30, 1 << 30, 1, 1, 1, 1, 1, 1}
	},
	func(o *editedFile) { o.firstCommand(gen.OpcodeCopyOut).Index = 0 },
	func(o *editedFile) { o.firstCommand(gen.OpcodeCopyOut).Index = 999 },
	func(o *editedFile) { o.firstCommand(gen.OpcodeCopyOut).Index = 1 },
	func(o *editedFile) { o.firstCommand(gen.OpcodeRelocate).Index = 999 },
	func(o *editedFile) { o.firstCommand(gen.OpcodeRelocate).Index = 1 },
	func(o *editedFile) { // the address behind a BAR window
		m := o.firstCommand(gen.OpcodeRelocate)
		m.Index = o.indexOf(gen.WindowKindBar)
		m.Value = o.Windows[m.Index].Size
	},
	func(o *editedFile) { // the address of a BAR that is smaller than a page
		m := o.firstCommand(gen.OpcodeRelocate)
		for i := range o.Windows {
			if w := &o.Windows[i]; w.Kind == gen.WindowKindBar && w.Offset == 0 {
				o.Devices[w.Device].MinBarSizes()[w.Bar], w.Size = 256, 256
				m.Index, m.Value = uint16(i), 0
			}
		}
	},
	func(o *editedFile) { o.firstCommand(gen.OpcodePoint).Mask |= 2 << 56 },
	func(o *editedFile) { o.firstCommand(gen.OpcodePoint).Mask |= 9 << 48 },
	func(o *editedFile) { o.firstCommand(gen.OpcodePoint).Mask |= 2 << 32 },
	func(o *editedFile) { o.firstCommand(gen.OpcodePoint).Mask &^= 0xff << 40 },
	func(o *editedFile) { o.firstCommand(gen.OpcodePoint).Mask |= 0xff << 40 },
	func(o *editedFile) { o.firstCommand(gen.OpcodePoint).Mask |= 1 << 16 },
	func(o *editedFile) { o.firstCommand(gen.OpcodePoint).Mask |= 1 << 24 },
	func(o *editedFile) { o.overwriteName("\n") },
	func(o *editedFile) { o.overwriteName("\x7f") },
	func(o *editedFile) { o.overwriteName("\u009b") },
	func(o *editedFile) { o.overwriteName("\u061c") },
	func(o *editedFile) { o.overwriteName("\u200e") },
	func(o *editedFile) { o.overwriteName("\u200f") },
	func(o *editedFile) { o.overwriteName("\u2028") },
	func(o *editedFile) { o.overwriteName("\u202e") },
	func(o *editedFile) { o.overwriteName("\u2066") },
	func(o *editedFile) { o.overwriteName("\u2069") },
	func(o *editedFile) { o.overwriteName("\xff") },
	func(o *editedFile) { o.overwriteName("\xed\xa0\x80") },

	// The condition Reached with masks that are not the largest value of a counter.
	func(o *editedFile) { o.expectCounter(0) },
	func(o *editedFile) { o.expectCounter(5) },

	// Values above the largest valid one. Mutations tries smaller values.
	func(o *editedFile) { o.firstCommand(gen.OpcodeExpect).Mode = 4 },
	func(o *editedFile) { o.firstCommand(gen.OpcodeDelay).Amount = fbs.DelayMaxUs + 1 },
	func(o *editedFile) { o.firstCommand(gen.OpcodeWrite).Width = 3 },
	func(o *editedFile) { o.Windows[1].Kind = gen.WindowKindConfig + 1 },
	func(o *editedFile) { o.Windows[1].Size = fbs.WindowSizeMax << 1 },
	func(o *editedFile) { o.windowOf(gen.WindowKindBar).Offset = 1 << 40 },
	func(o *editedFile) { o.Segments[0].Size-- },

	func(o *editedFile) { o.firstCommand(gen.OpcodeFence).Opcode = gen.OpcodeEnd },
	// in the middle of a sequence
	func(o *editedFile) { // an access after the end of a TLB window
		for i := range o.Commands {
			m := &o.Commands[i]
			if m.Opcode == gen.OpcodeCopyIn && o.Windows[m.Window].Kind == gen.WindowKindTlb {
				m.Offset = uint32(o.Windows[m.Window].Size)
			}
		}
	},
	func(o *editedFile) { // a name with a replacement character, which is not an invalid byte
		copy(o.NameBytes(o.Tensors[0].Name), "\ufffd")
		o.firstCommand(gen.OpcodeCopyOut).Index = 1
	},
	func(o *editedFile) { // a name with a character after all hidden ones
		copy(o.NameBytes(o.Tensors[0].Name), "\U0010ffffbc")
		o.firstCommand(gen.OpcodeCopyOut).Index = 1
	},
	func(o *editedFile) { // tensors of 64 TiB: the third one begins after the end of any arena
		for i := range o.Tensors[:2] {
			t := &o.Tensors[i]
			t.Dtype, t.HasData, t.DataOffset, t.Size = gen.DTypeUint8, 0, 0, fbs.DataSizeMax
			t.Dims, *t.Shape() = 2, [8]uint32{1 << 30, 1 << 16}
			o.Tensors[i+1].ArenaOffset = t.ArenaOffset + t.Size
		}
	},
}

// unusedFields lists the fields of each command that must be 0.
var unusedFields = []struct {
	opcode gen.Opcode
	fields string
}{
	{gen.OpcodeWrite, "mode option index amount mask"},
	{gen.OpcodeModify, "mode option index amount"},
	{gen.OpcodeRelocate, "mode option amount mask"},
	{gen.OpcodeCopyIn, "option mask"},
	{gen.OpcodeFill, "option index mask"},
	{gen.OpcodeCompare, "mode mask"},
	{gen.OpcodePoint, "width mode option index offset amount"},
	{gen.OpcodeFence, "width mode option window index offset amount value mask"},
	{gen.OpcodeDelay, "width mode option window index offset value mask"},
	{gen.OpcodeCall, "width mode option window offset amount value mask"},
	{gen.OpcodeEnd, "width mode option window index offset amount value mask"},
	{gen.OpcodeAdvance, "width mode option window offset amount mask"},
	{gen.OpcodeReset, "width mode option window offset amount value mask"},
	{gen.OpcodeWith, "width option window offset value"},
}

// setField sets the field of a command with the given name, as in image.fbs, to 1.
func setField(m *fbs.Command, name string) {
	switch name {
	case "width":
		m.Width = 1
	case "mode":
		m.Mode = 1
	case "option":
		m.Option = 1
	case "window":
		m.Window = 1
	case "index":
		m.Index = 1
	case "offset":
		m.Offset = 1
	case "amount":
		m.Amount = 1
	case "value":
		m.Value = 1
	case "mask":
		m.Mask = 1
	default:
		panic("no field " + name)
	}
}

// unusedFieldChanges returns one change for each field that unusedFields lists.
func unusedFieldChanges() (list []func(*editedFile)) {
	for _, u := range unusedFields {
		for field := range strings.FieldsSeq(u.fields) {
			list = append(list, func(o *editedFile) { setField(o.firstCommand(u.opcode), field) })
		}
	}
	return list
}

// validChanges are changes after which the file is still valid. No tool writes such files.
var validChanges = []func(*editedFile){
	func(o *editedFile) { o.expectCounter(0xff) },
	func(o *editedFile) { o.overwriteName("ü\ufffd") },
	func(o *editedFile) { o.overwriteName("\U0010ffff") }, // after all hidden characters
	func(o *editedFile) { o.setVectors(gen.InterruptKindMsi, 32) },
	func(o *editedFile) { // the address behind the window
		m := o.firstCommand(gen.OpcodeRelocate)
		m.Value = o.Windows[m.Index].Size
	},
	func(o *editedFile) { o.windowOf(gen.WindowKindConfig).Size = 4096 },
	func(o *editedFile) { // default data that does not begin in the first page of the payload
		for i := range o.Tensors {
			if t := &o.Tensors[i]; t.Role == gen.RoleInput && t.HasData != 0 {
				t.DataOffset += 2 * fbs.SegmentAlign
			}
		}
	},
}

// preambleChanges are changes of the preamble, made after the checksum was computed.
var preambleChanges = []func(file []byte){
	func(file []byte) { file[10]++ }, // the minor version of the format
	func(file []byte) { binary.LittleEndian.PutUint64(file[32:], uint64(len(file))+1) },
}

// Odd returns images that Mutations cannot make.
func Odd(file []byte) (list []Image, err error) {
	image, err := lmb.Decode(file)
	if err != nil {
		return nil, err
	}
	enlarge(image)
	enlarged, err := lmb.Encode(image)
	if err != nil {
		return nil, err
	}
	list = append(list, Judged(enlarged))
	divided := Cut(enlarged, segmentPages(enlarged, 1))
	signed := append(bytes.Clone(file),
		lmb.SignatureBlock(0, make([]byte, 32), make([]byte, 64))...)
	list = append(list, Judged(divided), Judged(Cut(enlarged, segmentPages(enlarged, 5))),
		Judged(signed))
	for _, change := range slices.Concat(validChanges, invalidChanges, unusedFieldChanges()) {
		o := &editedFile{file: bytes.Clone(divided)}
		if o.View, err = fbs.Verify(o.file); err != nil {
			return nil, err
		}
		o.root = gen.GetRootAsImage(o.file, 0)
		change(o)
		envelope := min(binary.LittleEndian.Uint64(o.file[32:]), uint64(len(o.file)))
		lmb.Stamp(o.file, envelope)
		list = append(list, Judged(o.file))
	}
	for _, change := range preambleChanges {
		changed := bytes.Clone(divided)
		change(changed)
		list = append(list, Judged(changed))
	}
	// Mutations keeps a signature whose reserved bytes differ from zero in the second half only.
	damaged := bytes.Clone(signed)
	block := damaged[len(file):]
	block[signatureReserved] = 1
	binary.LittleEndian.PutUint32(block[8:], fbs.Checksum(block[12:]))
	list = append(list, Judged(damaged))
	return list, nil
}

// segmentPages returns the number of pages of each segment, if the first has so many and each other
// one page.
func segmentPages(file []byte, first int) (pages []int) {
	size := len(file) - int(fbs.RoundUp(binary.LittleEndian.Uint64(file[32:]), fbs.SegmentAlign))
	pages = []int{first}
	for left := size - first*fbs.SegmentAlign; left > 0; left -= fbs.SegmentAlign {
		pages = append(pages, 1)
	}
	return pages
}

// enlarge adds so many tables to an image that they do not fit on the stack of the verifier, long
// names with characters of all lengths, and pages of payload.
func enlarge(image *lmb.Image) {
	const long = "ü€😀\" and so on, for more than thirty-two bytes"
	image.Devices[0].Board, image.Rules[0].Name = long, long
	for i := range 40 {
		image.Windows = append(image.Windows,
			lmb.Window{Window: image.Windows[0].Window, Name: fmt.Sprint("w", i)})
		image.Sequences = append(image.Sequences,
			lmb.Sequence{Name: strings.Repeat("x", 33+i),
				Commands: []lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodeFence}}}})
	}
	for i := range image.Tensors {
		image.Tensors[i].Name += long
	}
	var copies []lmb.Command
	for i := range 160 { // the data of each copy is within one page
		copies = append(copies,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4,
				Mode: uint8(gen.AccessExact)}, Data: bytes.Repeat([]byte{byte(i), 1, 2, 3}, 64)})
	}
	main := &image.Sequences[0]
	main.Commands = append(copies, main.Commands...)
}
