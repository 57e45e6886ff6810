// Package runtime replays Light Metal images on devices:
//
//	file, err := runtime.Open("model.lmb")      // map the file
//	view, err := file.Verify()                  // check every byte
//	replay, err := runtime.Load(view, runtime.AnySlot, device) // check the device, reserve
//	err = replay.Freeze()                       // allocate nothing from here on
//	result := replay.Run(sequence)              // as often as wanted
//	replay.Close()                              // stop DMA, free the memory
//
// From file to store, step by step:
//
//   - Open copies the envelope (tables and commands) into private memory and maps the payload
//     (file.go). Inspect shows the bytes to a function that checks a signature (inspect.go).
//   - Verify checks the tables (fbs/flat.go, fbs/tables.go), then every command in one pass,
//     which also sums up the checksum and the worst-case time (fbs/commands.go, fbs/times.go).
//     It copies the default data of inputs before it reads them.
//   - Load compares the image with the devices, maps the windows and reserves one arena for all
//     tensors. In a copy of the commands it replaces each Relocate by a Write of the bus address,
//     and puts the register values of the TLB window into each Point (load.go). It leaves two
//     tables of addresses: one of windows and registers, one of payload and tensors.
//   - Freeze locks commands and arena into memory and turns the garbage collector off
//     (freeze.go). Seal then has the kernel kill the process if it asks for anything more
//     (seal.go).
//   - Run executes a sequence as a loop of walks (replay.go). A walk is one assembly routine
//     (hal/walk_arm64.s) that executes commands in place: it takes the address of the window
//     from the table, adds the offset, and loads or stores. It stops at a command that needs a
//     decision: an expectation that is not met, a wait, a call, or a window without an address.
//     Replay.handleStop finishes that command, and the next walk starts after it.
//   - Close stops DMA and frees the arena.
//
// Windows that have no address, such as configuration space and the devices of tests, are
// ports: hal/port.go executes their commands in Go. hal/oracle.go states in Go what every
// command does; tests compare the assembly with it.
//
// Verify and Load trust nothing and check everything; Run checks nothing again.
//
// A Replay belongs to one goroutine. The package does not print, log, read the environment or
// end the process.
package runtime
