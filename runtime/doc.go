// Package runtime replays Light Metal images on PCIe devices: it executes their commands, such as
// "store 1 in the register at offset 0x20 of BAR 0", and copies their data.
//
//	file, err := runtime.Open("model.lmb")      // map the file
//	view, err := file.Verify()                  // check every byte
//	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device) // reserve memory and windows
//	err = replay.Freeze()                       // prepare runs that allocate no memory
//	result := replay.Run(sequence)              // execute a sequence, as often as needed
//	replay.Close()                              // stop DMA, free the memory
//
// Verify and Load check everything that an image contains; Run checks only what it loads from
// devices, and its time. Only one goroutine may use a Replay. The package does not print, log, read
// the environment or end the process.
//
// # Terms
//
// A sequence is a list of commands with a name, for example "main".
//
// A window is what a command accesses: a range of a BAR, a buffer in host memory for DMA,
// configuration space, or a TLB window. A TLB window is a range of a BAR that the device maps to an
// address inside the chip, which a Point command selects.
//
// A tensor is an array of numbers that commands copy to a device (input) or from it (output). The
// arena is one block of memory for all tensors.
//
// # From file to store
//
// This is the way of one command, a Write of a register.
//
// Open (file.go) maps the file. Its first part, the envelope, has tables and all commands: Open
// copies it into private memory, where no process can change the Write. The rest is the payload,
// the data. Inspect (inspect.go) lets the caller check a signature now.
//
// Verify (file.go, fbs/view.go, fbs/signature.go) checks the tables, one of which lists the windows
// (fbs/flat.go, fbs/tables.go), then the commands (fbs/commands.go): it rejects, for example, a
// Write outside its window, or of a width that the register does not accept (fbs/access.go, by the
// rules of package boards), and computes the longest time of each sequence (fbs/opcodes.go). Last,
// it copies the default data of inputs, and checks the payload's checksums.
//
// The caller opens the devices: ids and sizes of BARs come from the kernel (hal/sysfs_linux.go).
// Load (load.go) checks the devices, the longest times and the available memory (memory.go),
// reserves the arena, and maps the windows (Device.Map: hal/device_linux.go; host memory:
// hal/hostmem_linux.go; its bus addresses: the file of the backend, such as hal/vfio_linux.go with
// hal/vfio_group_linux.go, and hal/outbound_linux.go for tiles). The first Map locks the device and
// switches memory decoding on (hal/config_linux.go). Load builds a table of the addresses of
// windows, and one of payload and tensors. The Write (fbs/layout.go) has an index in the first
// table, but a Relocate stores the bus address of a window, and a Point programs a TLB window: Load
// writes their values into a copy of the commands. Replay.Input returns the arena's bytes of an
// input, into which lmrun reads: a file once, a pipe before each run (tools/lmrun/stream.go;
// opening it: tools/lmrun/files).
//
// Freeze (freeze.go) locks commands and arena into memory and turns Go's garbage collector off
// (golang.go, or golang_debug.go with -tags nolinkname). LockMemory (lock.go) locks the rest. After
// Seal (seal.go), the kernel kills the process if it makes a system call that runs do not need.
//
// Run (replay.go) first enables bus mastering, unless the caller has: StartDMA (load.go, then
// hal/busmaster_linux.go). Then the walk, a loop in assembly (hal/walk.go, hal/walk_arm64.s,
// hal/walk_amd64.s), executes the commands. For the Write, it adds the register's offset to the
// window's address, and stores the value there.
//
// The walk stops at a command that needs more than mapped memory, such as a delay, a call, or a
// poll, which is an Expect that waits. Replay.finishCommand executes the rest in Go. A poll ends
// when ConditionMet (fbs/opcodes.go) says so; it pauses by Device.Sleep (hal/clock_linux.go,
// hal/system_linux.go), or until an interrupt (hal/vectors_linux.go). Configuration space and mocks
// are not memory but a hal.Port: there, Walk.ExecuteOnPort (hal/port.go) executes the Write.
//
// A memory fault is a panic (hal/memfault.go), which becomes a code (recover.go). After a load of
// only ones, Device.Alive (hal/device_linux.go) says whether the device is gone. After each failed
// Expect, Device.Diagnose looks for a better reason: a device that is gone, or DMA that failed
// (hal/config_linux.go, hal/busmaster_linux.go). After a failure, Run executes the sequence "safe",
// if the image has one, and rejects all later runs. Package report makes the text of a Result;
// hal/code.go has the exit status of each code.
//
// Close (load.go) stops the DMA of all devices, then frees the arena. lmrun calls only StopDMA,
// then Device.Close: its process ends, and after Seal it may not unmap memory.
package runtime
