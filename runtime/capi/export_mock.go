//go:build mock

package main

/*
#include <stdint.h>
*/
import "C"

import "runtime"

// lm_mock_allocations returns how many objects and bytes Go has allocated so far, and the number
// of collections. It is for tests.
//
//export lm_mock_allocations
func lm_mock_allocations(objects, bytes, collections *C.uint64_t) {
	runtime.ReadMemStats(&statistics)
	*objects, *bytes, *collections = C.uint64_t(statistics.Mallocs),
		C.uint64_t(statistics.TotalAlloc), C.uint64_t(statistics.NumGC)
}

var statistics runtime.MemStats
