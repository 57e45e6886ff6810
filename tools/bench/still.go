package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// still counts what runs take from the Go runtime and from the kernel after
// Freeze: heap objects, cycles of the collector, system calls.
func (b *bench) still() error {
	const runs = 200
	image := opcodesImage()
	path, _, done, err := b.image("still", image)
	if err != nil {
		return err
	}
	defer done()
	section, what := "goals", fmt.Sprintf(", %d runs of %d commands", runs, opcodeCount)
	objects, cycles, err := b.heapUse(path, runs)
	if err != nil {
		return err
	}
	for _, r := range []struct {
		name  string
		count int64
	}{{"heap objects", objects}, {"collector cycles", cycles}} {
		b.add(row{Section: section, What: r.name + what, Ours: value(float64(r.count))}.atMost(float64(r.count), 0, "0"))
	}
	if _, err := exec.LookPath("strace"); err != nil {
		b.add(row{Section: section, What: "system calls" + what, Note: "skipped: strace is not here"})
		return nil
	}
	few, err := b.systemCalls(path, 1)
	if err != nil {
		return err
	}
	many, err := b.systemCalls(path, 1+runs)
	if err != nil {
		return err
	}
	all, names := int64(0), ""
	for _, name := range slices.Sorted(maps.Keys(many)) {
		if more := many[name] - few[name]; more != 0 {
			all += more
			names += fmt.Sprintf(" %d %s,", more, name)
		}
	}
	r := row{Section: section, What: "system calls" + what, Ours: value(float64(all)), Note: "of the replaying thread:" + strings.TrimSuffix(names, ",")}
	b.add(r.atMost(float64(all), 0, "0"))
	return nil
}

// stillSequences are those of opcodesImage that are run: none waits.
const stillSequences = callee

// heapUse is what runs of every sequence allocate. Asking allocates too, as
// much each time, which an empty pair of questions shows.
func (b *bench) heapUse(path string, runs int) (objects, cycles int64, err error) {
	m, err := newMemory(deviceSize + pageSize)
	if err != nil {
		return 0, 0, err
	}
	defer m.close()
	s, err := start(m, path, b.child)
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	use := func(count int) ([2]int64, error) {
		before, err := s.ask("heap")
		if err != nil {
			return [2]int64{}, err
		}
		for i := range stillSequences {
			if _, err := s.ask("run", i, count, 0); err != nil {
				return [2]int64{}, err
			}
		}
		after, err := s.ask("heap")
		if err != nil {
			return [2]int64{}, err
		}
		return [2]int64{after[0] - before[0], after[1] - before[1]}, nil
	}
	one, err := use(100) // as many digits in the requests as below
	if err != nil {
		return 0, 0, err
	}
	many, err := use(100 + runs)
	return many[0] - one[0], many[1], err
}

// systemCalls counts those of the first thread of a process that runs each
// sequence so many times, by name.
func (b *bench) systemCalls(path string, count int) (map[string]int64, error) {
	m, err := newMemory(deviceSize + pageSize)
	if err != nil {
		return nil, err
	}
	defer m.close()
	log, err := os.CreateTemp("", "bench-strace")
	if err != nil {
		return nil, err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	s, err := start(m, path, "strace", "-qq", "-e", "signal=none", "-o", log.Name(), b.child)
	if err != nil {
		return nil, err
	}
	for i := range stillSequences {
		if _, err := s.ask("run", i, count, 0); err != nil {
			s.stop()
			return nil, err
		}
	}
	if err := s.stop(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(log.Name())
	calls := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if name, _, found := strings.Cut(line, "("); found {
			calls[name]++
		}
	}
	return calls, err
}
