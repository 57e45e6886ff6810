package main

import (
	"bufio"
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

	"golang.org/x/sys/unix"
)

// memory is what both sides take for the device.
type memory struct {
	file  *os.File
	bytes []byte
}

func newMemory(size int) (*memory, error) {
	fd, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for the device: %w", err)
	}
	m := &memory{file: os.NewFile(uintptr(fd), "device")}
	if err := m.file.Truncate(int64(size)); err != nil {
		return nil, err
	}
	m.bytes, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return m, err
}

func (m *memory) close() {
	unix.Munmap(m.bytes)
	m.file.Close()
}

// side is one of the two programs that replay: testdata/cref or tools/bench/child.
type side struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// start starts a program that serves an image on a memory. The words in front
// of it, if any, are a command that starts it.
func start(m *memory, image string, program ...string) (*side, error) {
	program = append(program, "serve", image)
	command := exec.Command(program[0], program[1:]...)
	command.ExtraFiles = []*os.File{m.file}
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &side{command, in, bufio.NewReader(out)}, command.Start()
}

// stop ends the program and gives how it ended.
func (s *side) stop() error {
	s.in.Close()
	return s.command.Wait()
}

// ask sends a request, a word and numbers, and gives the numbers of the answer.
func (s *side) ask(word string, numbers ...int) ([]int64, error) {
	text := word
	for _, n := range numbers {
		text += " " + strconv.Itoa(n)
	}
	if _, err := io.WriteString(s.in, text+"\n"); err != nil {
		return nil, err
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s gave no answer to %q: %w", s.command.Path, text, err)
	}
	var answer []int64
	for _, word := range strings.Fields(line) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s answered %q to %q", s.command.Path, line, text)
		}
		answer = append(answer, n)
	}
	return answer, nil
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
func (s *side) replay(sequence, count, way int) (ended, error) {
	n, err := s.ask("run", sequence, count, way)
	if err == nil && len(n) != 5 {
		err = fmt.Errorf("%s answered %d numbers to run", s.command.Path, len(n))
	}
	if err != nil {
		return ended{}, err
	}
	return ended{n[0], n[1], n[2], uint32(n[3]), n[4]}, nil
}

// must is replay where a failure is none of the answers.
func (s *side) must(sequence, count, way int) (nanoseconds int64, err error) {
	e, err := s.replay(sequence, count, way)
	if err == nil && e.status != 0 {
		err = fmt.Errorf("%s: sequence %d fails with %d at command %d", s.command.Path, sequence, e.status, e.command)
	}
	return e.nanoseconds, err
}

// frames gives the times of count runs of a sequence, one every period.
func (s *side) frames(sequence, count int, period time.Duration) ([]float64, error) {
	if _, err := s.ask("frames", sequence, count, int(period)); err != nil {
		return nil, err
	}
	took := make([]int64, count)
	if err := binary.Read(s.out, binary.LittleEndian, took); err != nil {
		return nil, err
	}
	list := make([]float64, count)
	for i, n := range took {
		list[i] = float64(n)
	}
	return list, nil
}

// priority gives every thread of the program a priority of SCHED_FIFO, 0: the
// ordinary scheduler. One thread alone is not enough: Go hands a goroutine that
// it interrupts from thread to thread, and waits for the slowest.
func (s *side) priority(fifo int) error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	if fifo > 0 {
		attr.Policy, attr.Priority = unix.SCHED_FIFO, uint32(fifo)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.command.Process.Pid))
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetAttr(id, &attr, 0); err != nil {
			return err
		}
	}
	return nil
}

// pair is both sides on one image and one memory.
type pair struct {
	ours, c *side
	memory  *memory
	image   string
}

// startPair starts both sides on one processor.
func (b *bench) startPair(image string, before []byte) (*pair, error) {
	m, err := newMemory(max(deviceSize+pageSize, len(before)))
	if err != nil {
		return nil, err
	}
	copy(m.bytes, before)
	p := &pair{memory: m, image: image}
	if p.ours, err = start(m, image, b.child); err != nil {
		return nil, err
	}
	if p.c, err = start(m, image, b.cref); err != nil {
		return nil, err
	}
	for _, s := range []*side{p.ours, p.c} {
		if _, err := s.ask("pin", b.cpu); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *pair) stop() error {
	defer p.memory.close()
	if err := p.ours.stop(); err != nil {
		return err
	}
	return p.c.stop()
}

// request does one thing to measure, on one side, so often, and gives the time of all.
type request func(count int) (nanoseconds int64, err error)

func (s *side) run(sequence, way int) request {
	return func(count int) (int64, error) { return s.must(sequence, count, way) }
}

// each is the request of a word that takes how often alone: load, hash, read.
func (s *side) each(word string) request {
	return func(count int) (int64, error) {
		answer, err := s.ask(word, count)
		if err != nil {
			return 0, err
		}
		return answer[0], nil
	}
}

// one is the time of one of count.
func (r request) one(count int) (float64, error) {
	all, err := r(count)
	return float64(all) / float64(count), err
}

// ways are those in which C carries out commands: by a switch and by threaded
// code, each with memcpy and with streaming stores for block writes.
var ways = []string{"switch", "switch, streaming", "threaded", "threaded, streaming"}

// besideBest is a row of a sequence that we run beside C's best way.
func (b *bench) besideBest(section, what string, sequence int, scale float64, p *pair) (row, error) {
	requests := []request{p.ours.run(sequence, 0)}
	for way := range ways {
		requests = append(requests, p.c.run(sequence, way))
	}
	took, err := measure(b.rounds, b.atLeast, requests...)
	if err != nil {
		return row{}, err
	}
	best := best(took[1:])
	r := versus(section, what, "ns", scale, took[0], took[1+best])
	r.Note = "C's best: " + ways[best]
	return r, nil
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
func measure(rounds int, atLeast time.Duration, requests ...request) ([][]float64, error) {
	counts := make([]int, len(requests))
	for i, r := range requests {
		first, err := r.one(1) // also brings pages and caches in
		if err == nil {
			first, err = r.one(1)
		}
		if err != nil {
			return nil, err
		}
		counts[i] = int(math.Ceil(float64(atLeast.Nanoseconds()) / max(first, 1)))
	}
	took := make([][]float64, len(requests))
	for round := range rounds {
		for n := range requests {
			i := n
			if round%2 == 1 {
				i = len(requests) - 1 - n
			}
			t, err := requests[i].one(counts[i])
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], t)
		}
	}
	return took, nil
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
