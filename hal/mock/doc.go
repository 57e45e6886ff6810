// Package mock implements mocks: software models of PCIe devices that run in this process.
// There is a mock of each board in package boards. A mock is stricter than hardware. It
// rejects an access that hardware or the maker's simulator rejects, and also an access that
// they execute wrongly without an error. Examples are: an invalid width, a misaligned
// address, an access that no rule of the board covers, a TLB window that no Point command
// has programmed or that has an invalid configuration, and a tile or register that does not
// exist. A mock can also record all accesses, play back a recording, and inject faults.
//
// The clock of a mock is virtual: an access takes 100 ns, Sleep takes the requested time, and
// nothing else takes time. Only one goroutine may use a Device.
//
// A Fence needs no work: every access to the device or to host memory is complete when its
// function returns, and DMA transfers happen only during accesses and Sleep.
package mock
