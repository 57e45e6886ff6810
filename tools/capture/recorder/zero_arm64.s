#include "textflag.h"

// func readDCZID() uint64
TEXT ·readDCZID(SB), NOSPLIT, $0-8
	MRS  DCZID_EL0, R0
	MOVD R0, ret+0(FP)
	RET
