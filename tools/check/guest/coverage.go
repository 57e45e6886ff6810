package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"sync"

	"lightmetal/tools/check/coverage/trace"
)

// coverage is the directory to which QEMU writes which instructions of lmrun ran during a
// boot. Then PID 1 must be linked at another address (elsewhere).
var coverage = os.Getenv("LM_GUEST_COVERAGE")

// coverageLock keeps machines that end at the same time from losing each other's additions.
var coverageLock sync.Mutex

// elsewhere has Go's linker put a program of the guest where lmrun, which is
// linked as ever, has nothing.
const elsewhere = "-T=0x40001000"

// run runs QEMU, and has it tell where that is wanted.
func (m *machine) run(qemu *exec.Cmd) error {
	if coverage == "" {
		return qemu.Run()
	}
	program, err := m.coveredProgram()
	if err != nil {
		return err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer to.Close()
	qemu.ExtraFiles = []*os.File{to} // descriptor 3
	qemu.Args = append(qemu.Args, program.Flags("/dev/fd/3")...)
	if cpu := os.Getenv("LM_GUEST_CPU"); cpu != "" {
		qemu.Args = append(qemu.Args, "-cpu", cpu) // QEMU takes the last
	}
	if err := qemu.Start(); err != nil {
		return err
	}
	to.Close()
	err = m.follow(program, from)
	return errors.Join(qemu.Wait(), err)
}

// follow reads QEMU's log. The events of a trace that is wanted too are in it.
func (m *machine) follow(program *trace.Program, log *os.File) error {
	defer log.Close()
	rest := io.Discard
	if m.trace != "" {
		file, err := os.Create(m.trace)
		if err != nil {
			return err
		}
		defer file.Close()
		rest = file
	}
	seen := make([]trace.Seen, len(program.Words))
	if err := program.Follow(log, seen, rest); err != nil {
		_, _ = io.Copy(io.Discard, log) // QEMU would wait
		return fmt.Errorf("what QEMU tells of lmrun: %w", err)
	}
	coverageLock.Lock()
	defer coverageLock.Unlock()
	return program.Add(coverage, seen)
}

// coveredProgram is the guest's lmrun, beside which nothing may lie.
func (m *machine) coveredProgram() (program *trace.Program, err error) {
	programs := maps.Clone(m.files)
	for guest, host := range map[string]string{"/lmrun": m.lmrun,
		"/init": cmp.Or(m.init, lminit(m.lmrun))} {
		if programs[guest] == nil {
			if programs[guest], err = os.ReadFile(host); err != nil {
				return nil, err
			}
		}
	}
	if program, err = trace.Open(programs["/lmrun"]); err != nil {
		return nil, err
	}
	for path, data := range programs {
		if path != "/lmrun" && overlaps(data, program) {
			return nil,
				fmt.Errorf("the guest's %s lies where lmrun does; it takes go build -ldflags %s",
					path, elsewhere)
		}
	}
	return program, nil
}

// overlaps tells of a program that lies at one address.
func overlaps(file []byte, p *trace.Program) bool {
	program, err := elf.NewFile(bytes.NewReader(file))
	if err != nil || program.Type != elf.ET_EXEC {
		return false
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_LOAD && part.Vaddr < p.End && p.Start < part.Vaddr+part.Memsz {
			return true
		}
	}
	return false
}
