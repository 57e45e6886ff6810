//go:build !nolock

package main

// This file makes lmrun accept -lock, which locks all memory of the process. In builds with the tag
// nolock, the file lock_none.go replaces this file.

const (
	hasMemoryLock = true
	lockUsage     = lockHelp
)
