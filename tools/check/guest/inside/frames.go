package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"syscall"
)

func init() { scenarios["frames"] = framesFromPipes }

// framesFromPipes feeds lmrun, set up by a configuration, with numbers by a
// pipe, and holds what comes back by another against its own factorials. The
// end of the numbers is the end of lmrun, in order.
func framesFromPipes([]string) int {
	const config = "image factorial.lmb\nsequence compute\nloop forever\nseal\ndeadline 10s\n" +
		"input n=/tmp/in\noutput result=/tmp/out\n"
	const frames = 1000
	for _, path := range []string{"/tmp/in", "/tmp/out"} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			fmt.Println("inside:", err)
			return 1
		}
	}
	if err := os.WriteFile("/frames.conf", []byte(config), 0o600); err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	c, err := spawn("/lminit", "-config", "/frames.conf")
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	in, err := os.OpenFile("/tmp/in", os.O_WRONLY, 0)
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	out, err := os.Open("/tmp/out")
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	for i := range uint32(frames) {
		n, want := i%20, uint32(1)
		for k := uint32(2); k <= n; k++ {
			want *= k
		}
		var data [4]byte
		binary.LittleEndian.PutUint32(data[:], n)
		if _, err := in.Write(data[:]); err != nil {
			fmt.Println("inside: frame", i, err)
			return 1
		}
		if _, err := io.ReadFull(out, data[:]); err != nil {
			fmt.Println("inside: frame", i, err)
			return 1
		}
		if got := binary.LittleEndian.Uint32(data[:]); got != want {
			fmt.Printf("inside: frame %d: %d! is %d, got %d\n", i, n, want, got)
			return 1
		}
	}
	in.Close()
	return ended(c, 0)
}
