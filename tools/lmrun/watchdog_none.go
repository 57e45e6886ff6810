//go:build nowatchdog

package main

// This file replaces watchdog.go if lmrun is built with the tag nowatchdog. checkBuild rejects
// -watchdog in such a build.

const (
	hasWatchdog   = false
	watchdogUsage = ""
)

type watchdog struct{}

func parseWatchdog(string) (w watchdog, err error) { return w, nil }
func (*watchdog) start() error                     { return nil }
func (*watchdog) feed(int64)                       {}
func (*watchdog) stop()                            {}
