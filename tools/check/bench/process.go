package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"lightmetal/fbs"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// useOfFirstRun starts a program as a side, lets it run sequence 0 or 1 of an image once, and ends
// it. It returns the milliseconds from its start to the answer, and its anonymous memory: pages of
// the device do not belong to the program.
func useOfFirstRun(m *memory, image string, sequence int, program ...string) (milliseconds,
	ownKiB float64) {
	began := time.Now()
	s := startSide(m, image, program...)
	defer s.stop()
	s.timeRuns(sequence, 1, 0)
	milliseconds = time.Since(began).Seconds() * 1e3
	text := string(fail.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))))
	_, text, _ = strings.Cut(text, "\nRssAnon:")
	fail.Must(fmt.Sscan(text, &ownKiB))
	return milliseconds, ownKiB
}

// measureStartUp measures processes from their start to the answer of their first request, which is
// one store of our program.
func (b *bench) measureStartUp() {
	image := b.writeImage(payloadImage(1 << 20))
	m := newMemory("device", deviceSize+pageSize)
	defer m.close()
	sample := func(program string) sampler {
		return func() float64 {
			var times []float64
			for range 10 {
				milliseconds, _ := useOfFirstRun(m, image, 1, program)
				times = append(times, milliseconds)
			}
			return median(times)
		}
	}
	b.compare(comparison{what: "exec to first store, 1 MiB image", unit: "ms",
		ours:   sample(b.program("child")),
		others: []alternative{{"an empty Go program", sample(b.program("idle"))}},
		goal:   goal{excessAtMost, 0.75}})
}

// measureMemory compares memory of processes that have run once with that of an empty Go program,
// started in the same way: as usual, and with what lminit adds to the environment of lmrun.
func (b *bench) measureMemory() {
	m := newMemory("device", deviceSize+pageSize)
	defer m.close()
	for _, kind := range []struct {
		what  string
		image *lmb.Image
	}{
		{"64 MiB of payload", payloadImage(64 << 20)},
		{"1e6 commands", newImage(writes(1e6))},
	} {
		path := b.writeImage(kind.image)
		head := fail.Must(os.ReadFile(path))
		// The copy of the envelope depends on the image alone.
		copied := float64((fbs.ReadStruct[fbs.Preamble](head).EnvelopeSize+pageSize-1)/pageSize) * 4
		for _, variable := range []string{"LANG=C", "GOMAXPROCS=1"} {
			ownMemory := func(program string, less float64) sampler {
				return func() float64 {
					_, ownKiB := useOfFirstRun(m, path, 0, "env", variable, b.program(program))
					return ownKiB - less
				}
			}
			b.compare(comparison{what: "own memory, " + kind.what + ", " + variable, unit: "KiB",
				ours:   ownMemory("child", copied),
				others: []alternative{{"an empty Go program", ownMemory("idle", 0)}},
				goal:   goal{excessAtMost, 256},
				note:   fmt.Sprintf("without the %.0f KiB of the envelope's copy", copied)})
		}
	}
}
