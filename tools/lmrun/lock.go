//go:build !nolock

package main

// This file is part of an lmrun that can lock all its memory. In builds with the tag nolock, the
// file lock_none.go replaces this file.

const (
	hasLock   = true
	lockUsage = lockHelp
)
