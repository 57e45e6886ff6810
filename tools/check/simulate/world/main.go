//go:build world

package main

import (
	"flag"
	"fmt"
	"os"
	"time"
	"unsafe"
)

// main takes the place of the runner's: it lets worlds go by until one has
// something in it that must not be.
func main() {
	from := flag.Uint64("from", 1, "the first seed")
	count := flag.Uint64("seeds", 1, "how many")
	step := flag.Uint64("step", 1, "from one seed to the next")
	limit := flag.Duration("for", 0, "until so much time is over")
	talk := flag.Bool("talk", false, "print every step")
	flag.Parse()
	began, ended, seeds := time.Now(), map[int]int{}, uint64(0)
	for ; seeds < *count || time.Since(began) < *limit; seeds++ {
		seed := *from + seeds**step
		wrong, hash, status := play(seed, *talk)
		ended[status]++
		if wrong != "" {
			fmt.Printf("seed %d: %s\n"+
				"again, step by step: go run ./tools/check/simulate -from %d -talk\n",
				seed, wrong, seed)
			os.Exit(1)
		}
		if *talk {
			fmt.Printf("seed %d: %016x, status %d\n", seed, hash, status)
		}
	}
	fmt.Printf("seeds %d in %v, ended %v\n", seeds, time.Since(began).Round(time.Millisecond),
		ended)
}

func bytesOf(address, size uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(address)), size)
}
