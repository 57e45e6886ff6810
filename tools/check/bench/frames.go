package main

import (
	"fmt"
	"math"
	"os/exec"
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

// quantiles lists the reported quantiles of the frames' times.
var quantiles = []struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}}

// measureFrameTimes measures how much the times of frames vary: alone and next to a program that
// uses the same processor and its caches, with both schedulers.
func (b *bench) measureFrameTimes() {
	b.withPair("frames", writesImage(frameCommands), func(p *pair, _ int64) {
		for _, busy := range []bool{false, true} {
			for _, fifo := range []int{0, framePriority} {
				b.measureFrameSetting([]*side{p.ours, p.tuned}, busy, fifo)
			}
		}
	})
}

// measureFrameSetting measures our frames and C's in one setting.
func (b *bench) measureFrameSetting(sides []*side, busy bool, fifo int) {
	what := map[bool]string{false: "idle", true: "busy"}[busy]
	if fifo > 0 {
		what += ", FIFO"
	}
	for _, s := range sides {
		if !s.setPriority(fifo) {
			b.add(row{Section: "frame of 10,000 writes", What: what,
				Note: "skipped: SCHED_FIFO is not permitted here"})
			return
		}
	}
	if busy {
		defer b.startBusyProgram()()
	}
	chunks, size := 4, 1000
	if b.full {
		chunks, size = 20, 2000
	}
	took := make([][]float64, len(sides))
	for chunk := range chunks {
		for n := range sides {
			i := (n + chunk) % len(sides)
			took[i] = append(took[i], sides[i].timeFrames(1, size, framePeriod)...)
		}
	}
	b.addFrameRows(what, took[0], took[1])
}

// addFrameRows adds a row for each quantile, and a row for frames that were disturbed: those that
// took much longer than the median of their own program.
func (b *bench) addFrameRows(what string, ours, c []float64) {
	for _, quantity := range quantiles {
		o, n := quantile(ours, quantity.q), quantile(c, quantity.q)
		r := row{Section: "frame of 10,000 writes", What: what + ", " + quantity.name, Unit: "us",
			Ours: pointerTo(o / 1e3), C: pointerTo(n / 1e3), Ratio: pointerTo(o / n)}
		if quantity.name == "p99.99" {
			r = r.atMost(*r.Ratio, 1.2, "<= 1.2 x C")
			r.Note = fmt.Sprintf("of %d frames each", len(ours))
			if len(ours) < 10_000 {
				r.Note += ": too few for it, this is the longest"
			}
		}
		if quantity.name == "max" {
			r.Note = fmt.Sprintf("%d of ours, %d of C's took more than twice the median",
				countLong(ours), countLong(c))
		}
		b.add(r)
	}
	o, n := countLate(ours), countLate(c)
	r := row{Section: "frame of 10,000 writes", What: what + ", over 50 us late", Unit: "frames",
		Ours: pointerTo(o), C: pointerTo(n),
		Note: "longer than the program's own median by that"}
	// Two counts of rare events differ by chance. This is the standard deviation of their
	// difference, if both programs are late as often as 1.2 x C allows. A count of 0 is as
	// uncertain as one of 1.
	deviation := math.Sqrt((1.2 + 1.2*1.2) * max(n, 1))
	b.add(r.atMost(o, 1.2*n+max(1, 2*deviation), "<= 1.2 x C, or by 2 sigma of chance"))
}

// countLate counts times of more than 50 us beyond the median; countLong counts those of more than
// twice the median.
func countLate(list []float64) float64 { return float64(countAbove(list, median(list)+50e3)) }
func countLong(list []float64) int     { return countAbove(list, 2*median(list)) }

func countAbove(list []float64, limit float64) (count int) {
	for _, t := range list {
		if t > limit {
			count++
		}
	}
	return count
}

// startBusyProgram starts a program that loads and stores as much memory as it can, on the
// processor that is measured. The function end kills it.
func (b *bench) startBusyProgram() (end func()) {
	command := exec.Command(b.tuned, "spin")
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
