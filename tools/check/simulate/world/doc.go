//go:build !world

// This folder contains the simulated worlds. It is not a separate program: with the tag world,
// tools/check/simulate builds these files as a part of the runner's package main.
package main

import "os"

func main() {
	_, _ = os.Stderr.WriteString("./build.sh simulate builds and runs this program\n")
	os.Exit(64)
}
