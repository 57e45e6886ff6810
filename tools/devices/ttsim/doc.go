// Package ttsim drives Tenstorrent's simulator, libttsim.so, as a hal.Device.
// The user names a library of their own: "ttsim:/path/libttsim.so"; nothing of
// it is part of lightmetal. Its interface is docs/libttsim_api.md in
// github.com/tenstorrent/ttsim.
//
// The library simulates one device per process and ends the process with _Exit
// on any access it rejects. So it runs in a child process, which is this
// program started once more: main must call ChildMain before anything else.
// What the library printed last is kept, and Device.Refusal gives it.
//
// Host windows are memory of this process, which carries out what the device does
// to it. The device reaches it where the iATU, which Map aims, shows it to tiles, and
// nothing else of the host.
//
// Fence is a full barrier because a store has reached the simulator when it
// returns, and the simulator reaches host memory only while it is waited for.
//
// Time is virtual. The simulator only moves when it is told to: one clock for
// a load, one for each nanosecond of a Sleep.
package ttsim
