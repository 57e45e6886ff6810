// Accesses to a device on arm64. R0 contains the address of the device memory, and R1 the address
// of the data. arm64 has no instructions for accesses of 32 or 64 bytes.

#include "textflag.h"

// func loadDevice(device unsafe.Pointer, data *byte, width int)
TEXT ·loadDevice(SB), NOSPLIT, $0-24
	MOVD device+0(FP), R0
	MOVD data+8(FP), R1
	MOVD width+16(FP), R2
	CMP  $4, R2
	BEQ  width4
	CMP  $8, R2
	BEQ  width8
	CMP  $2, R2
	BEQ  width2
	CMP  $16, R2
	BEQ  width16
	MOVBU (R0), R3
	MOVB  R3, (R1)
	RET
width2:
	MOVHU (R0), R3
	MOVH  R3, (R1)
	RET
width4:
	MOVWU (R0), R3
	MOVW  R3, (R1)
	RET
width8:
	MOVD (R0), R3
	MOVD R3, (R1)
	RET
width16:
	FMOVQ (R0), F0
	FMOVQ F0, (R1)
	RET

// func storeDevice(device unsafe.Pointer, data *byte, width int)
TEXT ·storeDevice(SB), NOSPLIT, $0-24
	MOVD device+0(FP), R0
	MOVD data+8(FP), R1
	MOVD width+16(FP), R2
	CMP  $4, R2
	BEQ  width4
	CMP  $8, R2
	BEQ  width8
	CMP  $2, R2
	BEQ  width2
	CMP  $16, R2
	BEQ  width16
	MOVBU (R1), R3
	MOVB  R3, (R0)
	RET
width2:
	MOVHU (R1), R3
	MOVH  R3, (R0)
	RET
width4:
	MOVWU (R1), R3
	MOVW  R3, (R0)
	RET
width8:
	MOVD (R1), R3
	MOVD R3, (R0)
	RET
width16:
	FMOVQ (R1), F0
	FMOVQ F0, (R0)
	RET
