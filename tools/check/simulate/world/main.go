//go:build world

package main

import (
	"flag"
	"fmt"
	"os"
	"time"
	"unsafe"
)

// main replaces the main function of the runner. It runs worlds until one of them reports an error.
func main() {
	firstSeed := flag.Uint64("from", 1, "first seed")
	minSeeds := flag.Uint64("seeds", 1, "minimum number of seeds")
	step := flag.Uint64("step", 1, "difference between consecutive seeds")
	minDuration := flag.Duration("for", 0, "minimum duration")
	verbose := flag.Bool("verbose", false, "print each step")
	flag.Parse()
	startTime, statuses, seeds := time.Now(), map[int]int{}, uint64(0)
	for ; seeds < *minSeeds || time.Since(startTime) < *minDuration; seeds++ {
		seed := *firstSeed + seeds**step
		firstError, hash, status := runWorld(seed, *verbose)
		statuses[status]++
		if firstError != "" {
			fmt.Printf("seed %d: %s\n"+
				"to see each step: go run ./tools/check/simulate -from %d -verbose\n",
				seed, firstError, seed)
			os.Exit(1)
		}
		if *verbose {
			fmt.Printf("seed %d: %016x, status %d\n", seed, hash, status)
		}
	}
	fmt.Printf("seeds %d in %v, worlds by exit status %v\n", seeds,
		time.Since(startTime).Round(time.Millisecond), statuses)
}

func memoryAt(address, size uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(address)), size)
}
