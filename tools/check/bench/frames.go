package main

import (
	"fmt"
	"os/exec"
	"slices"
	"time"

	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// A frame is a run of 10,000 writes, and begins once every period. The priority is for SCHED_FIFO.
const (
	frameCommands = 10_000
	framePeriod   = 250 * time.Microsecond
	framePriority = 50
)

// measureFrameTimes measures the time that one of 10,000 frames exceeds: alone and next to a
// program that uses the same processor and its caches, with both schedulers.
func (b *bench) measureFrameTimes() {
	b.withSides(writesImage(frameCommands), nil, func(ours, tuned *side) {
		for _, busy := range []bool{false, true} {
			for _, fifo := range []int{0, framePriority} {
				b.measureFrameSetting(ours, tuned, busy, fifo)
			}
		}
	})
}

// measureFrameSetting measures our frames and C's in one setting.
func (b *bench) measureFrameSetting(ours, tuned *side, busy bool, fifo int) {
	what := "frame of 10,000 writes, p99.99, " + map[bool]string{false: "idle", true: "busy"}[busy]
	if fifo > 0 {
		what += ", FIFO"
	}
	for _, s := range []*side{ours, tuned} {
		if !s.setPriority(fifo) {
			b.addUnmeasured(what, "SCHED_FIFO is not permitted here")
			return
		}
	}
	if busy {
		defer b.startBusyProgram()()
	}
	frames := func(s *side) func() []float64 {
		return func() []float64 { return s.timeFrames(1, b.effort.framesPerRound, framePeriod) }
	}
	times := alternate(b.effort.frameRounds, frames(ours), frames(tuned))
	all := b.effort.frameRounds * b.effort.framesPerRound
	c := comparison{what: what, unit: "us", others: []alternative{{name: "C"}},
		goal: goal{ratioAtMost, 1.2}, note: fmt.Sprintf("of %d frames each", all)}
	if all < 10_000 {
		c.note += ": too few for it, this is the longest"
	}
	b.addRow(c, longestOf10000(times[0]), longestOf10000(times[1]))
}

// longestOf10000 returns the time in microseconds that one of 10,000 frames exceeds.
func longestOf10000(nanoseconds [][]float64) []float64 {
	return []float64{quantile(slices.Concat(nanoseconds...), 0.9999) / 1e3}
}

// startBusyProgram starts a program that loads and stores as much memory as it can, on the
// processor that is measured. The function end kills it.
func (b *bench) startBusyProgram() (end func()) {
	command := exec.Command(b.tunedProgram, "spin")
	fail.On(command.Start())
	end = func() {
		command.Process.Kill()
		command.Wait()
	}
	var set unix.CPUSet
	set.Set(b.cpu)
	if err := unix.SchedSetaffinity(command.Process.Pid, &set); err != nil {
		end()
		fail.On(err)
	}
	return end
}
