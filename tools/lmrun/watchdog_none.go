//go:build nowatchdog

package main

// This file replaces watchdog.go if lmrun is built with the tag nowatchdog. In such a build,
// rejectOmittedOptions rejects -watchdog.

const (
	hasWatchdog   = false
	watchdogUsage = ""
)

// watchdog has the methods of the type watchdog in watchdog.go, so that the other files compile.
// These methods do nothing.
type watchdog struct{}

func parseWatchdog(text string) (w watchdog, err error) { return w, nil }
func (*watchdog) start() error                          { return nil }
func (*watchdog) feed(nowNs int64)                      {}
func (*watchdog) stop()                                 {}
