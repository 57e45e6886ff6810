package fbs

// This file reads a FlatBuffer that has not been verified. FlatBuffers for Go has no
// verifier (https://flatbuffers.dev/support), and its generated accessors trust every
// offset of the file.

import "unsafe"

// Error reports why a file is not a valid Light Metal image.
type Error struct {
	Place  string // invalid part of the file: "preamble", "command 12", "tensor 3"
	Reason string // problem of that part
}

func (e *Error) Error() string { return e.Place + ": " + e.Reason }

// Table is the root table of a FlatBuffer. Each read first checks that the bytes lie inside
// the buffer. The first failure sets Err. After a failure, all reads return zeros.
type Table struct {
	Err          *Error // first failure; nil if every read has succeeded
	data         []byte // the whole FlatBuffer
	objectsBegin uint64 // offset in data; bytes before it belong to no object
	place        string // Error.Place of a failure in the table itself
	position     uint64 // offset of the table in data
	size         uint64 // bytes of the table itself
	vtable       []byte // size of the vtable, size of the table, field offsets; 2 bytes each
}

// RootTable returns the root table of the FlatBuffer in data. The first 4 bytes of data are
// the position of the table. The schema declares fieldCount fields. No object lies before
// the offset objectsBegin. The address of data must be a multiple of 8, because structs are
// read in place. place names the table in errors.
func RootTable(data []byte, objectsBegin uint64, fieldCount int, place string) *Table {
	position := uint64(ReadStruct[uint32](data))
	t := &Table{data: data, objectsBegin: objectsBegin, place: place, position: position}
	aligned := uintptr(unsafe.Pointer(unsafe.SliceData(data)))%8 == 0
	if uint64(len(data)) < objectsBegin+4 || !aligned {
		t.setError(place, "is too short, or its address is not a multiple of 8")
	}
	t.readVtable(fieldCount)
	t.bytesAt(t.position, t.size, 4, place)
	return t
}

// readVtable sets size and vtable. A table begins with a signed 32-bit distance: the position of
// the table minus the position of its vtable.
func (t *Table) readVtable(fieldCount int) {
	place := t.place + " vtable"
	distance := ReadStruct[int32](t.bytesAt(t.position, 4, 4, t.place))
	position := t.position - uint64(int64(distance))
	sizes := ReadStruct[[2]uint16](t.bytesAt(position, 4, 2, place))
	size := uint64(sizes[0])
	t.size = uint64(sizes[1])
	if size < 4 || size%2 != 0 || t.size < 4 {
		t.setError(t.place, "vtable has invalid sizes %d and %d", size, t.size)
	}
	if size > 4+2*uint64(fieldCount) {
		t.setError(t.place, "has %d fields, but the schema has %d", (size-4)/2, uint64(fieldCount))
	}
	t.vtable = t.bytesAt(position, size, 2, place)
}

// setError sets Err, unless Err already has an earlier failure. It is not inlined, because
// the program would then be 1 KB larger.
//
//go:noinline
func (t *Table) setError(place, message string, numbers ...uint64) {
	if t.Err == nil {
		t.Err = &Error{place, Text(message, numbers...)}
	}
}

// bytesAt returns size bytes of the buffer, starting at the given position. It is a failure
// if the position is not a multiple of align. After a failure bytesAt returns nil.
func (t *Table) bytesAt(position, size, align uint64, place string) []byte {
	all := uint64(len(t.data))
	if position < t.objectsBegin || position > all || size > all-position {
		t.setError(place, "%x bytes at offset %x reach outside the envelope of %x bytes",
			size, position, all)
	}
	if position%align != 0 {
		t.setError(place, "offset %x is not a multiple of %d", position, align)
	}
	if t.Err != nil {
		return nil
	}
	return t.data[position:][:size]
}

// fieldPosition returns the position of a field of size bytes, or 0 if the field is absent.
// id is the number of the field in the schema.
func (t *Table) fieldPosition(id int, size uint64) uint64 {
	entry := min(4+2*id, len(t.vtable))
	offset := uint64(ReadStruct[uint16](t.vtable[entry:]))
	if offset == 0 || t.Err != nil {
		return 0
	}
	if offset < 4 || offset > t.size || size > t.size-offset {
		t.setError(t.place, "field %d lies outside the table", uint64(id))
	}
	return t.position + offset
}

// StructField returns the value of a field that is a number or a struct. It returns zero if
// the field is absent. id is the number of the field in the schema.
func StructField[T any](t *Table, id int) (value T) {
	size, align := uint64(unsafe.Sizeof(value)), uint64(unsafe.Alignof(value))
	if position := t.fieldPosition(id, size); position != 0 {
		value = ReadStruct[T](t.bytesAt(position, size, align, t.place))
	}
	return value
}

// VectorField returns a field that is a vector of numbers or structs. The slice points into
// the buffer. It is a failure if the address of the slice is not a multiple of align, or if
// the vector has more than countMax elements.
func VectorField[T any](t *Table, id int, align, countMax uint64, place string) []T {
	var element T
	size := unsafe.Sizeof(element)
	data := t.vectorBytes(id, align, uint64(size), countMax, place)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data))/size)
}

// vectorBytes returns the bytes of the elements of a vector. Each element has size bytes.
func (t *Table) vectorBytes(id int, align, size, countMax uint64, place string) []byte {
	position := t.fieldPosition(id, 4)
	if position == 0 {
		return nil
	}
	position += uint64(ReadStruct[uint32](t.bytesAt(position, 4, 4, t.place)))
	count := uint64(ReadStruct[uint32](t.bytesAt(position, 4, 4, place)))
	if count > countMax {
		t.setError(place, "count %d is over the limit of %d", count, countMax)
	}
	if count == 0 {
		return nil
	}
	return t.bytesAt(position+4, count*size, align, place)
}
