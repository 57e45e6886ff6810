// Command bench measures the runtime against C that replays the same images on the
// same memory, and prints a row for each goal: against loops that are tuned for this
// machine and, as a ratio without a goal, against the freestanding player in runtime/c.
// ./build.sh bench builds what it needs and starts it.
//
// Every measurement is one of alternating runs on one processor; numbers are
// medians, ratios are medians of the rounds' ratios. It exits 0 whether or not
// a goal is met.
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

// bench is one invocation.
type bench struct {
	dir        string // of programs and images
	testdata   string // of recordings and listings
	child      string
	cPrograms  // in C: tuned loops, and the player
	full       bool
	rounds     int
	atLeast    time.Duration // of one measurement
	cpu        int
	only       string // part that is measured alone, empty: all
	progress   io.Writer
	rows       []row
	playerRows []row // of the player in C beside our walk
}

// cPrograms are the paths of the programs in tools/check/bench/c.
type cPrograms struct {
	tuned, player string
}

func main() {
	code, err := hal.Usage, error(nil) // of what cobra says
	if run, failed := asChild(os.Args[1:]); run != nil {
		code, err = failed, fail.Try(run)
	} else if err = command().Execute(); err != nil {
		if fault := (*hal.Fault)(nil); errors.As(err, &fault) {
			code = fault.Code
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(code.ExitStatus())
	}
}

// command is what a user starts; its flags are as lm's.
func command() *cobra.Command {
	var full, asJSON bool
	var write, only, dir string
	c := &cobra.Command{
		Use:           "bench",
		Short:         "measure the runtime beside plain C on the same images and memory",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := newBench(dir, full)
			b.only = only
			if !slices.ContainsFunc(b.parts(),
				func(p part) bool { return only == "" || p.name == only }) {
				return fmt.Errorf("--only %s: there is no such part; --help lists them", only)
			}
			if err := b.run(); err != nil {
				return &hal.Fault{Code: hal.Internal, Reason: err.Error()}
			}
			return hal.FileFault("the table", b.report(asJSON, write))
		},
	}
	flags := c.Flags()
	flags.BoolVar(&full, "full", false,
		"everything, in about five minutes; without it, under a minute")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.StringVar(&write, "write", "", "write the table to this `file` too")
	flags.StringVar(&only, "only", "",
		"measure one `part` alone: writes, captures, blocks, load, start, size, residency, "+
			"still, frames, record")
	flags.StringVar(&dir, "dir", "build", "`folder` with the programs that build.sh makes")
	return c
}

// asChild is what this program does once more, for recordings, and for ./build.sh
// cross, with the code of its failure; nil where it measures.
func asChild(args []string) (run func(), failed hal.Code) {
	switch {
	case len(args) == 3 && args[0] == "-record":
		return func() { recordChild(args[1], args[2]) }, hal.Internal
	case len(args) == 2 && args[0] == "-touch":
		return func() { fmt.Println(touch(fail.Must(strconv.Atoi(args[1])))) }, hal.Internal
	case len(args) == 2 && args[0] == "-loop":
		return func() { fmt.Println(loop(fail.Must(strconv.Atoi(args[1])))) }, hal.Internal
	case len(args) == 2 && args[0] == "-fill":
		return func() { fmt.Println(fill(fail.Must(strconv.Atoi(args[1])))) }, hal.Internal
	case len(args) == 2 && args[0] == "-call":
		return func() { makeCalls(fail.Must(strconv.Atoi(args[1]))) }, hal.Internal
	case len(args) == 3 && args[0] == "-beyond":
		return func() {
			excess, _ := beyond(args[1], args[2])
			fmt.Println(excess)
		}, hal.NoFile
	}
	return nil, hal.OK
}

func newBench(dir string, full bool) *bench {
	b := &bench{
		dir: dir, testdata: "testdata", child: filepath.Join(dir, "bench-child"),
		cPrograms: cPrograms{filepath.Join(dir, "bench-tuned"), filepath.Join(dir, "bench-player")},
		full:      full,
		rounds:    9, atLeast: 4 * time.Millisecond, cpu: lastCPU(), progress: io.Discard,
	}
	if full {
		b.rounds, b.atLeast = 21, 20*time.Millisecond
	}
	if status, err := os.Stderr.Stat(); err == nil && status.Mode()&os.ModeCharDevice != 0 {
		b.progress = os.Stderr
	}
	return b
}

// lastCPU is the last processor this process may use; interrupts and other
// programs tend to sit on the first.
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

// run measures everything.
func (b *bench) run() error {
	for _, part := range b.parts() {
		if b.only != "" && b.only != part.name {
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

// part is what is measured by itself.
type part struct {
	name string
	run  func()
}

func (b *bench) parts() []part {
	return []part{
		{"writes", b.writes},
		{"captures", b.captures},
		{"blocks", b.blocks},
		{"load", b.loads},
		{"start", b.startUp},
		{"size", b.sizes},
		{"residency", b.residency},
		{"still", b.still},
		{"frames", b.frameTimes},
		{"record", b.recordings},
	}
}

func (b *bench) add(rows ...row) { b.rows = append(b.rows, rows...) }

// image writes an image and gives its path and size. The file is removed by done.
func (b *bench) image(name string, image *lmb.Image) (path string, size int64, done func()) {
	file := fail.Must(lmb.Encode(image))
	// The name is this process's own: writing a file that another one has mapped is a bus error for
	// it.
	path = filepath.Join(b.dir, fmt.Sprintf("bench-%s-%d.lmb", name, os.Getpid()))
	fail.On(files.Write(path, file, 0o644, files.Replace))
	return path, int64(len(file)), func() { os.Remove(path) }
}

// on measures on a pair of sides that serve an image.
func (b *bench) on(name string, image *lmb.Image, measure func(p *pair, size int64)) {
	b.onMemory(name, image, nil, measure)
}

// onMemory is on with a device that holds something before.
func (b *bench) onMemory(name string, image *lmb.Image, before []byte,
	measure func(p *pair, size int64)) {
	path, size, done := b.image(name, image)
	defer done()
	p := b.startPair(path, before)
	measure(p, size)
	p.stop()
}

// head says what was measured, where and when.
func (b *bench) head() []string {
	mode := "quick"
	if b.full {
		mode = "full"
	}
	return []string{
		"commit: " + output("git", "describe", "--always", "--dirty"),
		"processor: " + processor() + fmt.Sprintf(", %d online, measured on number %d",
			runtime.NumCPU(), b.cpu),
		"system: " + output("uname", "-srm"),
		"go: " + runtime.Version() + "; C: " +
			strings.SplitN(output("gcc", "--version"), "\n", 2)[0] + ", -O2",
		fmt.Sprintf("mode: %s, %d rounds, load before %s", mode, b.rounds, loadAverage()),
	}
}

func output(name string, arguments ...string) string {
	text, err := exec.Command(name, arguments...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

func processor() string {
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

func (b *bench) report(asJSON bool, path string) error {
	head := b.head()
	if asJSON {
		if err := printJSON(os.Stdout, head, b.rows); err != nil {
			return err
		}
	} else {
		out := bufio.NewWriter(os.Stdout)
		b.table(out, head)
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if path == "" {
		return nil
	}
	var text bytes.Buffer
	b.table(&text, head)
	return files.Write(path, text.Bytes(), 0o666, files.Replace)
}

func (b *bench) table(w io.Writer, head []string) {
	for _, line := range head {
		fmt.Fprintln(w, "#", line)
	}
	fmt.Fprintln(w)
	print(w, b.rows)
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
