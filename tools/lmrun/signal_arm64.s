#include "textflag.h"

// handleSignal is the signal handler. It sets the variable stopping to 1. The kernel calls it like
// a C function and has saved all registers in the signal frame, so that handleSignal does not
// need to preserve them. handleSignal returns to code in the vDSO of the kernel, which makes the
// system call rt_sigreturn to resume the interrupted code.
TEXT ·handleSignal(SB), NOSPLIT|NOFRAME, $0
	MOVD $1, R0
	MOVD $·stopping(SB), R1
	MOVW R0, (R1)
	RET

// func signalHandlers() (handler, restorer uintptr)
//
// signalHandlers returns the address of handleSignal. It returns 0 for restorer, because the
// kernel provides that code.
TEXT ·signalHandlers(SB), NOSPLIT, $0-16
	MOVD $·handleSignal(SB), R0
	MOVD R0, handler+0(FP)
	MOVD ZR, restorer+8(FP)
	RET
