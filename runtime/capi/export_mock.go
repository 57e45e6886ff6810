//go:build mock

package main

/*
#include <stdint.h>
*/
import "C"

import "runtime"

// lm_mock_allocations sets how many objects and bytes Go has allocated since the process started,
// and how many garbage collections it has completed. Only tests call it.
//
//export lm_mock_allocations
func lm_mock_allocations(objects, bytes, collections *C.uint64_t) {
	runtime.ReadMemStats(&memoryStatistics)
	*objects, *bytes, *collections = C.uint64_t(memoryStatistics.Mallocs),
		C.uint64_t(memoryStatistics.TotalAlloc), C.uint64_t(memoryStatistics.NumGC)
}

// memoryStatistics would be allocated on the heap, and counted, as a local variable.
var memoryStatistics runtime.MemStats
