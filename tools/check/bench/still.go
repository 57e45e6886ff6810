package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"lightmetal/tools/image/fail"
)

// still counts what runs take from the Go runtime and from the kernel after
// Freeze: heap objects, cycles of the collector, system calls.
func (b *bench) still() {
	const runs = 200
	image := stillImage()
	path, _, done := b.image("still", image)
	defer done()
	section, what := "goals", fmt.Sprintf(", %d runs of %d commands", runs, stillCount)
	objects, cycles := b.heapUse(path, runs)
	for _, r := range []struct {
		name  string
		count int64
	}{{"heap objects", objects}, {"collector cycles", cycles}} {
		b.add(row{Section: section, What: r.name + what,
			Ours: value(float64(r.count))}.atMost(float64(r.count), 0, "0"))
	}
	if _, err := exec.LookPath("strace"); err != nil {
		b.add(row{Section: section, What: "system calls" + what,
			Note: "skipped: strace is not here"})
		return
	}
	few, many := b.systemCalls(path, 1), b.systemCalls(path, 1+runs)
	for _, r := range []struct{ who, what string }{
		{own, "system calls of the replaying thread"}, {taking, "futexes and clones of any thread"},
		{monitor, "system calls of Go's monitor"},
	} {
		count, names := more(few[r.who], many[r.who])
		counted := row{Section: section, What: r.what + what, Ours: value(float64(count)),
			Note: names}
		if r.who != monitor {
			counted = counted.atMost(float64(count), 0, "0")
		}
		b.add(counted)
	}
}

// Whose system calls are counted apart.
const own, taking, monitor = "own", "taking", "monitor"

// more adds up what one count has beyond another, and names it.
func more(few, many map[string]int64) (all int64, names string) {
	for _, name := range slices.Sorted(maps.Keys(many)) {
		if n := many[name] - few[name]; n != 0 {
			all += n
			names += fmt.Sprintf(", %d %s", n, name)
		}
	}
	return all, strings.TrimPrefix(names, ", ")
}

// heapUse is what runs allocate. Asking allocates too, as
// much each time, which an empty pair of questions shows.
func (b *bench) heapUse(path string, runs int) (objects, cycles int64) {
	m := newMemory(deviceSize + pageSize)
	defer m.close()
	s := start(m, path, b.child)
	defer s.stop()
	use := func(count int) (objects, cycles int64) {
		before := s.ask("heap")
		s.time(0, count, 0)
		after := s.ask("heap")
		return after[0] - before[0], after[1] - before[1]
	}
	one, _ := use(100) // as many digits in the requests as below
	many, cycles := use(100 + runs)
	return many - one, cycles
}

// systemCalls counts those of all threads of a process that runs the image so
// many times, by whose they are and by name.
func (b *bench) systemCalls(path string, count int) map[string]map[string]int64 {
	m := newMemory(deviceSize + pageSize)
	defer m.close()
	log := fail.Must(os.CreateTemp("", "bench-strace"))
	defer os.Remove(log.Name())
	defer log.Close()
	s := start(m, path, "strace", "-f", "-qq", "-e", "signal=none", "-o", log.Name(), b.child)
	s.time(0, count, 0)
	s.stop()
	return callsByThread(string(fail.Must(os.ReadFile(log.Name()))))
}

// callsByThread reads a log of strace -f from the first request on, which the
// replaying thread reads.
func callsByThread(log string) map[string]map[string]int64 {
	calls := map[string]map[string]int64{own: {}, taking: {}, monitor: {}}
	before, log, _ := strings.Cut(log, "read(0, ")
	replaying, _, _ := strings.Cut(before[strings.LastIndexByte(before, '\n')+1:], " ")
	for line := range strings.Lines(log) {
		thread, call, _ := strings.Cut(line, " ")
		name, _, found := strings.Cut(strings.TrimSpace(call), "(")
		switch {
		// the end of one that was begun above, or of a thread
		case !found || strings.Contains(name, " "):
		case name == "futex" || strings.HasPrefix(name, "clone"):
			calls[taking][name]++
		case thread == replaying:
			calls[own][name]++
		default:
			calls[monitor][name]++
		}
	}
	return calls
}
