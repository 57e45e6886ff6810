//go:build linux && (amd64 || arm64)

// Package recorder runs an unmodified program and writes down every load and
// store that it makes to the BARs of PCI devices: tools/capture/record/FORMAT.md has
// the text, README.md here what can be recorded and what cannot.
//
// The program is traced by ptrace. A seccomp filter stops it at the few system
// calls that map, unmap or open; a mapping of a BAR it gets without access,
// and the recorder maps the same descriptor itself. Each access then faults.
// The recorder executes the faulting instruction (x86, a64): it makes the
// access with the same width, writes it down, sets the registers, and the
// program continues after the instruction. On amd64 it first executes the instructions
// that follow, up to the next accesses (follow_amd64.go). No mapping of a BAR is ever opened for a
// moment, so threads cannot slip past.
package recorder
