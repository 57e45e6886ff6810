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

// opened is a file that is to be changed: its tables as they lie in it.
type opened struct {
	file []byte
	*fbs.View
	root *gen.Image
}

// of is the first command with an opcode.
func (o *opened) of(opcode gen.Opcode) *fbs.Command {
	for i := range o.Commands {
		if o.Commands[i].Opcode == opcode {
			return &o.Commands[i]
		}
	}
	panic(fmt.Sprint("no command ", opcode))
}

// windowOf returns the first window of a kind.
func (o *opened) windowOf(kind gen.WindowKind) *fbs.Window {
	for i := range o.Windows {
		if o.Windows[i].Kind == kind {
			return &o.Windows[i]
		}
	}
	panic(fmt.Sprint("no window of kind ", kind))
}

// fixBus gives the first host window a fixed bus address.
func (o *opened) fixBus(address uint64) {
	w := o.windowOf(gen.WindowKindHost)
	w.Flags |= fbs.FlagFixedBus
	w.Offset = address
}

// forge puts text where the name of the last sequence begins, which is long enough.
func (o *opened) forge(text string) {
	copy(o.NameBytes(o.Sequences[len(o.Sequences)-1].Name), text)
}

// vtable is where that of the root begins.
func (o *opened) vtable() uint32 {
	pos := binary.LittleEndian.Uint32(o.file)
	return pos - binary.LittleEndian.Uint32(o.file[pos:])
}

// cut ends the file behind so many bytes, or puts zeros there.
func (o *opened) cut(size int) {
	o.file = append(o.file[:min(size, len(o.file)):min(size, len(o.file))],
		make([]byte, max(0, size-len(o.file)))...)
}

// changes make of a file with every kind of command, two segments at least and rules
// what mutations do not: they go beside a condition that refuses in the same words.
var changes = []func(*opened){
	func(o *opened) { binary.LittleEndian.PutUint64(o.file[32:], fbs.PreambleSize) },
	func(o *opened) { binary.LittleEndian.PutUint16(o.file[o.vtable():], 2) },
	func(o *opened) { binary.LittleEndian.PutUint16(o.file[o.vtable():], 5) },
	func(o *opened) { binary.LittleEndian.PutUint16(o.file[o.vtable()+2:], 2) },
	func(o *opened) { binary.LittleEndian.PutUint16(o.file[o.vtable()+2:], 0xfffc) },
	func(o *opened) { binary.LittleEndian.PutUint16(o.file[o.vtable()+4:], 2) },
	func(o *opened) { // a field outside the table
		binary.LittleEndian.PutUint16(o.file[o.vtable()+4:],
			binary.LittleEndian.Uint16(o.file[o.vtable()+2:])-2)
	},
	func(o *opened) { // the table of fields ends behind the envelope
		at := uint32(len(o.Envelope) - 4)
		pos := binary.LittleEndian.Uint32(o.file)
		copy(o.file[at:], []byte{24, 0, 64, 0})
		binary.LittleEndian.PutUint32(o.file[pos:], pos-at)
	},
	func(o *opened) { o.cut(len(o.Envelope)) },
	func(o *opened) { o.cut(len(o.file) + 1) },
	func(o *opened) { o.cut(len(o.file) - 1) },
	func(o *opened) {
		last := &o.Segments[len(o.Segments)-1]
		o.root.Reservation(nil).MutatePayloadBytes(o.Reservation.PayloadBytes - last.Size + 1<<40)
		last.Size = 1 << 40
	},
	func(o *opened) { o.Segments[0].Size = 1 << 47 },
	func(o *opened) { o.Segments[0].Size = 0 },
	func(o *opened) { o.Segments[0].Offset = 1 << 47 },
	func(o *opened) { o.Segments[1].Crc32c++ },
	func(o *opened) { o.Sequences[0].Count = 0 },
	func(o *opened) { o.Sequences[0].Count = 1 << 30 },
	func(o *opened) { o.Sequences[0].First = 1 },
	func(o *opened) { o.Rules[0].Bar = 6 },
	func(o *opened) { o.Rules[0].First = o.Rules[0].Last + 1 },
	func(o *opened) { o.Rules[0].Widths = 0 },
	func(o *opened) { o.Rules[0].Widths = 16 },
	func(o *opened) { o.Rules[0].Memory = 2 },
	func(o *opened) { o.Rules[0].Device = 7 },
	func(o *opened) { o.Windows[1].Bar = 1 },
	func(o *opened) { o.Windows[1].Offset = 4096 },
	func(o *opened) { o.Windows[1].Flags |= fbs.FlagFixedBus },
	func(o *opened) { o.windowOf(gen.WindowKindHost).Offset = 4096 },
	func(o *opened) { o.windowOf(gen.WindowKindHost).Flags |= fbs.FlagFixedBus },
	func(o *opened) { o.fixBus(1) },
	func(o *opened) { o.fixBus(math.MaxUint64 &^ 4095) },
	func(o *opened) { // an address below the end of an earlier window with a fixed address
		o.fixBus(1 << 40)
	},
	func(o *opened) { o.Tensors[1].Dtype = 13 },
	func(o *opened) { o.Tensors[1].Dims = 9 },
	func(o *opened) { o.Tensors[1].Shape()[7] = 1 },
	func(o *opened) {
		o.Tensors[1].Dims, *o.Tensors[1].Shape() = 8, [8]uint32{1 << 30, 1 << 30, 1, 1, 1, 1, 1, 1}
	},
	func(o *opened) { o.of(gen.OpcodeCopyOut).Index = 0 },
	func(o *opened) { o.of(gen.OpcodeCopyOut).Index = 999 },
	func(o *opened) { o.of(gen.OpcodeCopyOut).Index = 1 },
	func(o *opened) { o.of(gen.OpcodeRelocate).Index = 999 },
	func(o *opened) { o.of(gen.OpcodeRelocate).Index = 1 },
	func(o *opened) { o.of(gen.OpcodePoint).Mask |= 2 << 56 },
	func(o *opened) { o.of(gen.OpcodePoint).Mask |= 9 << 48 },
	func(o *opened) { o.of(gen.OpcodePoint).Mask |= 2 << 32 },
	func(o *opened) { o.of(gen.OpcodePoint).Mask &^= 0xff << 40 },
	func(o *opened) { o.of(gen.OpcodePoint).Mask |= 0xff << 40 },
	func(o *opened) { o.of(gen.OpcodePoint).Mask |= 1 << 16 },
	func(o *opened) { o.of(gen.OpcodePoint).Mask |= 1 << 24 },
	func(o *opened) { o.forge("\n") },
	func(o *opened) { o.forge("\x7f") },
	func(o *opened) { o.forge("\u009b") },
	func(o *opened) { o.forge("\u061c") },
	func(o *opened) { o.forge("\u200e") },
	func(o *opened) { o.forge("\u200f") },
	func(o *opened) { o.forge("\u2028") },
	func(o *opened) { o.forge("\u202e") },
	func(o *opened) { o.forge("\u2066") },
	func(o *opened) { o.forge("\u2069") },
	func(o *opened) { o.forge("\xff") },
	func(o *opened) { o.forge("\xed\xa0\x80") },

	// Values above the largest valid one. Mutations tries smaller values.
	func(o *opened) { o.of(gen.OpcodeExpect).Mode = 4 },
	func(o *opened) { o.of(gen.OpcodeDelay).Amount = fbs.DelayMaxUs + 1 },
	func(o *opened) { o.of(gen.OpcodeWrite).Width = 3 },
	func(o *opened) { o.Windows[1].Kind = gen.WindowKindConfig + 1 },
	func(o *opened) { o.Windows[1].Size = fbs.WindowSizeMax << 1 },
	func(o *opened) { o.windowOf(gen.WindowKindBar).Offset = 1 << 40 },
	func(o *opened) { o.Segments[0].Size-- },

	func(o *opened) { o.of(gen.OpcodeFence).Opcode = gen.OpcodeEnd }, // in the middle of a sequence
	func(o *opened) { // an access after the end of a window that has been pointed
		for i := range o.Commands {
			m := &o.Commands[i]
			if m.Opcode == gen.OpcodeCopyIn && o.Windows[m.Window].Kind == gen.WindowKindTlb {
				m.Offset = uint32(o.Windows[m.Window].Size)
			}
		}
	},
	func(o *opened) { // a name with a replacement character, which is not an invalid byte
		copy(o.NameBytes(o.Tensors[0].Name), "\ufffd")
		o.of(gen.OpcodeCopyOut).Index = 1
	},
	func(o *opened) { // tensors of 64 TiB: the third one begins after the end of any arena
		for i := range o.Tensors[:2] {
			t := &o.Tensors[i]
			t.Dtype, t.HasData, t.DataOffset, t.Size = gen.DTypeUint8, 0, 0, fbs.DataSizeMax
			t.Dims, *t.Shape() = 2, [8]uint32{1 << 30, 1 << 16}
			o.Tensors[i+1].ArenaOffset = t.ArenaOffset + t.Size
		}
	},
}

// unused lists the fields of each command that must be 0.
var unused = []struct {
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

// unusedChanges returns one change for each field that unused lists.
func unusedChanges() (list []func(*opened)) {
	for _, u := range unused {
		for field := range strings.FieldsSeq(u.fields) {
			list = append(list, func(o *opened) { setField(o.of(u.opcode), field) })
		}
	}
	return list
}

// allowed are changes after which the file is still valid. No tool writes such files.
var allowed = []func(*opened){
	func(o *opened) { o.forge("ü\ufffd") },
	func(o *opened) { o.windowOf(gen.WindowKindConfig).Size = 4096 },
	func(o *opened) { // default data that does not begin in the first page of the payload
		for i := range o.Tensors {
			if t := &o.Tensors[i]; t.Role == gen.RoleInput && t.HasData != 0 {
				t.DataOffset += 2 * fbs.SegmentAlign
			}
		}
	},
}

// preambles are changes of the preamble, made after the checksum was computed.
var preambles = []func(file []byte){
	func(file []byte) { file[10]++ }, // the minor version of the format
	func(file []byte) { binary.LittleEndian.PutUint64(file[32:], uint64(len(file))+1) },
}

// Odd are images that take more than a mutation of a file.
func Odd(file []byte) (list []Image, err error) {
	image, err := lmb.Decode(file)
	if err != nil {
		return nil, err
	}
	crowd(image)
	more, err := lmb.Encode(image)
	if err != nil {
		return nil, err
	}
	list = append(list, Judged(more))
	many := Cut(more, pagesOf(more, 1))
	signed := append(bytes.Clone(file),
		lmb.SignatureBlock(0, make([]byte, 32), make([]byte, 64))...)
	list = append(list, Judged(many), Judged(Cut(more, pagesOf(more, 5))), Judged(signed))
	for _, change := range slices.Concat(allowed, changes, unusedChanges()) {
		o := &opened{file: bytes.Clone(many)}
		if o.View, err = fbs.Verify(o.file); err != nil {
			return nil, err
		}
		o.root = gen.GetRootAsImage(o.file, 0)
		change(o)
		envelope := min(binary.LittleEndian.Uint64(o.file[32:]), uint64(len(o.file)))
		lmb.Stamp(o.file, envelope)
		list = append(list, Judged(o.file))
	}
	for _, change := range preambles {
		changed := bytes.Clone(many)
		change(changed)
		list = append(list, Judged(changed))
	}
	return list, nil
}

// pagesOf cuts payload into segments, of which the first has so many pages.
func pagesOf(file []byte, first int) (pages []int) {
	size := len(file) - int(fbs.RoundUp(binary.LittleEndian.Uint64(file[32:]), fbs.SegmentAlign))
	pages = []int{first}
	for left := size - first*fbs.SegmentAlign; left > 0; left -= fbs.SegmentAlign {
		pages = append(pages, 1)
	}
	return pages
}

// crowd adds to an image so much that tables do not lie on the stack, names that are
// long and of characters of each length, and pages of payload.
func crowd(image *lmb.Image) {
	const long = "ü€😀\" and so on, for more than thirty-two bytes"
	image.Devices[0].Board, image.Rules[0].Name = long, long
	for i := range 40 {
		image.Windows = append(image.Windows,
			lmb.Window{Window: image.Windows[0].Window, Name: fmt.Sprint("w", i)})
		image.Sequences = append(image.Sequences,
			lmb.Sequence{Name: long + strings.Repeat("x", i),
				Commands: []lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodeFence}}}})
	}
	for i := range image.Tensors {
		image.Tensors[i].Name += long
	}
	var copies []lmb.Command
	for i := range 160 { // none of which lies in two pages
		copies = append(copies,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4,
				Mode: uint8(gen.AccessExact)}, Data: bytes.Repeat([]byte{byte(i), 1, 2, 3}, 64)})
	}
	main := &image.Sequences[0]
	main.Commands = append(copies, main.Commands...)
}
