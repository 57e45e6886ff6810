package fbs

import "unsafe"

// Error says where a file is not a Light Metal image, and why.
type Error struct {
	Place  string // "preamble", "command 12", "tensor 3"
	Reason string // what is wrong, and what was expected
}

func (e *Error) Error() string { return e.Place + ": " + e.Reason }

// Table is the root table of a FlatBuffer that nobody has verified: every read
// is checked against the buffer, and the first failure is kept in Err. After a
// failure reads give nothing.
//
// FlatBuffers for Go has no verifier, and its generated accessors read what an
// offset says; see https://flatbuffers.dev/support.
type Table struct {
	Err      *Error
	data     []byte
	begin    uint64 // objects lie at or after it
	place    string
	position uint64
	size     uint64 // bytes of the table itself
	vtable   []byte // two sizes, then field offsets, two bytes each
}

// Root is the table at the position that data begins with, of a type with that
// many fields. Structs are read in place, so data lies at a multiple of 8.
func RootTable(data []byte, begin uint64, fields int, place string) *Table {
	t := &Table{data: data, begin: begin, place: place, position: uint64(ReadStruct[uint32](data))}
	t.failIf(uint64(len(data)) < begin+4 || uintptr(unsafe.Pointer(unsafe.SliceData(data)))%8 != 0,
		place, "is too short, or does not lie at a multiple of 8")
	vtable := t.position - uint64(int64(ReadStruct[int32](t.slice(t.position, 4, 4, place))))
	sizes := ReadStruct[[2]uint16](t.slice(vtable, 4, 2, place+" vtable"))
	size := uint64(sizes[0])
	t.size = uint64(sizes[1])
	t.failIf(size < 4 || size%2 != 0 || t.size < 4, place, "vtable has impossible sizes %d and %d",
		size, t.size)
	t.failIf(size > 4+2*uint64(fields), place, "has %d fields, the schema has %d", (size-4)/2,
		uint64(fields))
	t.vtable = t.slice(vtable, size, 2, place+" vtable")
	t.slice(t.position, t.size, 4, place)
	return t
}

//go:noinline
func (t *Table) failIf(holds bool, place, message string, numbers ...uint64) {
	if holds && t.Err == nil {
		t.Err = &Error{place, Text(message, numbers...)}
	}
}

// run is size bytes of the buffer, from a position on that is a multiple of align.
func (t *Table) slice(pos, size, align uint64, place string) []byte {
	all := uint64(len(t.data))
	t.failIf(pos < t.begin || pos > all || size > all-pos, place,
		"offset %x with %d bytes is outside the envelope of %d bytes", pos, size, all)
	t.failIf(pos%align != 0, place, "offset %x is not a multiple of %d", pos, align)
	if t.Err != nil {
		return nil
	}
	return t.data[pos:][:size]
}

// field gives the position of a field of size bytes, 0 where it is absent.
func (t *Table) fieldPosition(id int, size uint64) uint64 {
	offset := uint64(ReadStruct[uint16](t.vtable[min(4+2*id, len(t.vtable)):]))
	if offset == 0 || t.Err != nil {
		return 0
	}
	t.failIf(offset < 4 || offset > t.size ||
		size > t.size-offset, t.place, "field %d lies outside the table", uint64(id))
	return t.position + offset
}

// Struct is a number or a struct that is a field, zero where it is absent.
func StructField[T any](t *Table, id int) (value T) {
	size := uint64(unsafe.Sizeof(value))
	if pos := t.fieldPosition(id, size); pos != 0 {
		value = ReadStruct[T](t.slice(pos, size, uint64(unsafe.Alignof(value)), t.place))
	}
	return value
}

// Vector is a vector field of numbers or structs as a slice over the buffer
// itself, which begins at a multiple of align.
func VectorField[T any](t *Table, id int, align, countMax uint64, what string) []T {
	var element T
	size := unsafe.Sizeof(element)
	data := t.vectorBytes(id, align, uint64(size), countMax, what)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data))/size)
}

// vector is the elements of one as bytes.
func (t *Table) vectorBytes(id int, align, size, countMax uint64, what string) []byte {
	pos := t.fieldPosition(id, 4)
	if pos == 0 {
		return nil
	}
	pos += uint64(ReadStruct[uint32](t.slice(pos, 4, 4, t.place)))
	count := uint64(ReadStruct[uint32](t.slice(pos, 4, 4, what)))
	t.failIf(count > countMax, what, "count %d is over the limit of %d", count, countMax)
	if count == 0 {
		return nil
	}
	return t.slice(pos+4, count*size, align, what)
}
