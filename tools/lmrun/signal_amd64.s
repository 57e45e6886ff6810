#include "textflag.h"

// handleSignal is the signal handler. The kernel calls it like a C function. It may overwrite
// all registers, since the kernel has saved them in the signal frame. It returns to
// restoreContext.
TEXT ·handleSignal(SB), NOSPLIT|NOFRAME, $0
	MOVL $1, ·stopping(SB)
	RET

// restoreContext calls rt_sigreturn, which restores the registers from the signal frame and
// resumes the interrupted code.
TEXT ·restoreContext(SB), NOSPLIT|NOFRAME, $0
	MOVL $15, AX
	SYSCALL

// signalHandlers returns the addresses of handleSignal and restoreContext.
TEXT ·signalHandlers(SB), NOSPLIT, $0-16
	LEAQ ·handleSignal(SB), AX
	MOVQ AX, handler+0(FP)
	LEAQ ·restoreContext(SB), AX
	MOVQ AX, restorer+8(FP)
	RET
