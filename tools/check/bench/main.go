// Command bench measures the runtime against C programs that replay the same images on the same
// memory, and prints a row for each goal. One C program has loops that are tuned for this machine;
// the other is the freestanding player in runtime/c, whose ratios have no goals. ./build.sh bench
// builds what the bench needs and starts it.
//
// The measured programs run alternately on one processor. Numbers are medians, and ratios are
// medians of the rounds' ratios. The exit status is 0 whether or not the goals are met.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// bench is one invocation of the program.
type bench struct {
	programDir   string // contains the measured programs, and images while they are measured
	testdata     string // contains recordings and listings
	childProgram string
	cPrograms    // the programs in C
	full         bool
	rounds       int
	minTime      time.Duration // least duration of one measurement
	cpu          int
	onlyPart     string // name of the only part to measure; empty: all parts
	progress     io.Writer
	rows         []row
	playerRows   []row // compare our walk with the player in C
}

// cPrograms are the paths of the programs in tools/check/bench/c.
type cPrograms struct {
	tuned, player string
}

func main() {
	code, err := hal.Usage, error(nil) // for errors of cobra
	if run, failureCode := childMode(os.Args[1:]); run != nil {
		code, err = failureCode, fail.Try(run)
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
	var full, asJSON bool
	var tablePath, onlyPart, programDir string
	c := &cobra.Command{
		Use:           "bench",
		Short:         "measure the runtime beside plain C on the same images and memory",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := newBench(programDir, full)
			b.onlyPart = onlyPart
			if !slices.ContainsFunc(b.parts(),
				func(p part) bool { return onlyPart == "" || p.name == onlyPart }) {
				return fmt.Errorf("--only %s: there is no such part; --help lists them", onlyPart)
			}
			if err := b.run(); err != nil {
				return &hal.Fault{Code: hal.Internal, Reason: err.Error()}
			}
			return hal.FileFault("the table", b.writeReport(asJSON, tablePath))
		},
	}
	flags := c.Flags()
	flags.BoolVar(&full, "full", false,
		"everything, in about five minutes; without it, under a minute")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.StringVar(&tablePath, "write", "", "write the table to this `file` too")
	flags.StringVar(&onlyPart, "only", "",
		"measure one `part` alone: writes, captures, blocks, load, start, size, residency, "+
			"still, frames, record")
	flags.StringVar(&programDir, "dir", "build", "`folder` with the programs that build.sh makes")
	return c
}

// childMode returns the function to run if the bench has started this process itself, or if
// ./build.sh cross has. failureCode is the code of an error of run. For a normal invocation, run is
// nil.
func childMode(args []string) (run func(), failureCode hal.Code) {
	switch {
	case len(args) == 3 && args[0] == "-record":
		return func() { recordSelf(args[1], args[2]) }, hal.Internal
	case len(args) == 2 && args[0] == "-touch":
		return func() { fmt.Println(timeAccessCalls(fail.Must(strconv.Atoi(args[1])))) },
			hal.Internal
	case len(args) == 2 && args[0] == "-loop":
		return func() { fmt.Println(timeAccessLoop(fail.Must(strconv.Atoi(args[1])))) },
			hal.Internal
	case len(args) == 2 && args[0] == "-fill":
		return func() { fmt.Println(timeCopies(fail.Must(strconv.Atoi(args[1])))) }, hal.Internal
	case len(args) == 2 && args[0] == "-call":
		return func() { makeSystemCalls(fail.Must(strconv.Atoi(args[1]))) }, hal.Internal
	case len(args) == 3 && args[0] == "-beyond":
		return func() {
			excess, _ := sizeBeyondEmpty(args[1], args[2])
			fmt.Println(excess)
		}, hal.NoFile
	}
	return nil, hal.OK
}

func newBench(programDir string, full bool) *bench {
	b := &bench{
		programDir: programDir, testdata: "testdata",
		childProgram: filepath.Join(programDir, "bench-child"),
		cPrograms: cPrograms{
			tuned:  filepath.Join(programDir, "bench-tuned"),
			player: filepath.Join(programDir, "bench-player"),
		},
		full:   full,
		rounds: 9, minTime: 4 * time.Millisecond, cpu: lastCPU(), progress: io.Discard,
	}
	if full {
		b.rounds, b.minTime = 21, 20*time.Millisecond
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
func (b *bench) run() error {
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
	b.add(b.playerRows...)
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
		{"size", b.measureSizes},
		{"residency", b.measureResidency},
		{"still", b.measureAfterFreeze},
		{"frames", b.measureFrameTimes},
		{"record", b.measureRecordings},
	}
}

func (b *bench) add(rows ...row) { b.rows = append(b.rows, rows...) }

// writeImage writes an image to a file and returns its path and size. The function remove deletes
// the file.
func (b *bench) writeImage(name string, image *lmb.Image) (path string, size int64,
	remove func()) {
	file := fail.Must(lmb.Encode(image))
	// The name contains the process id: if another process has mapped the same file, writing to the
	// file would cause a bus error in that process.
	path = filepath.Join(b.programDir, fmt.Sprintf("bench-%s-%d.lmb", name, os.Getpid()))
	fail.On(files.Write(path, file, 0o644, files.OpenToReplace))
	return path, int64(len(file)), func() { os.Remove(path) }
}

// withPair starts all sides on an image, calls measure, and stops the sides.
func (b *bench) withPair(name string, image *lmb.Image, measure func(p *pair, size int64)) {
	b.withPairOnMemory(name, image, nil, measure)
}

// withPairOnMemory does the same with device memory that begins with the bytes of before.
func (b *bench) withPairOnMemory(name string, image *lmb.Image, before []byte,
	measure func(p *pair, size int64)) {
	path, size, remove := b.writeImage(name, image)
	defer remove()
	p := b.startPair(path, before)
	measure(p, size)
	p.stop()
}

// header returns lines that describe what was measured, where and when.
func (b *bench) header() []string {
	mode := "quick"
	if b.full {
		mode = "full"
	}
	return []string{
		"commit: " + commandOutput("git", "describe", "--always", "--dirty"),
		"processor: " + processorName() + fmt.Sprintf(", %d online, measured on number %d",
			runtime.NumCPU(), b.cpu),
		"system: " + commandOutput("uname", "-srm"),
		"go: " + runtime.Version() + "; C: " +
			strings.SplitN(commandOutput("gcc", "--version"), "\n", 2)[0] + ", -O2",
		fmt.Sprintf("mode: %s, %d rounds, load before %s", mode, b.rounds, loadAverage()),
	}
}

func commandOutput(name string, arguments ...string) string {
	text, err := exec.Command(name, arguments...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

func processorName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, name, found := strings.Cut(line, ":"); found &&
			strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(name)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	word, _, _ := strings.Cut(string(text), " ")
	return word
}

func (b *bench) writeReport(asJSON bool, tablePath string) error {
	header := b.header()
	if asJSON {
		if err := printJSON(os.Stdout, header, b.rows); err != nil {
			return err
		}
	} else {
		out := bufio.NewWriter(os.Stdout)
		b.printTable(out, header)
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if tablePath == "" {
		return nil
	}
	var text bytes.Buffer
	b.printTable(&text, header)
	return files.Write(tablePath, text.Bytes(), 0o666, files.OpenToReplace)
}

func (b *bench) printTable(w io.Writer, header []string) {
	for _, line := range header {
		fmt.Fprintln(w, "#", line)
	}
	fmt.Fprintln(w)
	printRows(w, b.rows)
	met, goals := 0, 0
	for i := range b.rows {
		if b.rows[i].Met != nil {
			goals++
			if *b.rows[i].Met {
				met++
			}
		}
	}
	fmt.Fprintf(w, "\n%d of %d goals met\n", met, goals)
}
