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

// ask sends a request and gives the numbers of the answer.
func (s *side) ask(request string, arguments ...any) ([]int64, error) {
	text := strings.TrimSpace(fmt.Sprintln(append([]any{request}, arguments...)...))
	if _, err := io.WriteString(s.in, text+"\n"); err != nil {
		return nil, err
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s gave no answer to %q: %w", s.command.Path, text, err)
	}
	var numbers []int64
	for _, word := range strings.Fields(line) {
		var n int64
		if _, err := fmt.Sscan(word, &n); err != nil {
			return nil, fmt.Errorf("%s answered %q to %q", s.command.Path, line, text)
		}
		numbers = append(numbers, n)
	}
	if request == "run" && (len(numbers) < 2 || numbers[1] != 0) {
		return nil, fmt.Errorf("%s failed: %q answered %q", s.command.Path, text, strings.TrimSpace(line))
	}
	return numbers, nil
}

// frames gives the times of count runs of a sequence, one every period.
func (s *side) frames(sequence, count int, period time.Duration) ([]float64, error) {
	if _, err := s.ask("frames", sequence, count, period.Nanoseconds()); err != nil {
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

// request is one thing to measure on one side. COUNT in it is replaced by how often.
type request struct {
	side *side
	make func(count int) []any
}

func run(s *side, sequence, way int) request {
	return request{s, func(count int) []any { return []any{"run", sequence, count, way} }}
}

func plainRequest(s *side, word string) request {
	return request{s, func(count int) []any { return []any{word, count} }}
}

func (r request) ask(count int) (float64, error) {
	words := r.make(count)
	answer, err := r.side.ask(words[0].(string), words[1:]...)
	if err != nil {
		return 0, err
	}
	return float64(answer[0]) / float64(count), nil
}

// ways are those in which C carries out commands: by a switch and by threaded
// code, each with memcpy and with streaming stores for block writes.
var ways = []string{"switch", "switch, streaming", "threaded", "threaded, streaming"}

// besideBest is a row of a sequence that we run beside C's best way.
func (b *bench) besideBest(section, what string, sequence int, scale float64, p *pair) (row, error) {
	requests := []request{run(p.ours, sequence, 0)}
	for way := range ways {
		requests = append(requests, run(p.c, sequence, way))
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
		first, err := r.ask(1) // also brings pages and caches in
		if err == nil {
			first, err = r.ask(1)
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
			t, err := requests[i].ask(counts[i])
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
