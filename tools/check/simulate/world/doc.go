//go:build !world

// What lies here is the inside of simulated worlds. It is no program of its own:
// tools/check/simulate builds it, with tag world, into the runner's, whose package it is.
package main

import "os"

func main() {
	_, _ = os.Stderr.WriteString("this is built by ./build.sh simulate\n")
	os.Exit(64)
}
