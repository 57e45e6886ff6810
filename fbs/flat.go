package fbs

import (
	"unicode/utf8"
	"unsafe"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Error says where a file is not a Light Metal image, and why.
type Error struct {
	Place  string // "preamble", "command 12", "tensor \"a\""
	Reason string // what is wrong, and what was expected
}

func (e *Error) Error() string { return e.Place + ": " + e.Reason }

// flat reads a FlatBuffer that nobody has verified: every read is checked
// against the buffer, and the first failure is kept. After a failure reads
// give zeros, so callers check err once at the end of a step.
//
// FlatBuffers for Go has no verifier, and its generated accessors read what an
// offset says; see https://flatbuffers.dev/support.
type flat struct {
	data []byte
	err  *Error
}

// place is where something stands, such as "tensor 3 shape". Its text is made
// only where something is wrong.
type place struct {
	what  string
	index int // -1: there is one only
	part  string
}

func only(what string) place { return place{what: what, index: -1} }

func (p place) String() string {
	if p.index >= 0 {
		p.what += Text(" %d", uint64(p.index))
	}
	return p.what + p.part
}

func (p place) of(part string) place {
	p.part = part
	return p
}

func (f *flat) fail(at place, reason string) {
	if f.err == nil {
		f.err = &Error{at.String(), reason}
	}
}

// inside tells whether size bytes at pos lie between the preamble and the end
// of the buffer, at a multiple of align.
func (f *flat) inside(pos, size, align uint64, at place) bool {
	switch {
	case f.err != nil:
	case pos < preambleEnd || pos > uint64(len(f.data)) || size > uint64(len(f.data))-pos:
		f.fail(at, Text("offset %x with %d bytes is outside the envelope of %d bytes", pos, size, uint64(len(f.data))))
	case pos%align != 0:
		f.fail(at, Text("offset %x is not a multiple of %d", pos, align))
	default:
		return true
	}
	return false
}

// table is a FlatBuffers table whose vtable has been checked.
type table struct {
	f *flat
	place
	pos    uint64
	size   uint64 // bytes of the table itself
	vtable []byte // field offsets, two bytes each; nil: the table is absent
}

// table checks the table at pos, of a type with that many fields.
func (f *flat) table(pos uint64, fields int, at place) table {
	t := table{f: f, place: at, pos: pos}
	if !f.inside(pos, 4, 4, at) {
		return t
	}
	vtable := uint64(int64(pos) - int64(flatbuffers.GetSOffsetT(f.data[pos:])))
	if !f.inside(vtable, 4, 2, t.of(" vtable")) {
		return t
	}
	size := uint64(flatbuffers.GetVOffsetT(f.data[vtable:]))
	t.size = uint64(flatbuffers.GetVOffsetT(f.data[vtable+2:]))
	switch {
	case size < 4 || size%2 != 0 || t.size < 4:
		f.fail(at, Text("vtable has impossible sizes %d and %d", size, t.size))
	case (size-4)/2 > uint64(fields):
		f.fail(at, Text("has %d fields, the schema has %d", (size-4)/2, uint64(fields)))
	case f.inside(vtable, size, 2, t.of(" vtable")) && f.inside(pos, t.size, 4, at):
		t.vtable = f.data[vtable+4 : vtable+size]
	}
	return t
}

// field gives the position of a field of size bytes, 0 where it is absent.
func (t *table) field(id int, size, align uint64) uint64 {
	if t.f.err != nil || 2*id+2 > len(t.vtable) {
		return 0
	}
	offset := uint64(flatbuffers.GetVOffsetT(t.vtable[2*id:]))
	if offset == 0 {
		return 0
	}
	if offset < 4 || offset > t.size || size > t.size-offset {
		t.f.fail(t.place, Text("field %d lies outside the table", uint64(id)))
		return 0
	}
	if !t.f.inside(t.pos+offset, size, align, t.place) {
		return 0
	}
	return t.pos + offset
}

// number gives an unsigned scalar field of 1, 2, 4 or 8 bytes, 0 where it is absent.
func (t *table) number(id int, size uint64) (n uint64) {
	pos := t.field(id, size, size)
	if pos == 0 {
		return 0
	}
	for i := pos + size; i > pos; i-- {
		n = n<<8 | uint64(t.f.data[i-1])
	}
	return n
}

// reference follows the offset at pos.
func (f *flat) reference(pos uint64) uint64 {
	return pos + uint64(flatbuffers.GetUOffsetT(f.data[pos:]))
}

// child gives the table that a field refers to, absent where the field is.
func (t *table) child(id, fields int, at place) table {
	pos := t.field(id, 4, 4)
	if pos == 0 {
		return table{f: t.f, place: at}
	}
	return t.f.table(t.f.reference(pos), fields, at)
}

// vector gives the position of the first element and the count of a vector
// field. The elements, of size bytes each, lie inside the buffer.
func (t *table) vector(id int, size, align uint64, countMax uint64, at place) (first, count uint64) {
	pos := t.field(id, 4, 4)
	if pos == 0 {
		return 0, 0
	}
	pos = t.f.reference(pos)
	if !t.f.inside(pos, 4, 4, at) {
		return 0, 0
	}
	count = uint64(flatbuffers.GetUint32(t.f.data[pos:]))
	if count > countMax {
		t.f.fail(at, Text("count %d is over the limit of %d", count, countMax))
		return 0, 0
	}
	if !t.f.inside(pos+4, count*size, 1, at) || count > 0 && !t.f.inside(pos+4, 1, align, at) {
		return 0, 0
	}
	return pos + 4, count
}

// text gives a string field of so many bytes, empty where it is absent and may be.
func (t *table) text(id int, least, most uint64, part string) string {
	pos := t.field(id, 4, 4)
	if pos != 0 {
		return t.f.stringAt(t.f.reference(pos), least, most, t.of(part))
	}
	if least > 0 {
		t.f.fail(t.of(part), "is missing")
	}
	return ""
}

// stringAt gives a string as it lies in the buffer, so that a thousand
// references to one cost no more than one.
func (f *flat) stringAt(pos, least, most uint64, at place) string {
	if !f.inside(pos, 4, 4, at) {
		return ""
	}
	size := uint64(flatbuffers.GetUint32(f.data[pos:]))
	if size < least || size > most {
		f.fail(at, Text("has %d bytes and should have %d to %d", size, least, most))
	}
	if !f.inside(pos+4, size+1, 1, at) {
		return ""
	}
	bytes := f.data[pos+4 : pos+4+size]
	if f.data[pos+4+size] != 0 {
		f.fail(at, "string is not zero-terminated")
	}
	if !utf8.Valid(bytes) {
		f.fail(at, "string is not UTF-8")
	}
	return unsafe.String(unsafe.SliceData(bytes), len(bytes))
}

// structs is a vector of fixed-size structs as a slice over the file itself.
func structs[T any](t *table, id int, countMax uint64, at place) []T {
	var element T
	first, count := t.vector(id, uint64(unsafe.Sizeof(element)), uint64(unsafe.Alignof(element)), countMax, at)
	if count == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&t.f.data[first])), count)
}

// structure is one fixed-size struct field.
func structure[T any](t *table, id int, part string) (value T) {
	pos := t.field(id, uint64(unsafe.Sizeof(value)), uint64(unsafe.Alignof(value)))
	if pos == 0 {
		t.f.fail(t.of(part), "is missing")
		return value
	}
	return *(*T)(unsafe.Pointer(&t.f.data[pos]))
}

// aligned tells whether the buffer's own address allows structs to be read in
// place. A mapped file always does.
func aligned(data []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(data)))%8 == 0
}
