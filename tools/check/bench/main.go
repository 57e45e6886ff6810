// Command bench compares the runtime with a C program that replays the same images on the same
// memory, with an empty Go program, and with limits. It prints a row for each goal. The loops of
// the C program are tuned for this machine. ./build.sh bench builds the programs and starts the
// bench.
//
// The compared programs run alternately, on one processor. Numbers are medians, and ratios are
// medians of the rounds' ratios. The exit status is 0 whether or not the goals are met.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// bench is one invocation of the program.
type bench struct {
	programDir   string // contains the measured programs
	imageDir     string // contains the images, and is removed when all is measured
	testdata     string // contains recordings and listings
	childProgram string
	tunedProgram string // in C
	idleProgram  string // an empty Go program
	effort       effort
	cpu          int
	onlyPart     string // name of the only part to measure; empty: all parts
	progress     io.Writer
	images       int // number of images in imageDir
	rows         []row
}

// effort says how much is measured.
type effort struct {
	name           string
	rounds         int
	minTime        time.Duration // least duration of one sample of a request
	processStarts  int           // rounds of processes whose start is measured
	frameRounds    int
	framesPerRound int
	recordings     int // rounds of recorded processes
	accesses       int // of each recorded process
	copied         int // bytes of the recorded copy
}

var (
	fullEffort = effort{name: "full", rounds: 21, minTime: 20 * time.Millisecond,
		processStarts: 210, frameRounds: 20, framesPerRound: 2000,
		recordings: 9, accesses: 20_000, copied: copySize}
	quickEffort = effort{name: "quick", rounds: 9, minTime: 4 * time.Millisecond,
		processStarts: 90, frameRounds: 4, framesPerRound: 1000,
		recordings: 3, accesses: 2_000, copied: copySize}
	onceEffort = effort{name: "once", rounds: 1,
		processStarts: 1, frameRounds: 1, framesPerRound: 100,
		recordings: 1, accesses: 200, copied: copySize / 100}
)

func main() {
	code, err := hal.Usage, error(nil) // for errors of cobra
	if run := childMode(os.Args[1:]); run != nil {
		code, err = hal.Internal, fail.Try(run)
	} else if err = newCommand().Execute(); err != nil {
		if fault := (*hal.Fault)(nil); errors.As(err, &fault) {
			code = fault.Code
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(code.ExitStatus())
	}
}

// newCommand returns the command line of the bench. Its flags have the same form as those of lm.
func newCommand() *cobra.Command {
	var full, once, asJSON bool
	var tablePath, onlyPart, programDir string
	c := &cobra.Command{
		Use:           "bench",
		Short:         "measure the runtime beside plain C on the same images and memory",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := newBench(programDir, selectEffort(full, once))
			b.onlyPart = onlyPart
			if !slices.ContainsFunc(b.parts(),
				func(p part) bool { return onlyPart == "" || p.name == onlyPart }) {
				return fmt.Errorf("--only %s: there is no such part; --help lists them", onlyPart)
			}
			header := b.header()
			if err := b.run(); err != nil {
				return &hal.Fault{Code: hal.Internal, Reason: err.Error()}
			}
			if once {
				printRowCount(os.Stdout, b.rows)
				return nil
			}
			return hal.FileFault("the table", b.writeReport(header, asJSON, tablePath))
		},
	}
	flags := c.Flags()
	flags.BoolVar(&full, "full", false,
		"everything, in about five minutes; without it, under a minute")
	flags.BoolVar(&once, "once", false,
		"measure each row in one short round, and print only how many can be measured")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.StringVar(&tablePath, "write", "", "write the table to this `file` too")
	flags.StringVar(&onlyPart, "only", "",
		"measure one `part` alone: writes, captures, blocks, load, start, memory, frames, record")
	flags.StringVar(&programDir, "dir", "build", "`folder` with the programs that build.sh makes")
	for _, other := range []string{"full", "json", "write"} {
		c.MarkFlagsMutuallyExclusive("once", other)
	}
	return c
}

func selectEffort(full, once bool) effort {
	switch {
	case once:
		return onceEffort
	case full:
		return fullEffort
	}
	return quickEffort
}

// childMode returns the function to run if the bench has started this process itself. For a normal
// invocation, the function is nil.
func childMode(args []string) func() {
	switch {
	case len(args) == 3 && args[0] == "-record":
		return func() { recordSelf(args[1], args[2]) }
	case len(args) == 2 && tracedPrograms[args[0]] != nil:
		return func() { runTraced(args[0], args[1]) }
	}
	return nil
}

func newBench(programDir string, effort effort) *bench {
	b := &bench{
		programDir: programDir, testdata: "testdata",
		childProgram: filepath.Join(programDir, "bench-child"),
		tunedProgram: filepath.Join(programDir, "bench-tuned"),
		idleProgram:  filepath.Join(programDir, "bench-idle"),
		effort:       effort, cpu: lastCPU(), progress: io.Discard,
	}
	if status, err := os.Stderr.Stat(); err == nil && status.Mode()&os.ModeCharDevice != 0 {
		b.progress = os.Stderr
	}
	return b
}

// lastCPU returns the number of the last processor that this process may use. Interrupts and other
// programs tend to use the first.
func lastCPU() int {
	var set unix.CPUSet
	last := 0
	if err := unix.SchedGetaffinity(0, &set); err == nil {
		for i := range 8 * int(unix.SizeofPtr) * len(set) {
			if set.IsSet(i) {
				last = i
			}
		}
	}
	return last
}

// run measures all parts, or the one that --only names.
func (b *bench) run() (err error) {
	if b.imageDir, err = os.MkdirTemp(b.programDir, "bench-images-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.imageDir)
	for _, part := range b.parts() {
		if b.onlyPart != "" && b.onlyPart != part.name {
			continue
		}
		began := time.Now()
		fmt.Fprintf(b.progress, "bench: %s ...", part.name)
		if err := fail.Try(part.run); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(b.progress, " %.1f s\n", time.Since(began).Seconds())
	}
	return nil
}

// part is a group of measurements with a name for --only.
type part struct {
	name string
	run  func()
}

func (b *bench) parts() []part {
	return []part{
		{"writes", b.measureWrites},
		{"captures", b.measureCaptures},
		{"blocks", b.measureBlocks},
		{"load", b.measureLoads},
		{"start", b.measureStartUp},
		{"memory", b.measureMemory},
		{"frames", b.measureFrameTimes},
		{"record", b.measureRecordings},
	}
}
