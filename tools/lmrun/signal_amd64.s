#include "textflag.h"

// A C function of the kernel's: it may use what the signal's frame saves, which
// is all registers, and returns to the restorer.
TEXT ·stop(SB), NOSPLIT|NOFRAME, $0
	MOVL $1, ·stopping(SB)
	RET

// rt_sigreturn, which takes the frame off the stack.
TEXT ·restore(SB), NOSPLIT|NOFRAME, $0
	MOVL $15, AX
	SYSCALL

TEXT ·signalHandlers(SB), NOSPLIT, $0-16
	LEAQ ·stop(SB), AX
	MOVQ AX, handler+0(FP)
	LEAQ ·restore(SB), AX
	MOVQ AX, restorer+8(FP)
	RET
