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

// startUp measures whole processes on an image of 1 MB: our program up to its
// first store, an empty Go program, and C's.
func (b *bench) startUp() {
	path, _, done := b.image("start", payloadImage(1<<20))
	defer done()
	m := newMemory(deviceSize + pageSize)
	defer m.close()
	empty := filepath.Join(b.dir, "bench-empty-"+host)
	programs := [][]string{{b.child, "once", path}, {empty}, {b.tuned, "once", path}}
	took := make([][]float64, len(programs))
	for round := range 10 * b.rounds {
		for n := range programs {
			i := (n + round) % len(programs)
			took[i] = append(took[i], whole(m, programs[i]))
		}
	}
	beyond := longer(took[0], took[1])
	r := row{
		Section: "goals", What: "exec to first store, 1 MB image", Unit: "ms",
		Ours: value(median(took[0]) / 1e6), C: value(median(took[2]) / 1e6),
		Note: fmt.Sprintf("an empty Go program %.2f ms, beyond it %.2f ms", median(took[1])/1e6,
			beyond/1e6),
	}
	b.add(r.atMost(beyond, 0.75e6, "<= 0.75 ms beyond"))
}

// oneProcessor is what lminit adds to the environment of lmrun.
const oneProcessor = "GOMAXPROCS=1"

// whole is the time of a process from its start to its end.
func whole(m *memory, program []string) float64 {
	command := exec.Command(program[0], program[1:]...)
	command.ExtraFiles = []*os.File{m.file}
	command.Stderr = os.Stderr
	began := time.Now()
	if err := command.Run(); err != nil {
		fail.On(fmt.Errorf("%s: %w", program[0], err))
	}
	return float64(time.Since(began))
}

// host is the architecture whose programs run here.
var host = map[bool]string{true: "arm64", false: "amd64"}[strings.HasPrefix(output("uname", "-m"),
	"aarch64")]

// mapped adds up the sections of a program that are in the file and in memory: its
// code and data, without the steps of pages and segments in which a file grows.
func mapped(path string) (bytes int64) {
	file := fail.Must(elf.Open(path))
	defer file.Close()
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			bytes += int64(s.Size)
		}
	}
	return bytes
}

// beyond is how much more of it one program has than another, an empty one.
func beyond(program, empty string) (excess, bytes int64) {
	bytes = mapped(program)
	return bytes - mapped(empty), bytes
}

// sizes compares programs.
func (b *bench) sizes() {
	for _, arch := range []string{"arm64", "amd64"} {
		excess, bytes := beyond(filepath.Join(b.dir, "lmrun-"+arch),
			filepath.Join(b.dir, "bench-empty-"+arch))
		kib := func(n int64) float64 { return float64(n) / 1024 }
		r := row{Section: "goals", What: "static lmrun, all lanes, " + arch, Unit: "KiB",
			Ours: value(kib(bytes)),
			Note: fmt.Sprintf("code and data; an empty Go program %.1f KiB, beyond it %.1f KiB",
				kib(bytes-excess), kib(excess))}
		if arch == "arm64" {
			r = r.atMost(kib(excess), 460, "<= 460 KiB beyond")
		}
		b.add(r)
	}
}

// residency compares memory and threads of processes that have run once with
// those of an empty Go program which waits: medians, as what Go takes at its start
// varies. Pages of the device are not the program's and left out, and so is the copy
// of the envelope, which the image asks for.
func (b *bench) residency() {
	empty := b.fresh(func() map[string]int64 {
		return emptyStatus(filepath.Join(b.dir,
			"bench-idle"))
	})
	for _, pair := range [][2]sized{
		{{"image of 1 MiB", payloadImage(1 << 20)}, {"image of 64 MiB", payloadImage(64 << 20)}},
		{{"1e+03 commands", writesImage(1e3)}, {"1e+06 commands", writesImage(1e6)}},
	} {
		var least [2]int64
		for i, s := range pair {
			least[i] = b.residencyRows(s, empty)
		}
		more := float64(least[1]-least[0]) / 1024
		b.add(row{Section: "goals", What: "own memory, " + pair[1].what + " beyond " + pair[0].what,
			Unit: "KiB", Ours: value(more),
			Note: fmt.Sprintf("with %s, as lminit starts it, without the copies of the envelopes",
				oneProcessor)}.atMost(more, 64, "<= 64 (no more)"))
	}
}

// sized is an image, and its size in words.
type sized struct {
	what  string
	image *lmb.Image
}

// residencyRows also gives the memory of the process as lminit starts it, which
// varies least.
func (b *bench) residencyRows(s sized, empty map[string]int64) (least int64) {
	path, _, done := b.image("residency", s.image)
	defer done()
	after := func(program ...string) map[string]int64 {
		return b.fresh(func() map[string]int64 { return statusAfterRun(path, program) })
	}
	ours, c, so, envelope := after(b.child), after(b.tuned), after("env", oneProcessor, b.child),
		envelopeOf(path)
	kib := func(n int64) *float64 { return value(float64(n) / 1024) }
	own := ours["RssAnon"] - envelope
	b.add(row{Section: "goals", What: "own memory, " + s.what, Unit: "KiB", Ours: kib(own),
		C: kib(c["RssAnon"]),
		Note: fmt.Sprintf("anonymous pages, without %d KiB of the envelope's copy; an empty Go "+
			"program %d KiB", envelope>>10, empty["RssAnon"]>>10)}.
		atMost(float64(own-empty["RssAnon"])/1024, 256, "<= 256 KiB beyond"))
	b.add(row{Section: "goals", What: "threads, " + s.what, Ours: value(float64(ours["Threads"])),
		C:    value(float64(c["Threads"])),
		Note: fmt.Sprintf("an empty Go program %d", empty["Threads"])}.
		atMost(float64(ours["Threads"]), 5, "<= 5"))
	return so["RssAnon"] - envelope
}

// envelopeOf is how much memory the copy of an image's envelope takes.
func envelopeOf(path string) int64 {
	file := fail.Must(runtime.Open(path))
	defer file.Close()
	page := int64(os.Getpagesize())
	return (int64(fbs.ReadStruct[fbs.Preamble](file.Bytes()).EnvelopeSize) + page - 1) / page * page
}

// statusAfterRun is the memory of a side that has run sequence 1 once.
func statusAfterRun(path string, program []string) map[string]int64 {
	m := newMemory(deviceSize + pageSize)
	defer m.close()
	s := start(m, path, program...)
	s.time(1, 1, 0)
	status := statusOf(s.command.Process.Pid)
	s.stop()
	return status
}

// fresh gives medians of what one process after the other has.
func (b *bench) fresh(status func() map[string]int64) map[string]int64 {
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

// emptyStatus is the memory of a program that waits for its input.
func emptyStatus(program string) map[string]int64 {
	command := exec.Command(program)
	in, out := fail.Must(command.StdinPipe()), fail.Must(command.StdoutPipe())
	fail.On(command.Start())
	fail.Must(out.Read(make([]byte, 1)))
	status := statusOf(command.Process.Pid)
	in.Close()
	fail.On(command.Wait())
	return status
}

// statusOf gives the memory lines of a process's status, in bytes, and the number
// of its threads.
func statusOf(pid int) map[string]int64 {
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
