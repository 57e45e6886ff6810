package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// breaker runs mutants, and finds out who detects them.
type breaker struct {
	root, folder, program string
	mutants               *mutantList
	reachedBy             map[int]string // seeds, with commas between, by number of the mutant
	seedCount             int
	tests                 map[string]*testProgram // by folder of the package
	plainOverlay          string
}

// testProgram is a compiled test program that contains the mutants.
type testProgram struct {
	folder, path string
	arguments    []string
}

func (p *testProgram) runWithDefect(defect string) (firstLine string, detected bool) {
	return runWithDefect(p.folder, defect, p.path, p.arguments...)
}

// testMutants runs mutants, which the seed o.mutantSeed chooses, in the simulated worlds that reach
// them, then in the comparison tests, then in the tests of their packages, until one detects them.
// It prints how each mutant is detected.
func (b *breaker) testMutants(o options, overlayFile string) error {
	random, list := rand.New(rand.NewPCG(o.mutantSeed, 0)), b.mutants.mutants
	chosen := random.Perm(len(list))[:min(o.mutantCount, len(list))]
	b.seedCount = int(o.seedCount)
	if err := b.findReachingSeeds(chosen); err != nil {
		return err
	}
	comparison, err := b.buildComparison(overlayFile)
	if err == nil {
		err = b.writePlainOverlay()
	}
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, n := range chosen {
		m, defect := list[n], strconv.Itoa(n+1)
		detectedBy := "worlds"
		firstLine, detected := b.runWorlds(n + 1)
		if !detected {
			detectedBy = "comparison"
			firstLine, detected = comparison.runWithDefect(defect)
		}
		if !detected {
			detectedBy = "tests"
			if firstLine, detected, err = b.runPackageTests(m, defect); err != nil {
				return err
			}
		}
		if !detected {
			detectedBy = "-"
		}
		count[detectedBy]++
		fmt.Printf("%-10s %5s %s: %.100s: %.150s\n", detectedBy, defect, m.position, m.change,
			firstLine)
	}
	fmt.Printf("%d mutants of %d run, %d detected: %d by worlds, %d more by comparison tests, "+
		"%d more by tests of packages\n", len(chosen), len(list), len(chosen)-count["-"],
		count["worlds"], count["comparison"], count["tests"])
	return nil
}

// findReachingSeeds runs all worlds without a defect.
func (b *breaker) findReachingSeeds(chosen []int) error {
	numbers := make([]string, len(chosen))
	for i, n := range chosen {
		numbers[i] = strconv.Itoa(n + 1)
	}
	c := exec.Command(b.program, "-seeds", strconv.Itoa(b.seedCount), "-mutants",
		strings.Join(numbers, ","))
	c.Dir, c.Env = b.root, append(os.Environ(), "LM_DEFECT=")
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("without a defect: %w: %.300s", err, out)
	}
	b.reachedBy = map[int]string{}
	for line := range strings.Lines(string(out)) {
		var number int
		var seeds string
		if n, _ := fmt.Sscanf(line, "mutant %d %s", &number, &seeds); n == 2 {
			b.reachedBy[number] = seeds
		}
	}
	return nil
}

// runWorlds runs the worlds that reach a mutant. Without the mutant, they were right.
func (b *breaker) runWorlds(number int) (firstLine string, detected bool) {
	seeds := b.reachedBy[number]
	if seeds == "" {
		return "", false
	}
	return runWithDefect(b.root, strconv.Itoa(number), b.program, "-only", seeds)
}

// buildComparison builds the tests that compare the runtime with the other implementations of the
// format: the player in C and the oracle.
func (b *breaker) buildComparison(overlayFile string) (*testProgram, error) {
	return b.buildTests("tools/check/vectors", overlayFile, "-test.run",
		"^TestPlayersAgree|^TestRuntimeAgrees")
}

// buildTests compiles the tests of a package with the mutants of an overlay. They must pass without
// a defect.
func (b *breaker) buildTests(packageFolder, overlayFile string, arguments ...string) (*testProgram,
	error) {
	p := &testProgram{
		folder:    filepath.Join(b.root, packageFolder),
		path:      filepath.Join(b.folder, strings.ReplaceAll(packageFolder, "/", "_")+".test"),
		arguments: append([]string{"-test.failfast"}, arguments...),
	}
	c := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", p.path, ".")
	c.Dir = p.folder
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	if firstLine, failed := p.runWithDefect(""); failed {
		return nil, fmt.Errorf("tests of %s without a defect: %s", packageFolder, firstLine)
	}
	return p, nil
}

// writePlainOverlay writes an overlay with mutants and nothing else, for tests of packages.
// Programs that these tests build contain the mutants, too.
func (b *breaker) writePlainOverlay() (err error) {
	folder := filepath.Join(b.folder, "plain_overlay")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	list := &mutantList{packages: b.mutants.packages, symbols: b.mutants.symbols}
	if b.plainOverlay, err = writeOverlay(b.root, folder, list, false); err != nil {
		return err
	}
	b.tests = map[string]*testProgram{}
	return os.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -overlay="+b.plainOverlay)
}

// runPackageTests runs the tests of the package of a mutant, or of the runner if the package has
// none.
func (b *breaker) runPackageTests(m mutant, defect string) (firstLine string, detected bool,
	err error) {
	folder := path.Dir(m.position)
	if tests, _ := filepath.Glob(filepath.Join(b.root, folder, "*_test.go")); len(tests) == 0 {
		folder = "tools/lmrun"
	}
	if b.tests[folder] == nil {
		b.tests[folder], err = b.buildTests(folder, b.plainOverlay, "-test.short",
			"-test.timeout=4m") // of tests that hang
	}
	if err != nil {
		return "", false, err
	}
	firstLine, detected = b.tests[folder].runWithDefect(defect)
	return firstLine, detected, nil
}
