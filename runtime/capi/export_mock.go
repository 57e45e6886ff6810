//go:build mock

package main

/*
#include <stdint.h>
*/
import "C"

// This file exports a function for the tests of the archive.

import "runtime"

// lm_mock_allocations sets three numbers: the objects and bytes that Go has allocated since the
// process started, and the number of garbage collections. Only tests call it.
//
//export lm_mock_allocations
func lm_mock_allocations(objects, bytes, collections *C.uint64_t) {
	runtime.ReadMemStats(&statistics)
	*objects, *bytes, *collections = C.uint64_t(statistics.Mallocs),
		C.uint64_t(statistics.TotalAlloc), C.uint64_t(statistics.NumGC)
}

// statistics is the buffer of lm_mock_allocations. It is a variable of the package, because a local
// variable would be allocated on the heap and so change the numbers.
var statistics runtime.MemStats
