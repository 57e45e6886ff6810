#include "textflag.h"

// handleSignal is the signal handler. It sets the variable stopRequested to 1, except for
// SIGALRM, which has the number 14. The kernel calls
// handleSignal like a C function. Before the call, the kernel saves all registers in the signal
// frame, so that handleSignal does not need to preserve registers. handleSignal returns to code in
// the vDSO of the kernel. That code makes the system call rt_sigreturn to resume the interrupted
// code.
TEXT ·handleSignal(SB), NOSPLIT|NOFRAME, $0
	CMPW $14, R0
	BEQ  ignored
	MOVD $1, R0
	MOVD $·stopRequested(SB), R1
	MOVW R0, (R1)

ignored:
	RET

// func signalHandlerAddresses() (handler, restorer uintptr)
//
// signalHandlerAddresses returns the address of handleSignal as `handler`. It returns 0 as
// `restorer`, because the kernel provides the code to which handleSignal returns.
TEXT ·signalHandlerAddresses(SB), NOSPLIT, $0-16
	MOVD $·handleSignal(SB), R0
	MOVD R0, handler+0(FP)
	MOVD ZR, restorer+8(FP)
	RET
