package main

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// memory is the memory that all sides use as the device.
type memory struct {
	file  *os.File
	bytes []byte
}

func newMemory(size int) *memory {
	fd := fail.Must(unix.MemfdCreate("device", unix.MFD_CLOEXEC))
	m := &memory{file: os.NewFile(uintptr(fd), "device")}
	fail.On(m.file.Truncate(int64(size)))
	m.bytes = fail.Must(unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
	return m
}

func (m *memory) close() {
	unix.Munmap(m.bytes)
	m.file.Close()
}

// side is a running program that replays an image: one from tools/check/bench/c, or
// tools/check/bench/child.
type side struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startSide starts a program that serves requests for an image on a memory. If program has several
// words, the first ones are a command that starts the program, such as strace.
func startSide(m *memory, image string, program ...string) *side {
	program = append(program, "serve", image)
	command := exec.Command(program[0], program[1:]...)
	command.ExtraFiles = []*os.File{m.file}
	command.Stderr = os.Stderr
	s := &side{command, fail.Must(command.StdinPipe()),
		bufio.NewReader(fail.Must(command.StdoutPipe()))}
	fail.On(command.Start())
	return s
}

// stop ends the program, whose exit status must be 0.
func (s *side) stop() {
	s.in.Close()
	fail.On(s.command.Wait())
}

// query sends a request, a word and numbers, and returns the numbers of the answer.
func (s *side) query(word string, numbers ...int) (answer []int64) {
	text := word
	for _, n := range numbers {
		text += " " + strconv.Itoa(n)
	}
	fail.Must(io.WriteString(s.in, text+"\n"))
	line, err := s.out.ReadString('\n')
	for _, word := range strings.Fields(line) {
		n, bad := strconv.ParseInt(word, 10, 64)
		answer, err = append(answer, n), cmp.Or(err, bad)
	}
	if err != nil {
		fail.On(fmt.Errorf("%s answered %q to %q: %w", s.command.Path, line, text, err))
	}
	return answer
}

// runOutcome is the result of count runs of a sequence.
type runOutcome struct {
	nanoseconds     int64 // of all runs
	status, command int64 // of the last run
	outputs         uint32
	ignored         int64
}

// runSequence runs a sequence count times, and stops after a run that fails. For C, way is an index
// of ways; for our side, it is a limit in hours.
func (s *side) runSequence(sequence, count, way int) runOutcome {
	n := s.query("run", sequence, count, way)
	if len(n) != 5 {
		fail.On(fmt.Errorf("%s answered %d numbers to run", s.command.Path, len(n)))
	}
	return runOutcome{n[0], n[1], n[2], uint32(n[3]), n[4]}
}

// timeRuns returns the time of count runs. None of them may fail.
func (s *side) timeRuns(sequence, count, way int) (nanoseconds int64) {
	e := s.runSequence(sequence, count, way)
	if e.status != 0 {
		fail.On(fmt.Errorf("%s: sequence %d fails with %d at command %d", s.command.Path, sequence,
			e.status, e.command))
	}
	return e.nanoseconds
}

// timeFrames returns the times of count runs of a sequence, one every period.
func (s *side) timeFrames(sequence, count int, period time.Duration) []float64 {
	s.query("frames", sequence, count, int(period))
	took := make([]int64, count)
	fail.On(binary.Read(s.out, binary.LittleEndian, took))
	list := make([]float64, count)
	for i, n := range took {
		list[i] = float64(n)
	}
	return list
}

// setPriority sets the SCHED_FIFO priority of every thread of the program; 0 selects the ordinary
// scheduler. It reports whether this is permitted. All threads need the priority, because Go moves
// a goroutine that it interrupts to other threads, and then waits for the slowest.
func (s *side) setPriority(fifo int) (permitted bool) {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	if fifo > 0 {
		attr.Policy, attr.Priority = unix.SCHED_FIFO, uint32(fifo)
	}
	for _, thread := range fail.Must(os.ReadDir(fmt.Sprintf("/proc/%d/task",
		s.command.Process.Pid))) {
		err := unix.SchedSetAttr(fail.Must(strconv.Atoi(thread.Name())), &attr, 0)
		if err == unix.EPERM {
			return false
		}
		fail.On(err)
	}
	return true
}

// pair is our side, the tuned loops in C, and the player in C, on one image and one memory.
type pair struct {
	ours, tuned, player *side
	memory              *memory
	image               string
}

// sides returns all sides.
func (p *pair) sides() []*side { return []*side{p.ours, p.tuned, p.player} }

// startPair starts all sides on one processor.
func (b *bench) startPair(image string, before []byte) *pair {
	m := newMemory(max(deviceSize+pageSize, len(before)))
	copy(m.bytes, before)
	p := &pair{memory: m, image: image, ours: startSide(m, image, b.childProgram),
		tuned: startSide(m, image, b.tuned), player: startSide(m, image, b.player)}
	for _, s := range p.sides() {
		s.query("pin", b.cpu)
	}
	return p
}

func (p *pair) stop() {
	defer p.memory.close()
	for _, s := range p.sides() {
		s.stop()
	}
}

// timedRequest executes a request count times on one side, and returns the total time.
type timedRequest func(count int) (nanoseconds int64)

func (s *side) runRequest(sequence, way int) timedRequest {
	return func(count int) int64 { return s.timeRuns(sequence, count, way) }
}

// requestByName returns the request that a word names. Its only number is the count: load, hash,
// read.
func (s *side) requestByName(word string) timedRequest {
	return func(count int) int64 { return s.query(word, count)[0] }
}

// timeOfOne returns the total time divided by count.
func (r timedRequest) timeOfOne(count int) float64 { return float64(r(count)) / float64(count) }

// ways names the ways in which C executes commands: with a switch or with threaded code, each with
// memcpy or with streaming stores for block writes.
var ways = []string{"switch", "switch, streaming", "threaded", "threaded, streaming"}

// playerSection is the section of the rows that compare our walk with the player in C.
const playerSection = "Go's walk (ours) beside the player in runtime/c (C)"

// compareWithBest returns a row that compares our time of a sequence with C's fastest way. It also
// adds a row of the player.
func (b *bench) compareWithBest(section, what string, sequence int, scale float64, p *pair) row {
	requests := []timedRequest{p.ours.runRequest(sequence, 0)}
	for way := range ways {
		requests = append(requests, p.tuned.runRequest(sequence, way))
	}
	took := measure(b.rounds, b.minTime, append(requests, p.player.runRequest(sequence, 0))...)
	player := took[len(requests)]
	b.playerRows = append(b.playerRows,
		compareTimes(playerSection, what, "ns", scale, took[0], player))
	bestWay := fastest(took[1:len(requests)])
	r := compareTimes(section, what, "ns", scale, took[0], took[1+bestWay])
	r.Note = "C's best: " + ways[bestWay]
	return r
}

// fastest returns the index of the measurement with the least median.
func fastest(took [][]float64) (least int) {
	for i := range took {
		if median(took[i]) < median(took[least]) {
			least = i
		}
	}
	return least
}

// measure executes all requests in turn, rounds times. Every other round has the reverse order. It
// returns the nanoseconds of one execution, by request and round. The count of each request is
// chosen so that it takes about minTime.
func measure(rounds int, minTime time.Duration, requests ...timedRequest) [][]float64 {
	counts := make([]int, len(requests))
	for i, r := range requests {
		r.timeOfOne(1) // loads pages and caches
		counts[i] = int(math.Ceil(float64(minTime.Nanoseconds()) / max(r.timeOfOne(1), 1)))
	}
	took := make([][]float64, len(requests))
	for round := range rounds {
		for n := range requests {
			i := n
			if round%2 == 1 {
				i = len(requests) - 1 - n
			}
			took[i] = append(took[i], requests[i].timeOfOne(counts[i]))
		}
	}
	return took
}

// quantile returns the smallest element of the list such that at least the share q of all elements
// is not above it.
func quantile(list []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func median(list []float64) float64 {
	return (quantile(list, 0.5) + quantile(list, 0.5+0.5/float64(len(list)))) / 2
}

// ratios returns the quotient of each round. What slows down one round slows down both sides.
func ratios(ours, c []float64) []float64 {
	list := make([]float64, len(ours))
	for i := range list {
		list[i] = ours[i] / c[i]
	}
	return list
}
