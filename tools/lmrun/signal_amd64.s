#include "textflag.h"

// stop is the signal handler, called by the kernel as a C function. It may use all
// registers, since the frame of the signal saves them, and returns to the restorer.
TEXT ·stop(SB), NOSPLIT|NOFRAME, $0
	MOVL $1, ·stopping(SB)
	RET

// restore calls rt_sigreturn, which removes the frame from the stack.
TEXT ·restore(SB), NOSPLIT|NOFRAME, $0
	MOVL $15, AX
	SYSCALL

TEXT ·signalHandlers(SB), NOSPLIT, $0-16
	LEAQ ·stop(SB), AX
	MOVQ AX, handler+0(FP)
	LEAQ ·restore(SB), AX
	MOVQ AX, restorer+8(FP)
	RET
