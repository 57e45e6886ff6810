//go:build linux && (amd64 || arm64)

// Package recorder runs an unmodified program, and records every load and store that the program
// makes to the BARs of PCI devices. tools/capture/record/FORMAT.md describes the text of a record.
// README.md in this directory lists what can be recorded and what cannot.
//
// The recorder traces the program with ptrace. A seccomp filter stops the program at system calls
// that map memory, open files, or make requests. When the program maps a BAR, the mapping has no
// access rights, and the recorder maps the same file itself. Therefore each access of the program
// to the BAR faults. The recorder executes the faulting instruction (packages x86 and a64): it
// makes the access with the same width, records it, and sets the registers. Then the program
// continues after the instruction. On amd64 the recorder first executes the instructions that
// follow, up to the next accesses (follow_amd64.go). The program never gets access to a mapping of
// a BAR, not even for a moment. Therefore no thread can make an access that is not recorded.
package recorder
