// Package mock implements mocks (device models) of the boards in this process. A mock is
// strict: it rejects what the device or its maker's simulator rejects or handles wrongly
// without notice. That is: invalid widths, misaligned accesses, accesses that no rule of
// the board covers, TLB windows that are not pointed or pointed wrongly, and tiles and
// registers that do not exist. A mock can also record all accesses, play a recording back,
// and inject faults.
//
// The clock is virtual: an access takes 100 ns, Sleep takes the requested time, and nothing
// else takes time. Only one goroutine may use a Device.
//
// A Fence is a full barrier because every access to the device or to host memory is complete
// when it returns, and DMA transfers happen during accesses.
package mock
