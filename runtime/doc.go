// Package runtime replays Light Metal binaries:
//
//	file, err := runtime.Open("model.lmb")     // map the file
//	view, err := file.Verify()                  // check all of it
//	replay, err := runtime.Load(view, runtime.AnySlot, device) // check the device, reserve everything
//	err = replay.Freeze()                       // nothing is allocated after this
//	result := replay.Run(sequence)              // as often as wanted
//	replay.Close()
//
// Verify and Load trust nothing and check everything; Run checks nothing again. Start
// reading at replay.go, which holds the one loop and the one switch.
//
// A Replay belongs to one goroutine. Nothing here prints, logs, reads the
// environment or exits.
package runtime
