//go:build mock

package main

/*
#include <stdint.h>
*/
import "C"

import "runtime"

// lm_mock_allocations returns the numbers of objects and bytes that Go has allocated since the
// process started, and the number of garbage collections. Only tests call it.
//
//export lm_mock_allocations
func lm_mock_allocations(objects, bytes, collections *C.uint64_t) {
	runtime.ReadMemStats(&statistics)
	*objects, *bytes, *collections = C.uint64_t(statistics.Mallocs),
		C.uint64_t(statistics.TotalAlloc), C.uint64_t(statistics.NumGC)
}

// statistics is a variable of the package because lm_mock_allocations must not allocate.
var statistics runtime.MemStats
