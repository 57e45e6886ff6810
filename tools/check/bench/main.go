// Command bench compares the runtime with a C program that replays the same images on the same
// memory, with an empty Go program, and with limits. It prints a row for each goal. The loops of
// the C program are tuned for this machine. ./build.sh bench builds the programs and starts the
// bench.
//
// The compared programs run alternately, on one processor. Numbers are medians, and ratios are
// medians of the rounds' ratios. The exit status is 0 whether or not the goals are met.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// bench is one invocation of the program.
type bench struct {
	programDir string // contains the measured programs
	imageDir   string // contains the images, and is removed when all is measured
	testdata   string // contains recordings and listings
	rounds     int    // most other efforts are in proportion to it
	cpu        int
	images     int // number of images in imageDir
	rows       []row
}

// Numbers of rounds: with --full, without it, and with --once, whose results say nothing.
const fullRounds, quickRounds, onceRounds = 21, 7, 1

func main() {
	if run := tracedPrograms[os.Args[min(1, len(os.Args)-1)]]; run != nil {
		runTraced(run, os.Args[2], os.Args[3])
		return
	}
	full := flag.Bool("full", false, "everything, in about five minutes; without it, in one")
	once := flag.Bool("once", false,
		"measure each row in one short round, and print only how many can be measured")
	only := flag.String("only", "",
		"measure one `part` alone: writes, captures, blocks, load, start, memory, frames, record")
	dir := flag.String("dir", "build", "`folder` with the programs that build.sh makes")
	flag.Parse()
	b := &bench{programDir: *dir, testdata: "testdata", rounds: quickRounds, cpu: lastCPU()}
	switch {
	case *once:
		b.rounds = onceRounds
	case *full:
		b.rounds = fullRounds
	}
	header := b.header()
	if err := fail.Try(func() { b.run(*only) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if *once {
		printRowCount(os.Stdout, b.rows)
	} else {
		printTable(os.Stdout, header, b.rows)
	}
}

// lastCPU returns the number of the last processor that this process may use. Interrupts and other
// programs tend to use the first.
func lastCPU() (last int) {
	var set unix.CPUSet
	fail.On(unix.SchedGetaffinity(0, &set))
	for i := range 8 * int(unix.SizeofPtr) * len(set) {
		if set.IsSet(i) {
			last = i
		}
	}
	return last
}

// program returns the path of one of the measured programs.
func (b *bench) program(name string) string { return filepath.Join(b.programDir, "bench-"+name) }

// run measures all parts, or the one that --only names.
func (b *bench) run(only string) {
	b.imageDir = fail.Must(os.MkdirTemp(b.programDir, "bench-images-"))
	defer os.RemoveAll(b.imageDir)
	for _, part := range []struct {
		name    string
		measure func()
	}{
		{"writes", b.measureWrites},
		{"captures", b.measureCaptures},
		{"blocks", b.measureBlocks},
		{"load", b.measureLoads},
		{"start", b.measureStartUp},
		{"memory", b.measureMemory},
		{"frames", b.measureFrameTimes},
		{"record", b.measureRecordings},
	} {
		if only == "" || only == part.name {
			began := time.Now()
			part.measure()
			fmt.Fprintf(os.Stderr, "bench: %s, %.1f s\n", part.name, time.Since(began).Seconds())
		}
	}
	if len(b.rows) == 0 {
		fail.On(fmt.Errorf("there is no part %s; --help lists them", only))
	}
}
