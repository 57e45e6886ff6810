// Command idle is an empty Go program whose status the bench reads while it runs: it writes a byte,
// then waits until its input ends.
package main

import "syscall"

func main() {
	var b [1]byte
	syscall.Write(1, b[:])
	syscall.Read(0, b[:])
}
