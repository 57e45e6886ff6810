package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"lightmetal/tools/image/fail"
)

// A frame is a run of 10,000 writes, and begins once every period.
const frameCommands, framePeriod = 10_000, 250 * time.Microsecond

// measureFrameTimes measures the time that one of 10,000 frames exceeds: alone and next to a
// program that uses the same processor and its caches, with both schedulers.
func (b *bench) measureFrameTimes() {
	realTime := []string{"chrt", "-f", "50"}
	for _, neighbor := range []string{"idle", "busy"} {
		what := "frame of 10,000 writes, p99.99, " + neighbor
		b.measureFrames(what, neighbor == "busy")
		if err := exec.Command(realTime[0], append(realTime[1:], "true")...).Run(); err != nil {
			b.addUnmeasured(what+", FIFO", "SCHED_FIFO is not permitted here")
			continue
		}
		b.measureFrames(what+", FIFO", neighbor == "busy", realTime...)
	}
}

// measureFrames measures our frames and C's. With prefix, all threads of both get the scheduler:
// Go moves a goroutine that it interrupts to other threads, and then waits for the slowest.
func (b *bench) measureFrames(what string, busy bool, prefix ...string) {
	b.withSides(newImage(writes(frameCommands)), nil, func(ours, tuned *side) {
		if busy {
			neighbor := exec.Command("taskset", "-c", strconv.Itoa(b.cpu), b.program("tuned"),
				"spin")
			fail.On(neighbor.Start())
			defer neighbor.Wait()
			defer neighbor.Process.Kill()
		}
		frames := func(s *side) func() []float64 {
			return func() []float64 { return s.timeFrames(100*b.rounds, framePeriod) }
		}
		times := alternate(b.rounds, frames(ours), frames(tuned))
		c := comparison{what: what, unit: "us", others: []alternative{{name: "C"}},
			goal: goal{ratioAtMost, 1},
			note: fmt.Sprintf("of %d frames each", 100*b.rounds*b.rounds)}
		if b.rounds < fullRounds {
			c.note += ": too few for it, this is the longest"
		}
		b.addRow(c, [][]float64{longestOf10000(times[0]), longestOf10000(times[1])})
	}, prefix...)
}

// longestOf10000 returns the time in microseconds that one of 10,000 frames exceeds.
func longestOf10000(nanoseconds [][]float64) []float64 {
	return []float64{quantile(slices.Concat(nanoseconds...), 0.9999) / 1e3}
}
