#include "textflag.h"

// handleSignal is the signal handler. It sets the variable stopRequested to 1, except for
// SIGALRM, which has the number 14. The kernel calls
// handleSignal like a C function. Before the call, the kernel saves all registers in the signal
// frame, so that handleSignal does not need to preserve registers. handleSignal returns to
// restoreContext.
TEXT ·handleSignal(SB), NOSPLIT|NOFRAME, $0
	CMPL DI, $14
	JEQ  ignored
	MOVL $1, ·stopRequested(SB)

ignored:
	RET

// restoreContext makes the system call rt_sigreturn, which has the number 15. In this system call,
// the kernel restores the registers from the signal frame and resumes the interrupted code.
TEXT ·restoreContext(SB), NOSPLIT|NOFRAME, $0
	MOVL $15, AX
	SYSCALL

// func signalHandlerAddresses() (handler, restorer uintptr)
//
// signalHandlerAddresses returns the address of handleSignal as `handler`, and the address of
// restoreContext as `restorer`.
TEXT ·signalHandlerAddresses(SB), NOSPLIT, $0-16
	LEAQ ·handleSignal(SB), AX
	MOVQ AX, handler+0(FP)
	LEAQ ·restoreContext(SB), AX
	MOVQ AX, restorer+8(FP)
	RET
