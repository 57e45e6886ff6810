package main

/*
#include "lightmetal.h"

// C's const has no counterpart in Go, and cgo writes the names of these types
// into its prototypes, which the compiler then holds against the header's.
typedef const char *lm_text;
typedef const char *const *lm_texts;
typedef const void *lm_bytes;
*/
import "C"

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// The build fails where the header's structs are not the size of ours.
const (
	_ = -(unsafe.Sizeof(C.struct_lm_error{}) ^ unsafe.Sizeof(lastError{}))
	_ = -(unsafe.Sizeof(C.struct_lm_image{}) ^ unsafe.Sizeof(imageInfo{}))
	_ = -(unsafe.Sizeof(C.struct_lm_tensor{}) ^ unsafe.Sizeof(tensorInfo{}))
	_ = -(unsafe.Sizeof(C.struct_lm_version{}) ^ unsafe.Sizeof(versionInfo{}))
	_ = -(C.LM_ABI ^ abi)
	_ = -(C.LM_ANY_WINDOW ^ anyWindow)
)

//export lm_abi
func lm_abi() C.uint32_t { return C.uint32_t(abiVersion()) }

//export lm_version
func lm_version(info *C.struct_lm_version) C.int {
	return C.int(version((*versionInfo)(unsafe.Pointer(info))))
}

//export lm_open
func lm_open(path C.lm_text, handle *C.lm_handle) C.int {
	name, end := borrow(path, pathMax)
	if end.code != 0 {
		return C.int(without(end))
	}
	return C.int(openFile(string([]byte(name)), nil, (*int32)(handle)))
}

//export lm_open_signed
func lm_open_signed(path, keys C.lm_text, handle *C.lm_handle) C.int {
	name, end := borrow(path, pathMax)
	if end.code != 0 {
		return C.int(without(end))
	}
	text, end := borrow(keys, pathMax)
	if end.code != 0 {
		return C.int(without(end))
	}
	text = string([]byte(text))
	return C.int(openFile(string([]byte(name)), &text, (*int32)(handle)))
}

//export lm_open_memory
func lm_open_memory(data C.lm_bytes, size C.size_t, handle *C.lm_handle) C.int {
	if data == nil || uint64(size) > fbs.BytesMax {
		return C.int(without(usage("data is NULL, or size larger than any image")))
	}
	return C.int(openMemory(unsafe.Slice((*byte)(data), int(size)), (*int32)(handle)))
}

//export lm_longest
func lm_longest(h C.lm_handle, ns C.uint64_t) C.int { return C.int(longest(int32(h), uint64(ns))) }

//export lm_load
func lm_load(handle C.lm_handle, devices C.lm_texts, count C.uint32_t, window C.int32_t) C.int {
	if uint32(count) > fbs.TargetsMax || devices == nil && count != 0 {
		return C.int(misused(int32(handle), "count is larger than any image's, or devices is NULL and count is not 0"))
	}
	var names []string
	for _, device := range unsafe.Slice((**C.char)(devices), int(count)) {
		name := ""
		if device != nil {
			borrowed, end := borrow(device, pathMax)
			if end.code != 0 {
				return C.int(misused(int32(handle), end.reason))
			}
			name = string([]byte(borrowed))
		}
		names = append(names, name)
	}
	return C.int(load(int32(handle), names, int32(window)))
}

//export lm_freeze
func lm_freeze(handle C.lm_handle) C.int { return C.int(freeze(int32(handle))) }

//export lm_seal
func lm_seal(handle C.lm_handle) C.int { return C.int(seal(int32(handle))) }

//export lm_image_info
func lm_image_info(handle C.lm_handle, info *C.struct_lm_image) C.int {
	return C.int(describe(int32(handle), (*imageInfo)(unsafe.Pointer(info))))
}

//export lm_find_sequence
func lm_find_sequence(handle C.lm_handle, name C.lm_text, sequence *C.uint32_t) C.int {
	return named(handle, name, sequence, (*fbs.View).SequenceByName)
}

//export lm_find_tensor
func lm_find_tensor(handle C.lm_handle, name C.lm_text, tensor *C.uint32_t) C.int {
	return named(handle, name, tensor, (*fbs.View).TensorByName)
}

func named(handle C.lm_handle, name C.lm_text, index *C.uint32_t, in func(*fbs.View, string) int) C.int {
	wanted, end := borrow(name, nameMax)
	if end.code != 0 {
		return C.int(misused(int32(handle), end.reason))
	}
	return C.int(find(int32(handle), wanted, (*uint32)(index), in))
}

//export lm_sequence_name
func lm_sequence_name(handle C.lm_handle, sequence C.uint32_t, name *C.char, size C.size_t) C.int {
	return C.int(sequenceName(int32(handle), uint32(sequence), buffer(name, size)))
}

//export lm_tensor_info
func lm_tensor_info(handle C.lm_handle, tensor C.uint32_t, info *C.struct_lm_tensor) C.int {
	return C.int(describeTensor(int32(handle), uint32(tensor), (*tensorInfo)(unsafe.Pointer(info))))
}

//export lm_input
func lm_input(handle C.lm_handle, index C.uint32_t, size C.size_t, data *unsafe.Pointer) C.int {
	return arena(handle, index, size, gen.RoleInput, data)
}

//export lm_output
func lm_output(handle C.lm_handle, index C.uint32_t, size C.size_t, data *C.lm_bytes) C.int {
	return arena(handle, index, size, gen.RoleOutput, (*unsafe.Pointer)(data))
}

func arena(handle C.lm_handle, index C.uint32_t, size C.size_t, role gen.Role, data *unsafe.Pointer) C.int {
	if data == nil {
		return C.int(misused(int32(handle), "data is NULL"))
	}
	bytes, status := tensor(int32(handle), uint32(index), role, uint64(size))
	if status == 0 {
		*data = unsafe.Pointer(unsafe.SliceData(bytes))
	}
	return C.int(status)
}

//export lm_limit
func lm_limit(h C.lm_handle, ns C.uint64_t) C.int { return C.int(limit(int32(h), uint64(ns))) }

//export lm_run
func lm_run(h C.lm_handle, index C.uint32_t) C.int { return C.int(run(int32(h), uint32(index))) }

//export lm_last_error
func lm_last_error(handle C.lm_handle, info *C.struct_lm_error, text *C.char, size C.size_t) C.int {
	return C.int(lastErrorOf(int32(handle), (*lastError)(unsafe.Pointer(info)), buffer(text, size)))
}

//export lm_close
func lm_close(handle C.lm_handle) C.int { return C.int(closeImage(int32(handle))) }

// borrow is a C string without a copy, for as long as C keeps it.
func borrow(text *C.char, lengthMax int) (string, outcome) {
	if text == nil {
		return "", usage("a text is NULL")
	}
	first := (*byte)(unsafe.Pointer(text))
	for length := 0; length <= lengthMax; length++ {
		if *(*byte)(unsafe.Add(unsafe.Pointer(first), length)) == 0 {
			return unsafe.String(first, length), outcome{}
		}
	}
	return "", usage("a text is longer than it can be")
}

// buffer is the caller's buffer as a slice. No text needs more than a page.
func buffer(text *C.char, size C.size_t) []byte {
	if text == nil {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(text)), int(min(uint64(size), 4096)))
}
