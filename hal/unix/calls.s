#include "textflag.h"

// The functions of package syscall, in assembly, so that an argument that was a pointer is
// kept alive and its target does not move to the heap.

TEXT ·Syscall(SB), NOSPLIT, $0-56
	JMP syscall·Syscall(SB)

TEXT ·Syscall6(SB), NOSPLIT, $0-80
	JMP syscall·Syscall6(SB)

TEXT ·RawSyscall(SB), NOSPLIT, $0-56
	JMP syscall·RawSyscall(SB)

TEXT ·RawSyscall6(SB), NOSPLIT, $0-80
	JMP syscall·RawSyscall6(SB)
