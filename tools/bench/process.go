package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"lightmetal/fbs"
	"lightmetal/runtime"
	"lightmetal/tools/lmb"
)

// startUp measures whole processes on an image of 1 MB: our program up to its
// first store, an empty Go program, and C's.
func (b *bench) startUp() error {
	path, _, done, err := b.image("start", payloadImage(1<<20))
	if err != nil {
		return err
	}
	defer done()
	m, err := newMemory(deviceSize + pageSize)
	if err != nil {
		return err
	}
	defer m.close()
	empty := filepath.Join(b.dir, "bench-empty-"+host)
	programs := [][]string{{b.child, "once", path}, {empty}, {b.cref, "once", path}}
	took := make([][]float64, len(programs))
	for round := range 10 * b.rounds {
		for n := range programs {
			i := (n + round) % len(programs)
			nanoseconds, err := whole(m, programs[i])
			if err != nil {
				return err
			}
			took[i] = append(took[i], nanoseconds)
		}
	}
	beyond := longer(took[0], took[1])
	r := row{
		Section: "goals", What: "exec to first store, 1 MB image", Unit: "ms", Ours: value(median(took[0]) / 1e6), C: value(median(took[2]) / 1e6),
		Note: fmt.Sprintf("an empty Go program %.2f ms, beyond it %.2f ms", median(took[1])/1e6, beyond/1e6),
	}
	b.add(r.atMost(beyond, 0.75e6, "<= 0.75 ms beyond"))
	return nil
}

// oneProcessor is what lminit adds to the environment of lmrun.
const oneProcessor = "GOMAXPROCS=1"

// whole is the time of a process from its start to its end.
func whole(m *memory, program []string) (float64, error) {
	command := exec.Command(program[0], program[1:]...)
	command.ExtraFiles = []*os.File{m.file}
	command.Stderr = os.Stderr
	began := time.Now()
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w", program[0], err)
	}
	return float64(time.Since(began)), nil
}

// host is the architecture whose programs run here.
var host = map[bool]string{true: "arm64", false: "amd64"}[strings.HasPrefix(output("uname", "-m"), "aarch64")]

// mapped adds up the sections of a program that are in the file and in memory: its
// code and data, without the steps of pages and segments in which a file grows.
func mapped(path string) (bytes int64, err error) {
	file, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			bytes += int64(s.Size)
		}
	}
	return bytes, nil
}

// beyond is how much more of it one program has than another, an empty one.
func beyond(program, empty string) (excess, bytes int64, err error) {
	base, err := mapped(empty)
	if err != nil {
		return 0, 0, err
	}
	bytes, err = mapped(program)
	return bytes - base, bytes, err
}

// sizes compares programs.
func (b *bench) sizes() error {
	for _, arch := range []string{"arm64", "amd64"} {
		excess, bytes, err := beyond(filepath.Join(b.dir, "lmrun-"+arch), filepath.Join(b.dir, "bench-empty-"+arch))
		if err != nil {
			return err
		}
		kib := func(n int64) float64 { return float64(n) / 1024 }
		r := row{Section: "goals", What: "static lmrun, all lanes, " + arch, Unit: "KiB", Ours: value(kib(bytes)),
			Note: fmt.Sprintf("code and data; an empty Go program %.1f KiB, beyond it %.1f KiB", kib(bytes-excess), kib(excess))}
		if arch == "arm64" {
			r = r.atMost(kib(excess), 460, "<= 460 KiB beyond")
		}
		b.add(r)
	}
	return nil
}

// residency compares memory and threads of processes that have run once with
// those of an empty Go program which waits: medians, as what Go takes at its start
// varies. Pages of the device are not the program's and left out, and so is the copy
// of the envelope, which the image asks for.
func (b *bench) residency() error {
	empty, err := b.fresh(func() (map[string]int64, error) { return emptyStatus(filepath.Join(b.dir, "bench-idle")) })
	if err != nil {
		return err
	}
	for _, pair := range [][2]sized{
		{{"image of 1 MiB", payloadImage(1 << 20)}, {"image of 64 MiB", payloadImage(64 << 20)}},
		{{"1e+03 commands", writesImage(1e3)}, {"1e+06 commands", writesImage(1e6)}},
	} {
		var least [2]int64
		for i, s := range pair {
			if least[i], err = b.residencyRows(s, empty); err != nil {
				return err
			}
		}
		more := float64(least[1]-least[0]) / 1024
		b.add(row{Section: "goals", What: "own memory, " + pair[1].what + " beyond " + pair[0].what, Unit: "KiB", Ours: value(more),
			Note: fmt.Sprintf("with %s, as lminit starts it, without the copies of the envelopes", oneProcessor)}.atMost(more, 64, "<= 64 (no more)"))
	}
	return nil
}

// sized is an image, and its size in words.
type sized struct {
	what  string
	image *lmb.Image
}

// residencyRows also gives the memory of the process as lminit starts it, which
// varies least.
func (b *bench) residencyRows(s sized, empty map[string]int64) (least int64, err error) {
	path, _, done, err := b.image("residency", s.image)
	if err != nil {
		return 0, err
	}
	defer done()
	ours, c, so, err := b.afterOneRun(path)
	if err != nil {
		return 0, err
	}
	envelope, err := envelopeOf(path)
	if err != nil {
		return 0, err
	}
	kib := func(n int64) *float64 { return value(float64(n) / 1024) }
	own := ours["RssAnon"] - envelope
	b.add(row{Section: "goals", What: "own memory, " + s.what, Unit: "KiB", Ours: kib(own), C: kib(c["RssAnon"]),
		Note: fmt.Sprintf("anonymous pages, without %d KiB of the envelope's copy; an empty Go program %d KiB", envelope>>10, empty["RssAnon"]>>10)}.
		atMost(float64(own-empty["RssAnon"])/1024, 256, "<= 256 KiB beyond"))
	b.add(row{Section: "goals", What: "threads, " + s.what, Ours: value(float64(ours["Threads"])), C: value(float64(c["Threads"])),
		Note: fmt.Sprintf("an empty Go program %d", empty["Threads"])}.
		atMost(float64(ours["Threads"]), 5, "<= 5"))
	return so["RssAnon"] - envelope, nil
}

// envelopeOf is how much memory the copy of an image's envelope takes.
func envelopeOf(path string) (int64, error) {
	file, err := runtime.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	page := int64(os.Getpagesize())
	return (int64(fbs.As[fbs.Preamble](file.Bytes()).Envelope) + page - 1) / page * page, nil
}

// afterOneRun gives what our side, C's, and ours as lminit starts it, have when they
// have run sequence 1 once.
func (b *bench) afterOneRun(path string) (ours, c, so map[string]int64, err error) {
	var sides [3]map[string]int64
	for i, program := range [][]string{{b.child}, {b.cref}, {"env", oneProcessor, b.child}} {
		sides[i], err = b.fresh(func() (map[string]int64, error) { return statusAfterRun(path, program) })
		if err != nil {
			return nil, nil, nil, err
		}
	}
	return sides[0], sides[1], sides[2], nil
}

func statusAfterRun(path string, program []string) (map[string]int64, error) {
	m, err := newMemory(deviceSize + pageSize)
	if err != nil {
		return nil, err
	}
	defer m.close()
	s, err := start(m, path, program...)
	if err != nil {
		return nil, err
	}
	_, err = s.must(1, 1, 0)
	status, err2 := statusOf(s.command.Process.Pid)
	return status, errors.Join(err, err2, s.stop())
}

// fresh gives medians of what one process after the other has.
func (b *bench) fresh(status func() (map[string]int64, error)) (map[string]int64, error) {
	all := map[string][]float64{}
	for range b.rounds {
		one, err := status()
		if err != nil {
			return nil, err
		}
		for name, n := range one {
			all[name] = append(all[name], float64(n))
		}
	}
	medians := map[string]int64{}
	for name, list := range all {
		medians[name] = int64(median(list))
	}
	return medians, nil
}

// emptyStatus is the memory of a program that waits for its input.
func emptyStatus(program string) (map[string]int64, error) {
	command := exec.Command(program)
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return nil, err
	}
	status, err := statusOf(command.Process.Pid)
	in.Close()
	return status, errors.Join(err, command.Wait())
}

// statusOf gives the memory lines of a process's status, in bytes, and the number
// of its threads.
func statusOf(pid int) (map[string]int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	status := map[string]int64{}
	for line := range bytes.Lines(data) {
		var n int64
		key, rest, _ := strings.Cut(string(line), ":")
		if _, err := fmt.Sscanf(rest, "%d kB", &n); err == nil {
			status[key] = n << 10
		} else if _, err := fmt.Sscan(rest, &n); err == nil && key == "Threads" {
			status[key] = n
		}
	}
	return status, nil
}
