package main

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// memory is the memory that all sides use as the device.
type memory struct {
	file  *os.File
	bytes []byte
}

// newMemory returns memory in a file that has no path.
func newMemory(name string, size int) *memory {
	fd := fail.Must(unix.MemfdCreate(name, unix.MFD_CLOEXEC))
	m := &memory{file: os.NewFile(uintptr(fd), name)}
	fail.On(m.file.Truncate(int64(size)))
	m.bytes = fail.Must(unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
	return m
}

func (m *memory) close() {
	unix.Munmap(m.bytes)
	m.file.Close()
}

// side is a running program that replays an image: tools/check/bench/child, the program in
// tools/check/bench/c, or tools/check/bench/idle, which replays nothing.
type side struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startSide starts a program that serves requests for an image on a memory. If program has several
// words, the first ones are a command that starts the program, such as env.
func startSide(m *memory, image string, program ...string) *side {
	program = append(program, image)
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

// runSequence runs a sequence count times, and stops after a run that fails. way is an index of
// ways, and means nothing to our side.
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

// timeFrames returns the times of count runs of sequence 0, one every period.
func (s *side) timeFrames(count int, period time.Duration) []float64 {
	took := make([]int64, s.query("frames", 0, count, int(period))[0])
	fail.On(binary.Read(s.out, binary.LittleEndian, took))
	list := make([]float64, count)
	for i := range list {
		list[i] = float64(took[i])
	}
	return list
}

// withSides starts our side and C's on an image and on one processor, calls measure, and stops both
// sides. The memory of the device begins with the bytes of before. The words of prefix are a
// command that starts each program, such as chrt.
func (b *bench) withSides(image *lmb.Image, before []byte, measure func(ours, tuned *side),
	prefix ...string) {
	path := b.writeImage(image)
	m := newMemory("device", max(deviceSize+pageSize, len(before)))
	defer m.close()
	copy(m.bytes, before)
	ours := startSide(m, path, append(prefix, b.program("child"))...)
	defer ours.stop()
	tuned := startSide(m, path, append(prefix, b.program("tuned"))...)
	defer tuned.stop()
	ours.query("pin", b.cpu)
	tuned.query("pin", b.cpu)
	measure(ours, tuned)
}

// writeImage writes an image to a new file and returns its path.
func (b *bench) writeImage(image *lmb.Image) (path string) {
	b.images++
	path = filepath.Join(b.imageDir, fmt.Sprintf("%d.lmb", b.images))
	fail.On(files.Write(path, fail.Must(lmb.Encode(image)), 0o644, files.OpenToReplace))
	return path
}

// sampleRequest returns a sampler that executes a request as often as takes about a millisecond for
// each round. request returns the nanoseconds of count executions; convert converts those of one to
// the unit of the row.
func (b *bench) sampleRequest(request func(count int) (nanoseconds int64),
	convert func(nanoseconds float64) float64) sampler {
	request(1) // loads pages and caches
	least := time.Duration(b.rounds) * time.Millisecond
	count := int(max(1, int64(least)/max(request(1), 1)))
	return func() float64 { return convert(float64(request(count)) / float64(count)) }
}

// perCommand converts the time of count commands to the time of one.
func perCommand(count int) func(nanoseconds float64) float64 {
	return func(nanoseconds float64) float64 { return nanoseconds / float64(count) }
}

// ways names the ways in which C executes commands: with a switch or with threaded code, each with
// memcpy or with streaming stores for block writes.
var ways = []string{"switch, memcpy", "switch, streaming stores", "threaded code, memcpy",
	"threaded code, streaming stores"}

// compareRuns compares our runs of an image's first sequence with those of C, in its best way.
// convert converts the nanoseconds of one run to the unit of the row.
func (b *bench) compareRuns(c comparison, image *lmb.Image, before []byte,
	convert func(nanoseconds float64) float64) {
	b.withSides(image, before, func(ours, tuned *side) {
		sample := func(s *side, way int) sampler {
			return b.sampleRequest(
				func(count int) int64 { return s.timeRuns(0, count, way) }, convert)
		}
		c.ours = sample(ours, 0)
		for way, name := range ways {
			c.others = append(c.others, alternative{"C, " + name, sample(tuned, way)})
		}
		b.compare(c)
	})
}
