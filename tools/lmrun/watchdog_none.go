//go:build nowatchdog

package main

// This file replaces watchdog.go in a program without -watchdog.

const (
	hasWatchdog   = false
	watchdogUsage = ""
)

type watchdog struct{}

func parseWatchdog(string) (w watchdog, err error) { return w, nil }
func (*watchdog) start() error                     { return nil }
func (*watchdog) feed(int64)                       {}
func (*watchdog) stop()                            {}
