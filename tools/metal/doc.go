// Package metal is the host API of tt-metal, with the same names and meaning, for programs whose
// work is to be captured. Everything that such a program does to a device between
// LightMetalBeginCapture and LightMetalEndCapture becomes a Light Metal binary. A replay of the
// binary needs neither the program nor this package.
//
//	d, _ := metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole))
//	metal.LightMetalBeginCapture(d)
//	config := metal.BufferConfig{Size: 4096, PageSize: 1024, Type: metal.DRAM}
//	b, _ := metal.CreateBuffer(d, config)
//	metal.EnqueueWriteBuffer(d.CommandQueue(), b, data, true)
//	binary, _ := metal.LightMetalEndCapture(d)
//
// A Device may use hardware, a simulator or a mock; every call then takes effect on it. Without one
// of these, calls are planned and recorded, but nothing is computed. In both cases a call is
// converted to the same commands of package lmb, and package runtime executes them on the hardware,
// as in a replay.
//
// README.md compares the calls with those of tt-metal. ABI.md describes what kernels may rely on.
// The call that receives an invalid argument returns an error; no error is postponed to a later
// call. Only one goroutine may use a Device and its objects.
package metal
