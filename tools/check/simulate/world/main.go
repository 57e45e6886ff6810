//go:build world

package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"lightmetal/tools/check/simulate/kernel"
)

// main replaces the main function of the runner. It runs worlds until one of them reports an error.
func main() {
	firstSeed := flag.Uint64("from", 1, "first seed")
	minSeeds := flag.Uint64("seeds", 1, "minimum number of seeds")
	step := flag.Uint64("step", 1, "difference between consecutive seeds")
	only := flag.String("only", "", "the seeds, with commas between, instead of these")
	mutants := flag.String("mutants", "", "print which seeds reach the mutants with these numbers")
	minDuration := flag.Duration("for", 0, "minimum duration")
	verbose := flag.Bool("verbose", false, "print each step")
	flag.Parse()
	startTime, statuses, seeds := time.Now(), map[int]int{}, uint64(0)
	listed, reached := splitNumbers(*only), newReachedMutants(splitNumbers(*mutants))
	if len(listed) > 0 {
		*minSeeds = uint64(len(listed))
	}
	for ; seeds < *minSeeds || time.Since(startTime) < *minDuration; seeds++ {
		seed := *firstSeed + seeds**step
		if len(listed) > 0 {
			seed = listed[seeds]
		}
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
		reached.add(seed)
	}
	fmt.Printf("seeds %d in %v, worlds by exit status %v\n", seeds,
		time.Since(startTime).Round(time.Millisecond), statuses)
	reached.print()
}

// splitNumbers splits numbers with commas between them.
func splitNumbers(text string) (list []uint64) {
	for word := range strings.SplitSeq(text, ",") {
		if n, err := strconv.ParseUint(word, 10, 64); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// reachedMutants collects which seeds reach mutants.
type reachedMutants struct {
	numbers []uint64
	atInit  []bool // before the first world: all seeds reach the mutant
	seeds   []string
}

func newReachedMutants(numbers []uint64) *reachedMutants {
	r := &reachedMutants{numbers: numbers, seeds: make([]string, len(numbers))}
	for _, n := range numbers {
		r.atInit = append(r.atInit, kernel.Reached[n])
	}
	clear(kernel.Reached[:])
	return r
}

// add adds a seed after its world.
func (r *reachedMutants) add(seed uint64) {
	for i, n := range r.numbers {
		if r.atInit[i] || kernel.Reached[n] {
			r.seeds[i] += fmt.Sprint(",", seed)
		}
	}
	clear(kernel.Reached[:])
}

// print prints a line for each mutant: its number, and the seeds with commas between them.
func (r *reachedMutants) print() {
	for i, n := range r.numbers {
		fmt.Printf("mutant %d %s\n", n, strings.TrimPrefix(r.seeds[i], ","))
	}
}

func memoryAt(address, size uintptr) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(address)), size)
}
