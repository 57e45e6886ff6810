package main

import (
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// Package os/signal would bring package os with it, 128 KB. These are the two
// functions of Go's runtime that it calls.

//go:linkname enableSignal os/signal.signal_enable
func enableSignal(signal uint32)

//go:linkname receiveSignal os/signal.signal_recv
func receiveSignal() uint32

// listen gives the signals that end lmrun in order as they come. To process 1
// they mean what they mean to busybox's init: SIGUSR1 halt, SIGUSR2 power off,
// the others reboot.
func listen() <-chan unix.Signal {
	signals := make(chan unix.Signal, 1)
	for _, signal := range [...]unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
		enableSignal(uint32(signal))
	}
	go func() {
		for {
			signals <- unix.Signal(receiveSignal())
		}
	}()
	return signals
}
