package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"lightmetal/fbs"
	"lightmetal/runtime"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// measureStartUp measures complete processes with an image of 1 MB: our program from its start to
// its first store, an empty Go program, and the program in C.
func (b *bench) measureStartUp() {
	path, _, done := b.writeImage("start", payloadImage(1<<20))
	defer done()
	m := newMemory(deviceSize + pageSize)
	defer m.close()
	empty := filepath.Join(b.programDir, "bench-empty-"+hostArch)
	programs := [][]string{{b.childProgram, "once", path}, {empty}, {b.tuned, "once", path}}
	took := make([][]float64, len(programs))
	for round := range 10 * b.rounds {
		for n := range programs {
			i := (n + round) % len(programs)
			took[i] = append(took[i], processTime(m, programs[i]))
		}
	}
	beyond := medianDifference(took[0], took[1])
	r := row{
		Section: "goals", What: "exec to first store, 1 MB image", Unit: "ms",
		Ours: pointerTo(median(took[0]) / 1e6), C: pointerTo(median(took[2]) / 1e6),
		Note: fmt.Sprintf("an empty Go program %.2f ms, beyond it %.2f ms", median(took[1])/1e6,
			beyond/1e6),
	}
	b.add(r.atMost(beyond, 0.75e6, "<= 0.75 ms beyond"))
}

// oneProcessor is the variable that lminit adds to the environment of lmrun.
const oneProcessor = "GOMAXPROCS=1"

// processTime returns the time of a process from its start to its end, in nanoseconds.
func processTime(m *memory, program []string) float64 {
	command := exec.Command(program[0], program[1:]...)
	command.ExtraFiles = []*os.File{m.file}
	command.Stderr = os.Stderr
	began := time.Now()
	if err := command.Run(); err != nil {
		fail.On(fmt.Errorf("%s: %w", program[0], err))
	}
	return float64(time.Since(began))
}

// hostArch is Go's name of this machine's architecture.
var hostArch = map[bool]string{true: "arm64", false: "amd64"}[strings.HasPrefix(
	commandOutput("uname", "-m"), "aarch64")]

// mappedBytes returns the total size of a program's code and data: the sections that are in the
// file and in memory. Unlike the size of the file, it does not grow in steps of pages and segments.
func mappedBytes(path string) (bytes int64) {
	file := fail.Must(elf.Open(path))
	defer file.Close()
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			bytes += int64(s.Size)
		}
	}
	return bytes
}

// sizeBeyondEmpty returns by how much a program's code and data exceed those of an empty program.
// It also returns the size of the program.
func sizeBeyondEmpty(program, empty string) (excess, bytes int64) {
	bytes = mappedBytes(program)
	return bytes - mappedBytes(empty), bytes
}

// measureSizes compares the size of lmrun with that of an empty Go program.
func (b *bench) measureSizes() {
	for _, arch := range []string{"arm64", "amd64"} {
		excess, bytes := sizeBeyondEmpty(filepath.Join(b.programDir, "lmrun-"+arch),
			filepath.Join(b.programDir, "bench-empty-"+arch))
		kib := func(n int64) float64 { return float64(n) / 1024 }
		r := row{Section: "goals", What: "static lmrun, all lanes, " + arch, Unit: "KiB",
			Ours: pointerTo(kib(bytes)),
			Note: fmt.Sprintf("code and data; an empty Go program %.1f KiB, beyond it %.1f KiB",
				kib(bytes-excess), kib(excess))}
		if arch == "arm64" {
			r = r.atMost(kib(excess), 460, "<= 460 KiB beyond")
		}
		b.add(r)
	}
}

// measureResidency compares memory and threads of processes that have run once with those of a
// waiting, empty Go program. It compares medians, because Go's use at its start varies. Pages of
// the device do not belong to the program and are not counted, nor is the copy of the envelope,
// whose size depends on the image alone.
func (b *bench) measureResidency() {
	empty := b.medianStatus(func() map[string]int64 {
		return idleStatus(filepath.Join(b.programDir,
			"bench-idle"))
	})
	for _, pair := range [][2]labeledImage{
		{{"image of 1 MiB", payloadImage(1 << 20)}, {"image of 64 MiB", payloadImage(64 << 20)}},
		{{"1e+03 commands", writesImage(1e3)}, {"1e+06 commands", writesImage(1e6)}},
	} {
		var least [2]int64
		for i, s := range pair {
			least[i] = b.addResidencyRows(s, empty)
		}
		more := float64(least[1]-least[0]) / 1024
		b.add(row{Section: "goals", What: "own memory, " + pair[1].label + " beyond " +
			pair[0].label,
			Unit: "KiB", Ours: pointerTo(more),
			Note: fmt.Sprintf("with %s, as lminit starts it, without the copies of the envelopes",
				oneProcessor)}.atMost(more, 64, "<= 64 (no more)"))
	}
}

// labeledImage is an image and a text that describes its size.
type labeledImage struct {
	label string
	image *lmb.Image
}

// addResidencyRows adds the rows of an image. It returns the memory of our program as lminit starts
// it, which varies least.
func (b *bench) addResidencyRows(s labeledImage, empty map[string]int64) (least int64) {
	path, _, done := b.writeImage("residency", s.image)
	defer done()
	after := func(program ...string) map[string]int64 {
		return b.medianStatus(func() map[string]int64 { return statusAfterRun(path, program) })
	}
	ours, c := after(b.childProgram), after(b.tuned)
	oursAsStarted, envelope := after("env", oneProcessor, b.childProgram), envelopeCopySize(path)
	kib := func(n int64) *float64 { return pointerTo(float64(n) / 1024) }
	own := ours["RssAnon"] - envelope
	b.add(row{Section: "goals", What: "own memory, " + s.label, Unit: "KiB", Ours: kib(own),
		C: kib(c["RssAnon"]),
		Note: fmt.Sprintf("anonymous pages, without %d KiB of the envelope's copy; an empty Go "+
			"program %d KiB", envelope>>10, empty["RssAnon"]>>10)}.
		atMost(float64(own-empty["RssAnon"])/1024, 256, "<= 256 KiB beyond"))
	b.add(row{Section: "goals", What: "threads, " + s.label,
		Ours: pointerTo(float64(ours["Threads"])),
		C:    pointerTo(float64(c["Threads"])),
		Note: fmt.Sprintf("an empty Go program %d", empty["Threads"])}.
		atMost(float64(ours["Threads"]), 5, "<= 5"))
	return oursAsStarted["RssAnon"] - envelope
}

// envelopeCopySize returns the size of the copy of an image's envelope in memory, in bytes.
func envelopeCopySize(path string) int64 {
	file := fail.Must(runtime.Open(path))
	defer file.Close()
	page := int64(os.Getpagesize())
	return (int64(fbs.ReadStruct[fbs.Preamble](file.Bytes()).EnvelopeSize) + page - 1) / page * page
}

// statusAfterRun returns the status of a side that has run sequence 1 once.
func statusAfterRun(path string, program []string) map[string]int64 {
	m := newMemory(deviceSize + pageSize)
	defer m.close()
	s := startSide(m, path, program...)
	s.timeRuns(1, 1, 0)
	status := processStatus(s.command.Process.Pid)
	s.stop()
	return status
}

// medianStatus calls status several times, each time for a new process, and returns the medians.
func (b *bench) medianStatus(status func() map[string]int64) map[string]int64 {
	all := map[string][]float64{}
	for range b.rounds {
		for name, n := range status() {
			all[name] = append(all[name], float64(n))
		}
	}
	medians := map[string]int64{}
	for name, list := range all {
		medians[name] = int64(median(list))
	}
	return medians
}

// idleStatus returns the status of a program that waits for its input.
func idleStatus(program string) map[string]int64 {
	command := exec.Command(program)
	in, out := fail.Must(command.StdinPipe()), fail.Must(command.StdoutPipe())
	fail.On(command.Start())
	fail.Must(out.Read(make([]byte, 1)))
	status := processStatus(command.Process.Pid)
	in.Close()
	fail.On(command.Wait())
	return status
}

// processStatus returns the memory sizes in a process's status, in bytes, and the number of its
// threads.
func processStatus(pid int) map[string]int64 {
	status := map[string]int64{}
	for line := range bytes.Lines(fail.Must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))) {
		var n int64
		key, rest, _ := strings.Cut(string(line), ":")
		if _, err := fmt.Sscanf(rest, "%d kB", &n); err == nil {
			status[key] = n << 10
		} else if _, err := fmt.Sscan(rest, &n); err == nil && key == "Threads" {
			status[key] = n
		}
	}
	return status
}
