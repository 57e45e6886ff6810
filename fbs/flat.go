package fbs

// FlatBuffers has no verifier for Go (https://flatbuffers.dev/support), and flatc's accessors use
// offsets without a check. So this reader checks each offset of an untrusted image.

import "unsafe"

// Error reports why a file is not a valid Light Metal image.
type Error struct {
	Place   string // invalid part of the file, such as "preamble" or "command 12"
	Reason  string
	Command int // 1 + the index of the invalid command; 0: another part is invalid
}

// Error returns the place and the reason, separated by a colon.
func (e *Error) Error() string { return e.Place + ": " + e.Reason }

// Table reads the fields of a FlatBuffer's root table. A read of bytes that lie outside the
// FlatBuffer sets Err; from then on, reads return zeros.
type Table struct {
	Err             *Error // of the first read that failed
	data            []byte // the whole FlatBuffer
	minObjectOffset uint64 // smallest offset that a table, vtable or vector may have
	place           string // name of the table in errors
	position        uint64
	size            uint64 // of the table in bytes, without its vectors
	vtable          []byte // 16-bit numbers: size of the vtable, size of the table, field offsets
}

// RootTable returns the root table of a FlatBuffer; its Err is set if it is invalid. The address of
// data must be a multiple of 8, because structs are read in place. Tables, vtables and vectors must
// begin at minObjectOffset or later. The schema has fieldCount fields. Errors call the table
// `place`.
func RootTable(data []byte, minObjectOffset uint64, fieldCount int, place string) *Table {
	position := uint64(ReadStruct[uint32](data))
	t := &Table{data: data, minObjectOffset: minObjectOffset, place: place, position: position}
	aligned := uintptr(unsafe.Pointer(unsafe.SliceData(data)))%8 == 0
	if uint64(len(data)) < minObjectOffset+4 {
		t.setFirstError(place, "%d bytes are too few for a FlatBuffer", uint64(len(data)))
	}
	if !aligned {
		t.setFirstError(place, "address in memory must be a multiple of 8")
	}
	t.readVtable(fieldCount)
	t.bytesAt(t.position, t.size, 4, place)
	return t
}

// readVtable sets t.vtable and t.size. A table begins with a signed number, its position minus that
// of its vtable.
func (t *Table) readVtable(fieldCount int) {
	place := t.place + " vtable"
	distance := ReadStruct[int32](t.bytesAt(t.position, 4, 4, t.place))
	position := t.position - uint64(int64(distance))
	sizes := ReadStruct[[2]uint16](t.bytesAt(position, 4, 2, place))
	size := uint64(sizes[0])
	t.size = uint64(sizes[1])
	if size < 4 || size%2 != 0 || t.size < 4 {
		t.setFirstError(t.place, "invalid size: vtable has %d bytes, table has %d", size, t.size)
	}
	if size > 4+2*uint64(fieldCount) {
		t.setFirstError(t.place, "has %d fields, but this program knows %d", (size-4)/2,
			uint64(fieldCount))
	}
	t.vtable = t.bytesAt(position, size, 2, place)
}

// Inlining setFirstError would enlarge the program.
//
//go:noinline
func (t *Table) setFirstError(place, format string, numbers ...uint64) {
	if t.Err == nil {
		t.Err = &Error{Place: place, Reason: Text(format, numbers...)}
	}
}

// bytesAt sets Err unless the bytes lie in the FlatBuffer and position is a multiple of align. It
// returns nil if Err is set.
func (t *Table) bytesAt(position, size, align uint64, place string) []byte {
	all := uint64(len(t.data))
	if position < t.minObjectOffset || position > all || size > all-position {
		t.setFirstError(place, "%x bytes at offset %x must lie between offsets %x and %x", size,
			position, t.minObjectOffset, all)
	}
	if position%align != 0 {
		t.setFirstError(place, "offset %x is not a multiple of %d", position, align)
	}
	if t.Err != nil {
		return nil
	}
	return t.data[position:][:size]
}

// fieldPosition returns the position of field number id in the FlatBuffer, or 0 if it is absent, or
// if an earlier read has set Err.
func (t *Table) fieldPosition(id int, size uint64) uint64 {
	entry := min(4+2*id, len(t.vtable))
	offset := uint64(ReadStruct[uint16](t.vtable[entry:]))
	if offset == 0 || t.Err != nil {
		return 0
	}
	if offset < 4 || offset > t.size || size > t.size-offset {
		t.setFirstError(t.place, "field %d lies outside the table", uint64(id))
	}
	return t.position + offset
}

// StructField returns the number or struct in the field with the number `id` in the schema, or zero
// if the field is absent or invalid.
func StructField[T any](t *Table, id int) (value T) {
	size, align := uint64(unsafe.Sizeof(value)), uint64(unsafe.Alignof(value))
	if position := t.fieldPosition(id, size); position != 0 {
		value = ReadStruct[T](t.bytesAt(position, size, align, t.place))
	}
	return value
}

// VectorField returns the vector of numbers or structs in the field with the number `id`, without a
// copy. The slice is empty if the field is absent or invalid, for example if its offset is not a
// multiple of `align`, or it has more than countMax elements. Errors call it `place`.
func VectorField[T any](t *Table, id int, align, countMax uint64, place string) []T {
	var element T
	size := unsafe.Sizeof(element)
	data := t.vectorBytes(id, align, uint64(size), countMax, place)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data))/size)
}

// vectorBytes returns the bytes of a vector of elements of `size` bytes, or nil if it is empty.
func (t *Table) vectorBytes(id int, align, size, countMax uint64, place string) []byte {
	position := t.fieldPosition(id, 4)
	if position == 0 {
		return nil
	}
	position += uint64(ReadStruct[uint32](t.bytesAt(position, 4, 4, t.place)))
	count := uint64(ReadStruct[uint32](t.bytesAt(position, 4, 4, place)))
	if count > countMax {
		t.setFirstError(place, "count %d is over the limit of %d", count, countMax)
	}
	if count == 0 {
		return nil
	}
	return t.bytesAt(position+4, count*size, align, place)
}
