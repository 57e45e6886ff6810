package fbs

// This file reads a FlatBuffer that has not been verified. FlatBuffers for Go has no
// verifier (https://flatbuffers.dev/support), and its generated accessors trust every
// offset of the file.

import "unsafe"

// Error is the reason why a file is not a Light Metal image.
type Error struct {
	Place  string // "preamble", "command 12", "tensor 3"
	Reason string
}

func (e *Error) Error() string { return e.Place + ": " + e.Reason }

// Table is the root table of a FlatBuffer. Every read is checked against the bounds of
// the buffer. The first failure sets Err; all later reads return zeros.
type Table struct {
	Err      *Error
	data     []byte
	begin    uint64 // objects lie at this position or after it
	place    string // Error.Place of failures
	position uint64 // of the table
	size     uint64 // bytes of the table itself
	vtable   []byte // two sizes, then field offsets, two bytes each
}

// RootTable returns the table at the position that data begins with. Its type has the
// given number of fields. The address of data is a multiple of 8, as structs are read
// in place.
func RootTable(data []byte, begin uint64, fields int, place string) *Table {
	position := uint64(ReadStruct[uint32](data))
	t := &Table{data: data, begin: begin, place: place, position: position}
	aligned := uintptr(unsafe.Pointer(unsafe.SliceData(data)))%8 == 0
	if uint64(len(data)) < begin+4 || !aligned {
		t.fail(place, "is too short, or does not lie at a multiple of 8")
	}
	t.readVtable(fields)
	t.slice(t.position, t.size, 4, place)
	return t
}

// readVtable sets size and vtable. The table begins with the distance back to its vtable.
func (t *Table) readVtable(fields int) {
	place := t.place + " vtable"
	distance := ReadStruct[int32](t.slice(t.position, 4, 4, t.place))
	position := t.position - uint64(int64(distance))
	sizes := ReadStruct[[2]uint16](t.slice(position, 4, 2, place))
	size := uint64(sizes[0])
	t.size = uint64(sizes[1])
	if size < 4 || size%2 != 0 || t.size < 4 {
		t.fail(t.place, "vtable has impossible sizes %d and %d", size, t.size)
	}
	if size > 4+2*uint64(fields) {
		t.fail(t.place, "has %d fields, the schema has %d", (size-4)/2, uint64(fields))
	}
	t.vtable = t.slice(position, size, 2, place)
}

// fail sets Err, unless an earlier failure has set it. Inlined, it would take 1 KB more.
//
//go:noinline
func (t *Table) fail(place, message string, numbers ...uint64) {
	if t.Err == nil {
		t.Err = &Error{place, Text(message, numbers...)}
	}
}

// slice returns size bytes of the buffer at a position that is a multiple of align, or
// nil after a failure.
func (t *Table) slice(position, size, align uint64, place string) []byte {
	all := uint64(len(t.data))
	if position < t.begin || position > all || size > all-position {
		t.fail(place, "offset %x with %d bytes is outside the envelope of %d bytes",
			position, size, all)
	}
	if position%align != 0 {
		t.fail(place, "offset %x is not a multiple of %d", position, align)
	}
	if t.Err != nil {
		return nil
	}
	return t.data[position:][:size]
}

// fieldPosition returns the position of a field of size bytes, or 0 if it is absent.
func (t *Table) fieldPosition(id int, size uint64) uint64 {
	entry := min(4+2*id, len(t.vtable))
	offset := uint64(ReadStruct[uint16](t.vtable[entry:]))
	if offset == 0 || t.Err != nil {
		return 0
	}
	if offset < 4 || offset > t.size || size > t.size-offset {
		t.fail(t.place, "field %d lies outside the table", uint64(id))
	}
	return t.position + offset
}

// StructField returns a field that is a number or a struct, or zero if it is absent.
func StructField[T any](t *Table, id int) (value T) {
	size, align := uint64(unsafe.Sizeof(value)), uint64(unsafe.Alignof(value))
	if position := t.fieldPosition(id, size); position != 0 {
		value = ReadStruct[T](t.slice(position, size, align, t.place))
	}
	return value
}

// VectorField returns a field that is a vector of numbers or structs. The slice refers
// to the buffer. Its address is a multiple of align.
func VectorField[T any](t *Table, id int, align, countMax uint64, place string) []T {
	var element T
	size := unsafe.Sizeof(element)
	data := t.vectorBytes(id, align, uint64(size), countMax, place)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data))/size)
}

// vectorBytes returns the elements of a vector, of size bytes each.
func (t *Table) vectorBytes(id int, align, size, countMax uint64, place string) []byte {
	position := t.fieldPosition(id, 4)
	if position == 0 {
		return nil
	}
	position += uint64(ReadStruct[uint32](t.slice(position, 4, 4, t.place)))
	count := uint64(ReadStruct[uint32](t.slice(position, 4, 4, place)))
	if count > countMax {
		t.fail(place, "count %d is over the limit of %d", count, countMax)
	}
	if count == 0 {
		return nil
	}
	return t.slice(position+4, count*size, align, place)
}
