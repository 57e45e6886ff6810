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

// memory is what both sides take for the device.
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

// side is one of the programs that replay: those of tools/check/bench/c, or
// tools/check/bench/child.
type side struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// start starts a program that serves an image on a memory. The words in front
// of it, if any, are a command that starts it.
func start(m *memory, image string, program ...string) *side {
	program = append(program, "serve", image)
	command := exec.Command(program[0], program[1:]...)
	command.ExtraFiles = []*os.File{m.file}
	command.Stderr = os.Stderr
	s := &side{command, fail.Must(command.StdinPipe()),
		bufio.NewReader(fail.Must(command.StdoutPipe()))}
	fail.On(command.Start())
	return s
}

// stop ends the program, which must end well.
func (s *side) stop() {
	s.in.Close()
	fail.On(s.command.Wait())
}

// ask sends a request, a word and numbers, and gives the numbers of the answer.
func (s *side) ask(word string, numbers ...int) (answer []int64) {
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

// ended is how the runs of a sequence ended.
type ended struct {
	nanoseconds     int64 // of all
	status, command int64 // of the last
	outputs         uint32
	ignored         int64
}

// replay runs a sequence count times, and stops at one that fails. The way is one
// of ways, ours takes a limit in hours.
func (s *side) replay(sequence, count, way int) ended {
	n := s.ask("run", sequence, count, way)
	if len(n) != 5 {
		fail.On(fmt.Errorf("%s answered %d numbers to run", s.command.Path, len(n)))
	}
	return ended{n[0], n[1], n[2], uint32(n[3]), n[4]}
}

// time is that of runs of which none may fail.
func (s *side) time(sequence, count, way int) (nanoseconds int64) {
	e := s.replay(sequence, count, way)
	if e.status != 0 {
		fail.On(fmt.Errorf("%s: sequence %d fails with %d at command %d", s.command.Path, sequence,
			e.status, e.command))
	}
	return e.nanoseconds
}

// frames gives the times of count runs of a sequence, one every period.
func (s *side) frames(sequence, count int, period time.Duration) []float64 {
	s.ask("frames", sequence, count, int(period))
	took := make([]int64, count)
	fail.On(binary.Read(s.out, binary.LittleEndian, took))
	list := make([]float64, count)
	for i, n := range took {
		list[i] = float64(n)
	}
	return list
}

// priority gives every thread of the program a priority of SCHED_FIFO, 0: the
// ordinary scheduler. One thread alone is not enough: Go hands a goroutine that
// it interrupts from thread to thread, and waits for the slowest. It tells whether
// that is permitted.
func (s *side) priority(fifo int) (permitted bool) {
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

// pair is our side and C's tuned loops on one image and one memory, and the player in C.
type pair struct {
	ours, c, player *side
	memory          *memory
	image           string
}

// sides returns all sides.
func (p *pair) sides() []*side { return []*side{p.ours, p.c, p.player} }

// startPair starts all sides on one processor.
func (b *bench) startPair(image string, before []byte) *pair {
	m := newMemory(max(deviceSize+pageSize, len(before)))
	copy(m.bytes, before)
	p := &pair{memory: m, image: image, ours: start(m, image, b.child),
		c: start(m, image, b.tuned), player: start(m, image, b.player)}
	for _, s := range p.sides() {
		s.ask("pin", b.cpu)
	}
	return p
}

func (p *pair) stop() {
	defer p.memory.close()
	for _, s := range p.sides() {
		s.stop()
	}
}

// request does one thing to measure, on one side, so often, and gives the time of all.
type request func(count int) (nanoseconds int64)

func (s *side) run(sequence, way int) request {
	return func(count int) int64 { return s.time(sequence, count, way) }
}

// each is the request of a word that takes how often alone: load, hash, read.
func (s *side) each(word string) request {
	return func(count int) int64 { return s.ask(word, count)[0] }
}

// one is the time of one of count.
func (r request) one(count int) float64 { return float64(r(count)) / float64(count) }

// ways are those in which C carries out commands: by a switch and by threaded
// code, each with memcpy and with streaming stores for block writes.
var ways = []string{"switch", "switch, streaming", "threaded", "threaded, streaming"}

// besidePlayer is the section of the rows that compare our walk with the player in C.
const besidePlayer = "Go's walk (ours) beside the player in runtime/c (C)"

// besideBest is a row of a sequence that we run beside C's best way. It adds a row of the player.
func (b *bench) besideBest(section, what string, sequence int, scale float64, p *pair) row {
	requests := []request{p.ours.run(sequence, 0)}
	for way := range ways {
		requests = append(requests, p.c.run(sequence, way))
	}
	took := measure(b.rounds, b.atLeast, append(requests, p.player.run(sequence, 0))...)
	player := took[len(requests)]
	b.playerRows = append(b.playerRows,
		versus(besidePlayer, what, "ns", scale, took[0], player))
	best := best(took[1:len(requests)])
	r := versus(section, what, "ns", scale, took[0], took[1+best])
	r.Note = "C's best: " + ways[best]
	return r
}

// best is which of several measurements took least.
func best(took [][]float64) (least int) {
	for i := range took {
		if median(took[i]) < median(took[least]) {
			least = i
		}
	}
	return least
}

// measure asks all requests in turn, rounds times, in an order that turns
// round each time, and gives the nanoseconds of one, by request and round. The
// count of each is chosen so that it takes about atLeast.
func measure(rounds int, atLeast time.Duration, requests ...request) [][]float64 {
	counts := make([]int, len(requests))
	for i, r := range requests {
		r.one(1) // brings pages and caches in
		counts[i] = int(math.Ceil(float64(atLeast.Nanoseconds()) / max(r.one(1), 1)))
	}
	took := make([][]float64, len(requests))
	for round := range rounds {
		for n := range requests {
			i := n
			if round%2 == 1 {
				i = len(requests) - 1 - n
			}
			took[i] = append(took[i], requests[i].one(counts[i]))
		}
	}
	return took
}

// quantile is the smallest element that at least the share q is not above.
func quantile(list []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func median(list []float64) float64 {
	return (quantile(list, 0.5) + quantile(list, 0.5+0.5/float64(len(list)))) / 2
}

// ratios divides round by round, so that what slows one round slows both sides.
func ratios(ours, c []float64) []float64 {
	list := make([]float64, len(ours))
	for i := range list {
		list[i] = ours[i] / c[i]
	}
	return list
}
