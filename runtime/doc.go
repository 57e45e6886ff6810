// Package runtime replays Light Metal images on PCIe devices. An image is a file that contains
// commands for devices, and the data that these commands copy. A command is for example "store 1 in
// the register at offset 0x20 of BAR 0". To replay an image means to execute its commands:
//
//	file, err := runtime.Open("model.lmb")      // map the file
//	view, err := file.Verify()                  // check every byte
//	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device) // reserve memory and windows
//	err = replay.Freeze()                       // prepare runs that allocate no memory
//	result := replay.Run(sequence)              // execute a sequence, as often as needed
//	replay.Close()                              // stop DMA, free the memory
//
// # Terms
//
// A sequence is a list of commands with a name, for example "main". Run executes one sequence.
//
// A window is a range of addresses that commands load from or store to. A command names its window
// and an offset in the window. There are four kinds of windows: a range of a BAR, a buffer in host
// memory that the device accesses by DMA, PCI configuration space, and a TLB window.
//
// A TLB window is a range of a BAR that the device maps to an address inside the chip. A Point
// command selects this address.
//
// A tensor is an array of numbers. Commands copy data from an input tensor to a device, and from a
// device to an output tensor.
//
// The arena is one block of memory for all tensors. The payload is the part of the file that
// contains data, for example the default data of inputs.
//
// # From file to store
//
// This section follows one command from the image file to the device. The command is a Write: it
// stores a value in a register.
//
// Open (file.go): The file begins with the envelope, which contains tables and all commands. The
// payload follows. Open maps the file, then copies the envelope into private memory. Therefore no
// other process can change the Write from now on. If the file must have a signature, the caller
// calls Inspect (inspect.go) before Verify, to check the signature.
//
// Verify (file.go): First, Verify checks the tables (fbs/flat.go, fbs/tables.go). One table lists
// the windows of the image. The Write names its window by an index in this table. Second, Verify
// checks all commands in one pass (fbs/commands.go). The pass rejects the image if, for example,
// the Write stores outside its window, or if the register does not accept a store of this width.
// The pass also computes the checksum of the commands, and the longest time that each sequence may
// take (fbs/opcodes.go). Third, Verify copies the default data of inputs into private memory. Last,
// it computes the checksums of the payload, and compares them with the checksums in the envelope.
//
// Load (load.go): First, Load checks that the caller's devices are the devices that the image is
// for, and that no sequence may take too long. Second, it reserves the arena and maps the windows.
// Third, it builds two tables of addresses: one of windows, one of the payload and tensors. The
// Write does not change, because it contains an index in the table of windows instead of an
// address. But two other commands need values that become known only now: a Relocate stores the bus
// address of a window in a register, and a Point programs a TLB window. If the image has such
// commands, Load writes these values into a copy of the commands.
//
// Freeze (freeze.go): Freeze locks the commands and the arena into memory, and turns Go's garbage
// collector off. The caller may then call Seal (seal.go). From then on, the kernel kills the
// process if the process makes a system call that runs do not need.
//
// StartDMA (load.go): The first run enables bus mastering, so that devices can access the host
// memory of the image. Everything that may fail or wait comes before.
//
// Run (replay.go): Run executes the commands of a sequence in their order. A loop in assembly, the
// walk, executes most commands (hal/walk.go, hal/walk_arm64.s, hal/walk_amd64.s). For the Write,
// the walk loads the address of the window from the table, adds the offset of the register, and
// stores the value at the sum. This is the store to the device.
//
// The walk can only load from and store to mapped memory. It stops at a command that needs more:
// for example at a delay, at a call of another sequence, or at an expect if the register does not
// have the expected value. Replay.finishCommand then executes the rest of that command in Go, and
// the walk continues with the next command.
//
// Configuration space and the windows of mock devices are not mapped memory. Commands access such
// windows through methods of an interface, hal.Port. If the device of the Write is a mock, the walk
// stops at the Write, and Walk.ExecuteOnPort executes the Write in Go (hal/port.go).
//
// If a command fails, the sequence ends. Run then executes the sequence with the name "safe", if
// the image has one, and rejects all later runs.
//
// Close (load.go): Close disables bus mastering of all devices, which stops their DMA. Then Close
// frees the arena.
//
// # Properties
//
// Verify and Load check everything that an image contains. Therefore Run does not check the
// commands again. Run checks only the values that it loads from devices, and the time that it
// takes.
//
// hal/oracle.go defines in Go the effect of commands. Tests compare the assembly with that code.
//
// Only one goroutine may use a Replay. The package does not print, log, read the environment or
// end the process.
package runtime
