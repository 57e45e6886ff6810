#include "textflag.h"

// handleSignal is the signal handler. The kernel calls it like a C function. It may overwrite
// all registers, since the kernel has saved them in the signal frame. It returns to code in the
// vDSO, which calls rt_sigreturn.
TEXT ·handleSignal(SB), NOSPLIT|NOFRAME, $0
	MOVD $1, R0
	MOVD $·stopping(SB), R1
	MOVW R0, (R1)
	RET

// signalHandlers returns the address of handleSignal, and 0 for the restorer.
TEXT ·signalHandlers(SB), NOSPLIT, $0-16
	MOVD $·handleSignal(SB), R0
	MOVD R0, handler+0(FP)
	MOVD ZR, restorer+8(FP)
	RET
