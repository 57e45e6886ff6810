// Package mock is a strict stand-in for a device, in process. It refuses
// whatever a real device, or its maker's simulator, would refuse or silently
// get wrong: odd widths, misalignment, accesses that no rule of the board
// covers, windows that are not pointed or pointed badly, tiles and registers
// that are not there. It writes down what it saw, plays back what it should
// see, and fails on demand.
//
// Its clock is virtual: an access takes 100 ns, Sleep takes what it is asked
// for, and nothing else takes time. A Device belongs to one goroutine.
//
// Fence is a full barrier because every access, of device or host memory, has
// happened when it returns, and transfers happen within accesses.
package mock
