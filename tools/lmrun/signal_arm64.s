#include "textflag.h"

// stop is the signal handler, called by the kernel as a C function. It may use all
// registers, since the frame of the signal saves them, and returns to the vDSO.
TEXT ·stop(SB), NOSPLIT|NOFRAME, $0
	MOVD $1, R0
	MOVD $·stopping(SB), R1
	MOVW R0, (R1)
	RET

TEXT ·signalHandlers(SB), NOSPLIT, $0-16
	MOVD $·stop(SB), R0
	MOVD R0, handler+0(FP)
	MOVD ZR, restorer+8(FP)
	RET
