#include "textflag.h"

// func flagsAfterSet() uint64
TEXT ·flagsAfterSet(SB), NOSPLIT, $8-8
	MOVD $8(RSP), R0
	MOVD $0, R1
	MOVD $0, R2
	WORD $0x19c20420 // SETP [X0]!, X1!, X2
	WORD $0x19c24420 // SETM [X0]!, X1!, X2
	WORD $0x19c28420 // SETE [X0]!, X1!, X2
	MRS  NZCV, R0
	MOVD R0, ret+0(FP)
	RET
