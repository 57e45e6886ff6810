// Package runtime replays Light Metal images on devices:
//
//	file, err := runtime.Open("model.lmb")      // map the file
//	view, err := file.Verify()                  // check every byte
//	replay, err := runtime.Load(view, runtime.AnySlot, device) // reserve memory and windows
//	err = replay.Freeze()                       // prepare runs that allocate no memory
//	result := replay.Run(sequence)              // repeat this as often as needed
//	replay.Close()                              // stop DMA, free the memory
//
// # From file to store
//
// This section follows one command, a Write to a register, from the image file to the store on
// the device.
//
// Open: an image file consists of an envelope, which contains tables and commands, and of a
// payload, which contains the data of tensors. Open copies the envelope into private memory, so
// that other processes cannot change the Write any more, and maps the payload (file.go). A caller
// that checks a signature does so at this point, with Inspect (inspect.go).
//
// Verify: it first checks the tables, among them the entry of the window that the Write names
// (fbs/flat.go, fbs/tables.go). Then it checks every command in one pass (fbs/commands.go). The
// pass rejects the image if, for example, the Write exceeds its window or has a width that the
// register does not accept. The same pass computes the checksum of the commands and the longest
// time that each sequence may take (fbs/times.go). Verify ends with the payload: it copies the
// default data of inputs into private memory, then compares the checksums of the payload.
//
// Load: it checks that the given devices are those that the image is for, maps the windows, and
// reserves one block of memory, the arena, for all tensors (load.go). It stores the addresses in
// two tables: one of windows and registers, one of the payload and tensors. The Write stays as it
// is, because it names its window by an index into the first table. Two other commands need
// values that are known only now; Load fills them in, in a copy of the commands: a Relocate
// becomes a Write of a bus address, and a Point gets the register values that set its TLB window.
//
// Freeze: it locks the commands and the arena into memory, and turns the garbage collector off
// (freeze.go). A caller may then call Seal, after which the kernel kills the process if it makes
// a system call that runs do not need (seal.go).
//
// Run: it executes one sequence of commands as a series of walks (replay.go). A walk is a loop in
// assembly over the commands (hal/walk_arm64.s). For the Write it reads the address of the window
// from the table, adds the offset of the register, and stores the value there. If a command needs
// more than loads and stores, the walk stops at the command: an expectation that is not met, a
// delay, a call of a sequence, or a window that is not mapped memory. Replay.handleStop executes
// the rest of this command in Go, and the next walk begins after it.
//
// A window that is not mapped memory is called a port. Ports are configuration space and the
// windows of mock devices. If the window of the Write is a port, the walk stops at the Write, and
// hal/port.go executes it in Go.
//
// Close: it stops DMA of all devices and frees the arena.
//
// # Properties
//
// Verify and Load check everything that an image contains. Therefore Run checks nothing again: at
// that time only the values that devices return are unknown.
//
// hal/oracle.go defines in Go the effect of every command; tests compare the assembly with it.
//
// Only one goroutine may use a Replay. The package does not print, log, read the environment or
// end the process.
package runtime
