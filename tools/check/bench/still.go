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

// measureAfterFreeze counts what runs use of the Go runtime and of the kernel after Freeze: heap
// objects, cycles of the garbage collector, system calls.
func (b *bench) measureAfterFreeze() {
	const runs = 200
	image := allKindsImage()
	path, _, done := b.writeImage("still", image)
	defer done()
	section, what := "goals", fmt.Sprintf(", %d runs of %d commands", runs, allKindsCount)
	objects, cycles := b.heapUse(path, runs)
	for _, r := range []struct {
		name  string
		count int64
	}{{"heap objects", objects}, {"collector cycles", cycles}} {
		b.add(row{Section: section, What: r.name + what,
			Ours: pointerTo(float64(r.count))}.atMost(float64(r.count), 0, "0"))
	}
	if _, err := exec.LookPath("strace"); err != nil {
		b.add(row{Section: section, What: "system calls" + what,
			Note: "skipped: strace is not here"})
		return
	}
	few, many := b.systemCalls(path, 1), b.systemCalls(path, 1+runs)
	for _, r := range []struct{ who, what string }{
		{ownCalls, "system calls of the replaying thread"},
		{threadCalls, "futexes and clones of any thread"},
		{monitorCalls, "system calls of Go's monitor"},
	} {
		count, names := extraCalls(few[r.who], many[r.who])
		counted := row{Section: section, What: r.what + what, Ours: pointerTo(float64(count)),
			Note: names}
		if r.who != monitorCalls {
			counted = counted.atMost(float64(count), 0, "0")
		}
		b.add(counted)
	}
}

// Groups of system calls that are counted separately.
const ownCalls, threadCalls, monitorCalls = "own", "taking", "monitor"

// extraCalls returns by how many calls one count exceeds another, and lists them by name.
func extraCalls(few, many map[string]int64) (all int64, names string) {
	for _, name := range slices.Sorted(maps.Keys(many)) {
		if n := many[name] - few[name]; n != 0 {
			all += n
			names += fmt.Sprintf(", %d %s", n, name)
		}
	}
	return all, strings.TrimPrefix(names, ", ")
}

// heapUse returns the number of objects that runs allocate, and the cycles of the garbage
// collector. The requests allocate too, always the same number of objects. A measurement of fewer
// runs shows that number, and it is subtracted.
func (b *bench) heapUse(path string, runs int) (objects, cycles int64) {
	m := newMemory(deviceSize + pageSize)
	defer m.close()
	s := startSide(m, path, b.childProgram)
	defer s.stop()
	use := func(count int) (objects, cycles int64) {
		before := s.query("heap")
		s.timeRuns(0, count, 0)
		after := s.query("heap")
		return after[0] - before[0], after[1] - before[1]
	}
	one, _ := use(100) // has as many digits as the count below
	many, cycles := use(100 + runs)
	return many - one, cycles
}

// systemCalls counts the system calls of all threads of a process that runs the image count times,
// by group and by name.
func (b *bench) systemCalls(path string, count int) map[string]map[string]int64 {
	m := newMemory(deviceSize + pageSize)
	defer m.close()
	log := fail.Must(os.CreateTemp("", "bench-strace"))
	defer os.Remove(log.Name())
	defer log.Close()
	s := startSide(m, path, "strace", "-f", "-qq", "-e", "signal=none", "-o", log.Name(),
		b.childProgram)
	s.timeRuns(0, count, 0)
	s.stop()
	return callsByThread(string(fail.Must(os.ReadFile(log.Name()))))
}

// callsByThread counts the system calls in a log of strace -f, from the first request on. The
// thread that reads the request is the one that replays.
func callsByThread(log string) map[string]map[string]int64 {
	calls := map[string]map[string]int64{ownCalls: {}, threadCalls: {}, monitorCalls: {}}
	before, log, _ := strings.Cut(log, "read(0, ")
	replaying, _, _ := strings.Cut(before[strings.LastIndexByte(before, '\n')+1:], " ")
	for line := range strings.Lines(log) {
		thread, call, _ := strings.Cut(line, " ")
		name, _, found := strings.Cut(strings.TrimSpace(call), "(")
		switch {
		// the end of an earlier call, or of a thread
		case !found || strings.Contains(name, " "):
		case name == "futex" || strings.HasPrefix(name, "clone"):
			calls[threadCalls][name]++
		case thread == replaying:
			calls[ownCalls][name]++
		default:
			calls[monitorCalls][name]++
		}
	}
	return calls
}
