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

// coverageDir is the directory that collects which instructions of lmrun were executed during
// boots. If it is not empty, PID 1 must be linked at other addresses than lmrun (linkElsewhere).
var coverageDir = os.Getenv("LM_GUEST_COVERAGE")

// coverageLock protects the files in coverageDir, because several machines may end at the same
// time.
var coverageLock sync.Mutex

// linkElsewhere is the flag for Go's linker that links a program of the guest at addresses that
// lmrun, which is linked at the default address, does not use.
const linkElsewhere = "-T=0x40001000"

// runQEMU runs QEMU. If coverageDir is set, QEMU also logs which instructions of lmrun it executes.
func (m *machine) runQEMU(qemu *exec.Cmd) error {
	if coverageDir == "" {
		return qemu.Run()
	}
	program, err := m.openCoveredProgram()
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
		qemu.Args = append(qemu.Args, "-cpu", cpu) // QEMU uses the last -cpu
	}
	if err := qemu.Start(); err != nil {
		return err
	}
	to.Close()
	err = m.readCoverage(program, from)
	return errors.Join(qemu.Wait(), err)
}

// readCoverage reads QEMU's log of executed instructions, and adds them to coverageDir. The log
// also contains the events of the trace, which readCoverage writes to m.traceFile.
func (m *machine) readCoverage(program *trace.Program, log *os.File) error {
	defer log.Close()
	traceOut := io.Discard
	if m.traceFile != "" {
		file, err := os.Create(m.traceFile)
		if err != nil {
			return err
		}
		defer file.Close()
		traceOut = file
	}
	seen := make([]trace.Seen, len(program.Words))
	if err := program.Follow(log, seen, traceOut); err != nil {
		_, _ = io.Copy(io.Discard, log) // otherwise QEMU would block on the full pipe
		return fmt.Errorf("QEMU's log of executed instructions: %w", err)
	}
	coverageLock.Lock()
	defer coverageLock.Unlock()
	return program.Add(coverageDir, seen)
}

// openCoveredProgram returns the guest's lmrun. It returns an error if another program of the guest
// has the same addresses, because QEMU's log does not distinguish programs.
func (m *machine) openCoveredProgram() (program *trace.Program, err error) {
	programs := maps.Clone(m.files)
	for guestPath, hostPath := range map[string]string{"/lmrun": m.lmrun,
		"/init": cmp.Or(m.initProgram, lminitPath(m.lmrun))} {
		if programs[guestPath] == nil {
			if programs[guestPath], err = os.ReadFile(hostPath); err != nil {
				return nil, err
			}
		}
	}
	if program, err = trace.Open(programs["/lmrun"]); err != nil {
		return nil, err
	}
	for path, data := range programs {
		if path != "/lmrun" && overlapsProgram(data, program) {
			return nil,
				fmt.Errorf("the guest's %s overlaps lmrun; build it with go build -ldflags %s",
					path, linkElsewhere)
		}
	}
	return program, nil
}

// overlapsProgram reports whether a file is a program that is linked at a fixed address and
// overlaps the addresses of the covered program.
func overlapsProgram(file []byte, covered *trace.Program) bool {
	program, err := elf.NewFile(bytes.NewReader(file))
	if err != nil || program.Type != elf.ET_EXEC {
		return false
	}
	for _, segment := range program.Progs {
		end := segment.Vaddr + segment.Memsz
		if segment.Type == elf.PT_LOAD && segment.Vaddr < covered.End && covered.Start < end {
			return true
		}
	}
	return false
}
