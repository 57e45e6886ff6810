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
	"strings"
	"time"
)

// build makes the program of simulated worlds, and gives the places in it that can
// be broken.
func build(root, folder string) (program string, places []Place, err error) {
	file, places, err := overlay(root, folder)
	if err != nil {
		return "", nil, err
	}
	program = filepath.Join(folder, "world")
	c := exec.Command("go", "build", "-overlay", file, "-tags", "world", "-o", program, "./tools/lmrun")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("%w\n%s", err, out)
	}
	return program, places, nil
}

// patience is how long a broken runner may take to be noticed.
const patience = 2 * time.Minute

// noticed runs worlds with something broken. A world that hangs or dies has
// noticed it, too.
func noticed(root, program, broken string, seeds int) (how string, ok bool) {
	c := exec.Command("timeout", "-s", "KILL", fmt.Sprint(patience.Seconds()), program, "-seeds", fmt.Sprint(seeds))
	c.Dir, c.Env = root, append(os.Environ(), "LM_BROKEN="+broken)
	out, err := c.CombinedOutput()
	line, _, _ := strings.Cut(string(out), "\n")
	return line, err != nil
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
	flag.IntVar(&o.broken, "broken", 0, "break the code at so many places, one after the other, and count what is noticed")
	flag.Uint64Var(&o.choice, "choice", 1, "the seed that chooses those places")
	flag.StringVar(&o.at, "at", "", "run with this broken: the name of a past defect, or the number of a place")
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
	program, places, err := build(root, folder)
	switch {
	case err != nil:
		return err
	case o.past:
		return pastDefects(root, program, int(o.seeds))
	case o.broken > 0:
		breakages(root, program, places, o)
		return nil
	}
	c := exec.Command(program, "-from", fmt.Sprint(o.from), "-seeds", fmt.Sprint(o.seeds), "-for", o.limit.String(), fmt.Sprintf("-talk=%v", o.talk))
	c.Stdout, c.Stderr, c.Env = os.Stdout, os.Stderr, append(os.Environ(), "LM_BROKEN="+o.at)
	return c.Run()
}

// pastDefects says of each past defect how it is noticed.
func pastDefects(root, program string, seeds int) error {
	if how, wrong := noticed(root, program, "", seeds); wrong {
		return fmt.Errorf("with nothing broken: %s", how)
	}
	missed := 0
	for _, p := range past {
		how, ok := noticed(root, program, p.Name, seeds)
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

// breakages breaks the code at places that a seed chooses.
func breakages(root, program string, places []Place, o options) {
	random, count := rand.New(rand.NewPCG(o.choice, 0)), 0
	for _, n := range random.Perm(len(places))[:min(o.broken, len(places))] {
		how, ok := noticed(root, program, fmt.Sprint(n+1), int(o.seeds))
		if ok {
			count++
		}
		fmt.Printf("%v %d %s: %.100s: %.150s\n", ok, n+1, places[n].Where, places[n].What, how)
	}
	fmt.Printf("%d of %d breakages are noticed\n", count, min(o.broken, len(places)))
}
