// Simulate lets the runner live in simulated worlds: random images on devices that
// fail, on hosts that kill, cut, fill up and jump, in virtual time, by seeds. See
// world/world.go for what is held at every step.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// build makes the program of simulated worlds, of sources as a folder's overlay
// has them.
func build(root, folder, overlay string) (program string, err error) {
	program = filepath.Join(folder, "world")
	c := exec.Command("go", "build", "-overlay", overlay, "-tags", "world,"+targetTags, "-o",
		program, "./tools/lmrun")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
}

// patience is how long a broken runner may take to be noticed, and how many seconds
// of a processor, by which it is seen to hang on a machine that does other work.
const (
	patience = 10 * time.Minute
	cpuMax   = "60"
)

// noticed runs a program with something broken. One that hangs or dies has
// noticed it, too.
func noticed(folder, broken, program string, arguments ...string) (how string, ok bool) {
	c := exec.Command("timeout",
		append([]string{"-s", "KILL", fmt.Sprint(patience.Seconds()), "prlimit", "--cpu=" + cpuMax,
			program}, arguments...)...)
	c.Dir, c.Env = folder, append(os.Environ(), "LM_BROKEN="+broken, "LM_TEST_REQUIRED=1")
	out, err := c.CombinedOutput()
	line, _, _ := strings.Cut(string(out), "\n")
	return line, err != nil
}

// inWorlds is noticed by so many worlds.
func inWorlds(root, program, broken string, seeds int) (how string, ok bool) {
	return noticed(root, broken, program, "-seeds", fmt.Sprint(seeds))
}

// options are the command line.
type options struct {
	from, seeds uint64
	limit       time.Duration
	talk, past  bool
	broken      int
	choice      uint64
	at          string
}

func main() {
	var o options
	flag.Uint64Var(&o.from, "from", 1, "the first seed")
	flag.Uint64Var(&o.seeds, "seeds", 1, "how many")
	flag.DurationVar(&o.limit, "for", 0, "go on until so much time is over")
	flag.BoolVar(&o.talk, "talk", false, "print every step")
	flag.BoolVar(&o.past, "past", false, "hold that each past defect is noticed")
	flag.IntVar(&o.broken, "broken", 0,
		"break the code at so many places, one after the other, and count what is noticed")
	flag.Uint64Var(&o.choice, "choice", 1, "the seed that chooses those places")
	flag.StringVar(&o.at, "at", "",
		"run with this broken: the name of a past defect, or the number of a place")
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
	folder := filepath.Join(root, "build", "_simulate") // go ./... passes over names with _
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var b *breaker
	if number, err := strconv.Atoi(o.at); o.broken > 0 || err == nil && number > 0 {
		if b, err = newBreaker(root, folder); err != nil {
			return err
		}
	}
	file, err := overlay(root, folder, b)
	if err != nil {
		return err
	}
	program, err := build(root, folder, file)
	switch {
	case err != nil:
		return err
	case o.past:
		return pastDefects(root, program, int(o.seeds))
	case o.broken > 0:
		return breakages(root, folder, file, program, b.places, o)
	}
	c := exec.Command(program, "-from", fmt.Sprint(o.from), "-seeds", fmt.Sprint(o.seeds), "-for",
		o.limit.String(), fmt.Sprintf("-talk=%v", o.talk))
	c.Stdout, c.Stderr, c.Env = os.Stdout, os.Stderr, append(os.Environ(), "LM_BROKEN="+o.at)
	return c.Run()
}

// pastDefects says of each past defect how it is noticed.
func pastDefects(root, program string, seeds int) error {
	if how, wrong := inWorlds(root, program, "", seeds); wrong {
		return fmt.Errorf("with nothing broken: %s", how)
	}
	missed := 0
	for _, p := range past {
		how, ok := inWorlds(root, program, p.Name, seeds)
		if !ok {
			missed++
		}
		fmt.Printf("%-70s %s noticed: %v: %.150s\n", p.Name, p.Commit, ok, how)
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d past defects would not be noticed", missed, len(past))
	}
	return nil
}

// otherReaders are the tests that compare the runtime with the other readers of images: the player
// in C and the oracle.
var otherReaders = []struct{ folder, tests string }{
	{"tools/check/vectors", "^TestPlayersAgree|^TestRuntimeAgrees"},
	{"tools/check/cplayer", "^TestVerdicts|^TestAccesses"},
}

// readers are the compiled tests of otherReaders.
type readers struct{ root, folder string }

// build compiles the tests with the overlay.
func (r readers) build(overlay string) error {
	for i, other := range otherReaders {
		c := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", r.program(i),
			"./"+other.folder)
		c.Dir = r.root
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return nil
}

func (r readers) program(i int) string { return filepath.Join(r.folder, fmt.Sprint("readers", i)) }

// notice runs the tests with something broken.
func (r readers) notice(broken string) (how string, ok bool) {
	for i, other := range otherReaders {
		how, ok = noticed(filepath.Join(r.root, other.folder), broken, r.program(i),
			"-test.failfast", "-test.run", other.tests)
		if ok {
			break
		}
	}
	return how, ok
}

// breakages breaks the code at places that a seed chooses, and says which of them
// simulated worlds notice, and of the others which a comparison with other readers.
func breakages(root, folder, overlay, program string, places []Place, o options) error {
	if how, wrong := inWorlds(root, program, "", int(o.seeds)); wrong {
		return fmt.Errorf("with nothing broken: %s", how)
	}
	random, left := rand.New(rand.NewPCG(o.choice, 0)), []int{}
	chosen := random.Perm(len(places))[:min(o.broken, len(places))]
	tell := func(who string, n int, how string) {
		fmt.Printf("%s %5d %s: %.100s: %.150s\n", who, n+1, places[n].Where, places[n].What, how)
	}
	for _, n := range chosen {
		if how, ok := inWorlds(root, program, fmt.Sprint(n+1), int(o.seeds)); ok {
			tell("worlds ", n, how)
		} else {
			left = append(left, n)
			tell("-      ", n, "")
		}
	}
	byWorlds := len(chosen) - len(left)
	fmt.Printf("of %d breakages of %d places worlds notice %d\n", len(chosen), len(places),
		byWorlds)
	others := readers{root, folder}
	if err := others.build(overlay); err != nil {
		return err
	}
	if how, wrong := others.notice(""); wrong {
		return fmt.Errorf("the other readers, with nothing broken: %s", how)
	}
	byReaders := 0
	for _, n := range left {
		how, ok := others.notice(fmt.Sprint(n + 1))
		who := "nobody "
		if ok {
			who = "readers"
			byReaders++
		}
		tell(who, n, how)
	}
	fmt.Printf("of %d breakages %d are noticed: by worlds %d, by other readers %d more\n",
		len(chosen), byWorlds+byReaders, byWorlds, byReaders)
	return nil
}
