package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"lightmetal/fbs"
	"lightmetal/runtime"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// processUse is what a process has used when it has run a sequence for the first time.
type processUse struct {
	milliseconds float64 // since its start
	ownKiB       float64 // anonymous memory
	threads      float64
}

// useOfFirstRun starts a program as a side, lets it run a sequence of an image once, and ends it.
func useOfFirstRun(m *memory, image string, sequence int, program []string) processUse {
	began := time.Now()
	s := startSide(m, image, program...)
	s.timeRuns(sequence, 1, 0)
	use := processUse{milliseconds: time.Since(began).Seconds() * 1e3}
	use.ownKiB, use.threads = statusOfProcess(s.command.Process.Pid)
	s.stop()
	return use
}

// statusOfProcess returns the size of the anonymous memory of a process, and the number of its
// threads. Pages of the device do not belong to the program and are not counted.
func statusOfProcess(pid int) (ownKiB, threads float64) {
	for line := range bytes.Lines(fail.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))) {
		switch key, value, _ := strings.Cut(string(line), ":"); key {
		case "RssAnon":
			fail.Must(fmt.Sscan(value, &ownKiB))
		case "Threads":
			fail.Must(fmt.Sscan(value, &threads))
		}
	}
	return ownKiB, threads
}

// measureStartUp measures processes from their start to the answer of their first request, which is
// one store of our program.
func (b *bench) measureStartUp() {
	image := b.writeImage(payloadImage(1 << 20))
	m := newMemory("device", deviceSize+pageSize)
	defer m.close()
	sample := func(program string) sampler {
		return func() float64 {
			return useOfFirstRun(m, image, 0, []string{program}).milliseconds
		}
	}
	b.compare(comparison{what: "exec to first store, 1 MiB image", unit: "ms",
		ours:   sample(b.childProgram),
		others: []alternative{{"an empty Go program", sample(b.idleProgram)}},
		goal:   goal{excessAtMost, 0.75}, rounds: b.effort.processStarts})
}

// oneProcessor is the variable that lminit adds to the environment of lmrun.
const oneProcessor = "GOMAXPROCS=1"

// measureMemory compares memory of processes that have run once with that of an empty Go program,
// and with that of a process with a smaller image. Medians are compared, because Go's use at its
// start varies.
func (b *bench) measureMemory() {
	m := newMemory("device", deviceSize+pageSize)
	defer m.close()
	pairs := [][2]labeledImage{
		{b.labelImage("64 MiB of payload", payloadImage(64<<20)),
			b.labelImage("1 MiB", payloadImage(1<<20))},
		{b.labelImage("1e6 commands", writesImage(1e6)),
			b.labelImage("1e3 commands", writesImage(1e3))},
	}
	empty := []alternative{{"an empty Go program", func() float64 {
		return useOfFirstRun(m, "", 0, []string{b.idleProgram}).ownKiB
	}}}
	ownMemory := func(image labeledImage, program ...string) sampler {
		return func() float64 {
			return useOfFirstRun(m, image.path, 1, program).ownKiB - image.envelopeKiB
		}
	}
	for _, pair := range pairs {
		image, small := pair[0], pair[1]
		b.compare(comparison{what: "own memory, " + image.label, unit: "KiB",
			ours: ownMemory(image, b.childProgram), others: empty,
			goal: goal{excessAtMost, 256}, note: image.note()})
		started := []string{"env", oneProcessor, b.childProgram}
		b.compare(comparison{
			what: "own memory, " + image.label + ", " + oneProcessor, unit: "KiB",
			ours:   ownMemory(image, started...),
			others: []alternative{{"with " + small.label, ownMemory(small, started...)}},
			goal:   goal{excessAtMost, 64}, note: image.note()})
	}
	b.compare(comparison{what: "threads",
		ours: func() float64 {
			return useOfFirstRun(m, pairs[0][0].path, 1, []string{b.childProgram}).threads
		},
		goal: goal{ownNumber, 5}})
}

// labeledImage is an image in a file and a text that describes its size.
type labeledImage struct {
	label, path string
	envelopeKiB float64 // size of the copy of its envelope, which depends on the image alone
}

func (b *bench) labelImage(label string, image *lmb.Image) labeledImage {
	path := b.writeImage(image)
	file := fail.Must(runtime.Open(path))
	defer file.Close()
	page := int64(os.Getpagesize())
	pages := (int64(fbs.ReadStruct[fbs.Preamble](file.Bytes()).EnvelopeSize) + page - 1) / page
	return labeledImage{label, path, float64(pages*page) / 1024}
}

func (image labeledImage) note() string {
	return fmt.Sprintf("without the %.0f KiB of the envelope's copy", image.envelopeKiB)
}
