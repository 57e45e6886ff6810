// Package metal is the host API of tt-metal, by its names and meaning, for
// programs whose work is to be captured: what such a program does to a device
// between LightMetalBeginCapture and LightMetalEndCapture becomes a Light Metal
// binary, which replays with none of it.
//
//	d, _ := metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole))
//	metal.LightMetalBeginCapture(d)
//	b, _ := metal.CreateBuffer(d, metal.BufferConfig{Size: 4096, PageSize: 1024, Type:
//
// metal.DRAM})
//
//	metal.EnqueueWriteBuffer(d.CommandQueue(), b, data, true)
//	binary, _ := metal.LightMetalEndCapture(d)
//
// A device may have hardware, a simulator or a mock behind it, and then every
// call takes effect on it; or nothing, and then calls are planned and recorded
// and nothing is computed. Either way a call is lowered to the same commands of
// package lmb, and hardware is driven by package runtime, as at replay.
//
// README.md compares the calls with upstream's; ABI.md is what kernels may rely
// on. Everything that can be refused is refused by the call that asks for it. A
// Device and what belongs to it are for one goroutine.
package metal
