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
	programs := [][]string{{b.child, "once", path}, {filepath.Join(b.dir, "bench-empty-"+host)}, {b.cref, "once", path}}
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
	beyond := make([]float64, len(took[0]))
	for i := range beyond {
		beyond[i] = took[0][i] - took[1][i]
	}
	r := row{
		Section: "goals", What: "exec to first store, 1 MB image", Unit: "ms", Ours: value(median(took[0]) / 1e6), C: value(median(took[2]) / 1e6),
		Note: fmt.Sprintf("an empty Go program %.2f ms, beyond it %.2f ms", median(took[1])/1e6, median(beyond)/1e6),
	}
	b.add(r.atMost(median(beyond), 0.75e6, "<= 0.75 ms beyond"))
	return nil
}

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

// mapped adds up the sections of a program that are in the file and in memory.
func mapped(path string) (bytes uint64, err error) {
	file, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS {
			bytes += s.Size
		}
	}
	return bytes, nil
}

// sizes compares programs.
func (b *bench) sizes() error {
	for _, arch := range []string{"arm64", "amd64"} {
		runner, err := mapped(filepath.Join(b.dir, "lmrun-"+arch))
		if err != nil {
			return err
		}
		empty, err := mapped(filepath.Join(b.dir, "bench-empty-"+arch))
		if err != nil {
			return err
		}
		excess := float64(runner-empty) / 1024
		r := row{Section: "goals", What: "static lmrun, all lanes, " + arch, Unit: "KiB", Ours: value(float64(runner) / 1024),
			Note: fmt.Sprintf("code and data; an empty Go program %.1f KiB, beyond it %.1f KiB", float64(empty)/1024, excess)}
		if arch == "arm64" {
			r = r.atMost(excess, 460, "<= 460 KiB beyond")
		}
		b.add(r)
	}
	return nil
}

// residency compares resident memory with that of an empty Go program which
// waits. Pages of the device are not the program's and left out.
func (b *bench) residency() error {
	empty, err := emptyStatus(filepath.Join(b.dir, "bench-idle"))
	if err != nil {
		return err
	}
	for _, size := range []int{1 << 20, 64 << 20} {
		err := b.on("residency", payloadImage(size), func(p *pair, _ int64) error {
			for _, s := range []*side{p.ours, p.c} {
				if _, err := s.ask("run", 1, 1, 0); err != nil {
					return err
				}
			}
			ours, err := statusOf(p.ours.command.Process.Pid)
			if err != nil {
				return err
			}
			c, err := statusOf(p.c.command.Process.Pid)
			if err != nil {
				return err
			}
			b.add(b.residencyRows("image of "+bytesText(size), ours, c, empty)...)
			b.add(row{Section: "goals", What: "threads, image of " + bytesText(size), Ours: value(float64(ours["Threads"])), C: value(float64(c["Threads"]))}.
				atMost(float64(ours["Threads"]), 5, "<= 5"))
			return nil
		})
		if err != nil {
			return err
		}
	}
	if host == "amd64" {
		b.add(row{Section: "goals", What: "own memory, arm64", Note: "not measured: needs an arm64 machine, an emulator's process is mostly the emulator"})
	}
	return nil
}

func (b *bench) residencyRows(what string, ours, c, empty map[string]int64) []row {
	kib := func(n int64) *float64 { return value(float64(n) / 1024) }
	own := row{Section: "goals", What: "own memory, " + what, Unit: "KiB", Ours: kib(ours["RssAnon"]), C: kib(c["RssAnon"]),
		Note: fmt.Sprintf("anonymous pages; an empty Go program %d KiB", empty["RssAnon"]>>10)}
	all := row{Section: "goals", What: "resident, " + what, Unit: "KiB", Ours: kib(ours["RssAnon"] + ours["RssFile"]), C: kib(c["RssAnon"] + c["RssFile"]),
		Note: fmt.Sprintf("with pages of the mapped file and of the program; an empty Go program %d KiB", (empty["RssAnon"]+empty["RssFile"])>>10)}
	ownExcess := float64(ours["RssAnon"]-empty["RssAnon"]) / 1024
	return []row{own.atMost(ownExcess, 256, "<= 256 KiB beyond"), all}
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
