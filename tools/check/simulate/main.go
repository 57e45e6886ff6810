// Simulate runs the runner (lmrun) in simulated worlds: random images on devices that fail, on
// hosts that kill the process, truncate its files, run out of space and change the clock. Time is
// virtual, and a seed determines each world. See world/world.go for what is checked at each step.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// buildSimulator builds the runner in simulated worlds from the sources of an overlay. It writes
// the program into the folder.
func buildSimulator(root, folder, overlayFile string) (program string, err error) {
	program = filepath.Join(folder, "world")
	c := exec.Command("go", "build", "-overlay", overlayFile, "-tags", "world,"+targetTags, "-o",
		program, "./tools/lmrun")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
}

// Limits of a run with a defect: real time and seconds of processor time. A run that reaches one
// counts as a detected defect. The limit of processor time detects a hanging run even if other work
// slows the machine down.
const (
	runTimeout      = 10 * time.Minute
	cpuLimitSeconds = "180"
)

// runWithDefect runs a program with a defect: the name of a past defect, or the number of a mutant.
// The defect is detected if the program fails, hangs or crashes. firstLine is the first line that
// the program printed, or names the first test that failed.
func runWithDefect(folder, defect, program string, arguments ...string) (firstLine string,
	detected bool) {
	c := exec.Command("timeout",
		append([]string{"-s", "KILL", fmt.Sprint(runTimeout.Seconds()), "prlimit",
			"--cpu=" + cpuLimitSeconds, program}, arguments...)...)
	// Nightly, the comparison tests would take longer than the limit.
	c.Dir, c.Env = folder, append(os.Environ(), "LM_DEFECT="+defect, "LM_TEST_REQUIRED=1",
		"LM_NIGHTLY=")
	out, err := c.CombinedOutput()
	text := string(out)
	if at := strings.Index(text, "--- FAIL: "); at >= 0 {
		text = text[at:]
	}
	line, _, _ := strings.Cut(text, "\n")
	if err != nil && line == "" {
		line = err.Error() // a limit
	}
	return line, err != nil
}

// runSeeds runs simulated worlds, seeds 1 to seeds, with a defect; "" is no defect.
func runSeeds(root, program, defect string, seeds int) (firstLine string, detected bool) {
	return runWithDefect(root, defect, program, "-seeds", fmt.Sprint(seeds))
}

// options contains the values of the command line's flags.
type options struct {
	firstSeed, seedCount uint64
	minDuration          time.Duration
	verbose, pastDefects bool
	mutantCount          int
	mutantSeed           uint64
	defect               string
}

func main() {
	var o options
	flag.Uint64Var(&o.firstSeed, "from", 1, "`first` seed")
	flag.Uint64Var(&o.seedCount, "seeds", 1, "minimum `number` of seeds")
	flag.DurationVar(&o.minDuration, "for", 0, "minimum duration")
	flag.BoolVar(&o.verbose, "verbose", false, "print each step")
	flag.BoolVar(&o.pastDefects, "past", false, "check that each past defect is detected")
	flag.IntVar(&o.mutantCount, "mutants", 0,
		"break the code in a `number` of positions, one at a time, and count the detected mutants")
	flag.Uint64Var(&o.mutantSeed, "mutant-seed", 1, "seed that chooses the mutants")
	flag.StringVar(&o.defect, "defect", "",
		"`name` of a past defect, or number of a mutant, that is active")
	flag.Parse()
	if err := simulate(o); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

func simulate(o options) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	folder := filepath.Join(root, "build", "_simulate") // `go build ./...` skips names with _
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var mutants *mutantList
	if number, err := strconv.Atoi(o.defect); o.mutantCount > 0 || err == nil && number > 0 {
		if mutants, err = newMutantList(root, folder); err != nil {
			return err
		}
	}
	overlayFile, err := writeOverlay(root, folder, mutants, true)
	if err != nil {
		return err
	}
	program, err := buildSimulator(root, folder, overlayFile)
	switch {
	case err != nil:
		return err
	case o.pastDefects:
		return checkPastDefects(root, program, int(o.seedCount))
	case o.mutantCount > 0:
		b := &breaker{root: root, folder: folder, program: program, mutants: mutants}
		return b.testMutants(o, overlayFile)
	}
	c := exec.Command(program, "-from", fmt.Sprint(o.firstSeed), "-seeds", fmt.Sprint(o.seedCount),
		"-for", o.minDuration.String(), fmt.Sprintf("-verbose=%v", o.verbose))
	c.Stdout, c.Stderr, c.Env = os.Stdout, os.Stderr, append(os.Environ(), "LM_DEFECT="+o.defect)
	return c.Run()
}

// checkPastDefects prints for each past defect whether simulated worlds detect it, and by which
// message.
func checkPastDefects(root, program string, seeds int) error {
	if firstLine, failed := runSeeds(root, program, "", seeds); failed {
		return fmt.Errorf("without a defect: %s", firstLine)
	}
	undetected := 0
	for _, p := range pastDefects {
		firstLine, detected := runSeeds(root, program, p.name, seeds)
		if !detected {
			undetected++
		}
		fmt.Printf("%-70s %s detected: %v: %.150s\n", p.name, p.commit, detected, firstLine)
	}
	if undetected > 0 {
		return fmt.Errorf("%d of %d past defects were not detected", undetected, len(pastDefects))
	}
	return nil
}
