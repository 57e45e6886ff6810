#include "textflag.h"

// handleSignal sets stopRequested, except for SIGALRM, which is 14. The kernel calls it like a C
// function, with all registers saved in the signal frame. It returns to the kernel's vDSO, which
// calls rt_sigreturn.
TEXT ·handleSignal(SB), NOSPLIT|NOFRAME, $0
	CMPW $14, R0
	BEQ  ignored
	MOVD $1, R0
	MOVD $·stopRequested(SB), R1
	MOVW R0, (R1)

ignored:
	RET

// func signalHandlerAddresses() (handler, restorer uintptr)
TEXT ·signalHandlerAddresses(SB), NOSPLIT, $0-16
	MOVD $·handleSignal(SB), R0
	MOVD R0, handler+0(FP)
	MOVD ZR, restorer+8(FP)
	RET
