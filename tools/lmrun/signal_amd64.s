#include "textflag.h"

// handleSignal sets stopRequested, except for SIGALRM, which is 14. The kernel calls it like a C
// function, with all registers saved in the signal frame. It returns to restoreContext.
TEXT ·handleSignal(SB), NOSPLIT|NOFRAME, $0
	CMPL DI, $14
	JEQ  ignored
	MOVL $1, ·stopRequested(SB)

ignored:
	RET

// restoreContext calls rt_sigreturn, which is 15: the kernel resumes the interrupted code.
TEXT ·restoreContext(SB), NOSPLIT|NOFRAME, $0
	MOVL $15, AX
	SYSCALL

// func signalHandlerAddresses() (handler, restorer uintptr)
TEXT ·signalHandlerAddresses(SB), NOSPLIT, $0-16
	LEAQ ·handleSignal(SB), AX
	MOVQ AX, handler+0(FP)
	LEAQ ·restoreContext(SB), AX
	MOVQ AX, restorer+8(FP)
	RET
