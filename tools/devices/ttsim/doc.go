// Package ttsim implements hal.Device with Tenstorrent's simulator, libttsim.so. The user names the
// library: "ttsim:/path/libttsim.so"; it is not a part of lightmetal. The file docs/libttsim_api.md
// in github.com/tenstorrent/ttsim describes its interface.
//
// The library simulates one device per process, and ends the process with _Exit if it rejects an
// access. Therefore it runs in a child process, which executes the same program as its parent: main
// must call ChildMain before anything else. Device.Refusal returns the last message of the library.
//
// Host windows are memory of the parent, which executes the device's accesses to them. The device
// reaches only this memory of the host, through the outbound translation (iATU), which Map
// programs.
//
// A Fence command is a full barrier without doing anything: a store has reached the simulator when
// the store returns, and the simulator accesses host memory only while the parent waits for an
// answer.
//
// Time is virtual. The simulator advances only on request: by at least one clock cycle for a load,
// and by one clock cycle for each nanosecond of a Sleep, at most a million.
package ttsim
