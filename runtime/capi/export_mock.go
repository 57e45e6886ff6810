//go:build mock

package main

/*
#include <stdint.h>
*/
import "C"

// This file exports a function for the tests of the archive.

import "runtime"

// lm_mock_allocations sets three numbers: how many objects and how many bytes Go has allocated
// since the process started, and how many garbage collections Go has completed. Only tests call
// lm_mock_allocations.
//
//export lm_mock_allocations
func lm_mock_allocations(objects, bytes, collections *C.uint64_t) {
	runtime.ReadMemStats(&memoryStatistics)
	*objects, *bytes, *collections = C.uint64_t(memoryStatistics.Mallocs),
		C.uint64_t(memoryStatistics.TotalAlloc), C.uint64_t(memoryStatistics.NumGC)
}

// memoryStatistics is the buffer of lm_mock_allocations. It is a package variable, because Go would
// allocate a local variable on the heap, and this allocation would change the numbers.
var memoryStatistics runtime.MemStats
