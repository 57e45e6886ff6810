// Package runtime replays Light Metal binaries:
//
//	file, err := runtime.Open("model.lmb")     // map the file
//	view, err := file.Verify()                  // check all of it
//	replay, err := runtime.Load(view, runtime.AnySlot, device) // check the device, reserve
//
// everything
//
//	err = replay.Freeze()                       // nothing is allocated after this; see Alone
//	result := replay.Run(sequence)              // as often as wanted
//	replay.Close()
//
// From file to store:
//
//   - Open copies the envelope into memory of our own and maps the payload; Verify copies
//     recorded inputs before it reads them (file.go).
//   - Verify reads the table of vectors (fbs/flat.go), checks the tables and compares
//     them with each other (fbs/tables.go), and checks every command once; the same
//     loop computes the checksum and the longest time (fbs/commands.go).
//   - Load holds device and longest time against the image, maps windows, and takes
//     one arena for tensors. Points and Addresses are completed in a copy of the
//     commands: what registers are to hold that aim a window, and the bus address
//     (load.go). Two tables of addresses are left, one
//     of windows and one of memories.
//   - Run is a loop of walks (replay.go). A walk is one assembly routine over the
//     commands as they lie, hal/walk_arm64.s: it takes the address of a command's
//     window from the table, adds the offset, and makes the store. It ends at what
//     needs a decision: a check that does not hold, a wait, a call, a port.
//   - What ended it is for Replay.odd, which goes on behind it. What a command
//     means is written down in Go too, in hal/port.go and hal/oracle.go: for
//     ports, and for the tests of the assembly.
//
// Verify and Load trust nothing and check everything; Run checks nothing again.
//
// A Replay belongs to one goroutine. Nothing here prints, logs, reads the
// environment or exits.
package runtime
