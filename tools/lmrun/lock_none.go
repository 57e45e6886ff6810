//go:build nolock

package main

// This file replaces lock.go if lmrun is built with the tag nolock. In such a build,
// rejectOmittedOptions rejects -lock.

const (
	hasMemoryLock = false
	lockUsage     = ""
)
