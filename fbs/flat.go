package fbs

// This file reads a FlatBuffer from an image that may be damaged or malicious. It checks every
// offset in the image before it uses the offset. The Go library of FlatBuffers has no function
// that verifies a buffer (https://flatbuffers.dev/support), and the accessors that flatc
// generates use the offsets without a check.

import "unsafe"

// Error reports why a file is not a valid Light Metal image.
type Error struct {
	Place  string // part of the file that is invalid, for example "preamble" or "command 12"
	Reason string // reason why the part is invalid
	// Command is 1 + the index of the invalid command; 0: another part is invalid.
	Command int
}

// Error returns the place and the reason, separated by a colon.
func (e *Error) Error() string { return e.Place + ": " + e.Reason }

// Table reads the fields of a FlatBuffer's root table. Each read first checks that the bytes of the
// field lie inside the FlatBuffer. If this check fails, the read sets Err, and all later reads
// return zeros and do not change Err.
type Table struct {
	Err             *Error // first failure of a read; nil if every read has succeeded
	data            []byte // the whole FlatBuffer
	minObjectOffset uint64 // smallest offset that a table, vtable or vector may have
	place           string // name of the table in errors
	position        uint64 // offset of the table in the FlatBuffer
	size            uint64 // size of the table in bytes, without its vectors
	vtable          []byte // 16-bit numbers: size of the vtable, size of the table, field offsets
}

// RootTable returns the root table of a FlatBuffer. The parameters are:
//
//	data             bytes of the FlatBuffer; the first 4 bytes are the offset of the root table
//	minObjectOffset  smallest offset in the FlatBuffer that a table, vtable or vector may have
//	fieldCount       number of fields that the schema declares for the table
//	place            name of the table in errors
//
// The address of the FlatBuffer must be a multiple of 8, because structs are read in place. If the
// FlatBuffer has no valid root table, RootTable sets Err of the result.
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

// readVtable sets t.vtable and t.size. The vtable of a table lists the offset of each field in the
// table. The first 4 bytes of the table are a signed number: the position of the table minus the
// position of the vtable.
func (t *Table) readVtable(fieldCount int) {
	place := t.place + " vtable"
	distance := ReadStruct[int32](t.bytesAt(t.position, 4, 4, t.place))
	position := t.position - uint64(int64(distance))
	sizes := ReadStruct[[2]uint16](t.bytesAt(position, 4, 2, place))
	size := uint64(sizes[0])
	t.size = uint64(sizes[1])
	if size < 4 || size%2 != 0 || t.size < 4 {
		t.setFirstError(t.place, "invalid size: vtable has %d bytes, table has %d",
			size, t.size)
	}
	if size > 4+2*uint64(fieldCount) {
		t.setFirstError(t.place, "has %d fields, but this program knows %d", (size-4)/2,
			uint64(fieldCount))
	}
	t.vtable = t.bytesAt(position, size, 2, place)
}

// setFirstError sets Err, unless an earlier failure has set Err. The function Text formats the
// message with the numbers. The compiler must not inline setFirstError, because inlining makes the
// program 1 KB larger.
//
//go:noinline
func (t *Table) setFirstError(place, format string, numbers ...uint64) {
	if t.Err == nil {
		t.Err = &Error{Place: place, Reason: Text(format, numbers...)}
	}
}

// bytesAt returns `size` bytes of the FlatBuffer from the given position on. It sets Err if the
// bytes are not inside the FlatBuffer, or if the position is not a multiple of `align`. If Err
// is set, bytesAt returns nil. The parameter `place` names the bytes in errors.
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

// fieldPosition returns the position of a field in the FlatBuffer. The parameter `id` is the
// number of the field in the schema. The parameter `size` is the size of the field in bytes.
// fieldPosition returns 0 if the field is absent, or if an earlier read has set Err. It sets Err if
// a part of the field lies outside the table.
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

// StructField returns the value of a field whose type is a number or a struct. The parameter
// `id` is the number of the field in the schema. StructField returns zero if the field is
// absent or invalid.
func StructField[T any](t *Table, id int) (value T) {
	size, align := uint64(unsafe.Sizeof(value)), uint64(unsafe.Alignof(value))
	if position := t.fieldPosition(id, size); position != 0 {
		value = ReadStruct[T](t.bytesAt(position, size, align, t.place))
	}
	return value
}

// VectorField returns the elements of a field whose type is a vector of numbers or structs. The
// slice points into the FlatBuffer. The slice is empty if the field is absent or invalid. The
// parameter `id` is the number of the field in the schema. The parameter `place` names the
// vector in errors. A vector is invalid if the offset of its elements is not a multiple of
// `align`, or if it has more than countMax elements.
func VectorField[T any](t *Table, id int, align, countMax uint64, place string) []T {
	var element T
	size := unsafe.Sizeof(element)
	data := t.vectorBytes(id, align, uint64(size), countMax, place)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data))/size)
}

// vectorBytes returns the elements of a vector as bytes. The parameter `size` is the size of
// one element in bytes. The other parameters are those of VectorField. vectorBytes returns nil
// if the vector is absent, empty or invalid.
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
