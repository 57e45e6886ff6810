package main

import (
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// Package os/signal would bring package os with it: 14 KB, and work before
// main. These are the two functions of Go's runtime that it calls.

//go:linkname enableSignal os/signal.signal_enable
func enableSignal(signal uint32)

//go:linkname receiveSignal os/signal.signal_recv
func receiveSignal() uint32

// listen gives signals as they come, instead of their ending the process.
func listen(which ...unix.Signal) <-chan unix.Signal {
	signals := make(chan unix.Signal, 1)
	for _, signal := range which {
		enableSignal(uint32(signal))
	}
	go func() {
		for {
			signals <- unix.Signal(receiveSignal())
		}
	}()
	return signals
}
