package main

import (
	"fmt"
	"math"
	"os/exec"
	"time"

	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// The frame: 10,000 writes, begun once every period. The priority is that of
// SCHED_FIFO where it is asked for.
const (
	frameCommands = 10_000
	framePeriod   = 250 * time.Microsecond
	framePriority = 50
)

// quantiles of the frames' times that are reported.
var quantiles = []struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}}

// frameTimes measures how steady a frame is: alone and beside a program that
// wants the same processor and its caches, under both schedulers.
func (b *bench) frameTimes() {
	b.on("frames", writesImage(frameCommands), func(p *pair, _ int64) {
		for _, busy := range []bool{false, true} {
			for _, fifo := range []int{0, framePriority} {
				b.frameSetting([]*side{p.ours, p.c}, busy, fifo)
			}
		}
	})
}

// frameSetting measures ours and C's in one setting.
func (b *bench) frameSetting(sides []*side, busy bool, fifo int) {
	what := map[bool]string{false: "idle", true: "busy"}[busy]
	if fifo > 0 {
		what += ", FIFO"
	}
	for _, s := range sides {
		if !s.priority(fifo) {
			b.add(row{Section: "frame of 10,000 writes", What: what,
				Note: "skipped: SCHED_FIFO is not permitted here"})
			return
		}
	}
	if busy {
		defer b.neighbour()()
	}
	chunks, size := 4, 1000
	if b.full {
		chunks, size = 20, 2000
	}
	took := make([][]float64, len(sides))
	for chunk := range chunks {
		for n := range sides {
			i := (n + chunk) % len(sides)
			took[i] = append(took[i], sides[i].frames(1, size, framePeriod)...)
		}
	}
	b.frameRows(what, took[0], took[1])
}

// frameRows adds a row for each quantile. Beyond its own median is what a
// program adds to a frame by being disturbed.
func (b *bench) frameRows(what string, ours, c []float64) {
	for _, quantity := range quantiles {
		o, n := quantile(ours, quantity.q), quantile(c, quantity.q)
		r := row{Section: "frame of 10,000 writes", What: what + ", " + quantity.name, Unit: "us",
			Ours: value(o / 1e3), C: value(n / 1e3), Ratio: value(o / n)}
		if quantity.name == "p99.99" {
			r = r.atMost(*r.Ratio, 1.2, "<= 1.2 x C")
			r.Note = fmt.Sprintf("of %d frames each", len(ours))
			if len(ours) < 10_000 {
				r.Note += ": too few for it, this is the longest"
			}
		}
		if quantity.name == "max" {
			r.Note = fmt.Sprintf("%d of ours, %d of C's took more than twice the median",
				above(ours), above(c))
		}
		b.add(r)
	}
	o, n := late(ours), late(c)
	r := row{Section: "frame of 10,000 writes", What: what + ", over 50 us late", Unit: "frames",
		Ours: value(o), C: value(n),
		Note: "longer than the program's own median by that"}
	// What two counts of rare events (none is no surer than one) differ by through chance, where
	// both programs are as late as 1.2 x C.
	deviation := math.Sqrt((1.2 + 1.2*1.2) * max(n, 1))
	b.add(r.atMost(o, 1.2*n+max(1, 2*deviation), "<= 1.2 x C, or by 2 sigma of chance"))
}

// late counts times of more than 50 us beyond the median, above those of more than
// twice the median.
func late(list []float64) float64 { return float64(over(list, median(list)+50e3)) }
func above(list []float64) int    { return over(list, 2*median(list)) }

func over(list []float64, limit float64) (count int) {
	for _, t := range list {
		if t > limit {
			count++
		}
	}
	return count
}

// neighbour starts a program that loads and stores as much memory as it can,
// on the processor that is measured.
func (b *bench) neighbour() (end func()) {
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
