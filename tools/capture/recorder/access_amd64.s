// Accesses to a device on amd64. DI contains the address of the device memory, and SI the address
// of the data. MOVOU is Go's name of MOVDQU.

#include "textflag.h"

// func loadDevice(device unsafe.Pointer, data *byte, width int)
TEXT ·loadDevice(SB), NOSPLIT, $0-24
	MOVQ device+0(FP), DI
	MOVQ data+8(FP), SI
	MOVQ width+16(FP), CX
	CMPQ CX, $4
	JEQ  width4
	CMPQ CX, $8
	JEQ  width8
	CMPQ CX, $2
	JEQ  width2
	CMPQ CX, $16
	JEQ  width16
	CMPQ CX, $32
	JEQ  width32
	CMPQ CX, $64
	JEQ  width64
	MOVB (DI), AX
	MOVB AX, (SI)
	RET
width2:
	MOVW (DI), AX
	MOVW AX, (SI)
	RET
width4:
	MOVL (DI), AX
	MOVL AX, (SI)
	RET
width8:
	MOVQ (DI), AX
	MOVQ AX, (SI)
	RET
width16:
	MOVOU (DI), X0
	MOVOU X0, (SI)
	RET
width32:
	VMOVDQU (DI), Y0
	VMOVDQU Y0, (SI)
	VZEROUPPER
	RET
width64:
	VMOVDQU64 (DI), Z0
	VMOVDQU64 Z0, (SI)
	VZEROUPPER
	RET

// func storeDevice(device unsafe.Pointer, data *byte, width int)
TEXT ·storeDevice(SB), NOSPLIT, $0-24
	MOVQ device+0(FP), DI
	MOVQ data+8(FP), SI
	MOVQ width+16(FP), CX
	CMPQ CX, $4
	JEQ  width4
	CMPQ CX, $8
	JEQ  width8
	CMPQ CX, $2
	JEQ  width2
	CMPQ CX, $16
	JEQ  width16
	CMPQ CX, $32
	JEQ  width32
	CMPQ CX, $64
	JEQ  width64
	MOVB (SI), AX
	MOVB AX, (DI)
	RET
width2:
	MOVW (SI), AX
	MOVW AX, (DI)
	RET
width4:
	MOVL (SI), AX
	MOVL AX, (DI)
	RET
width8:
	MOVQ (SI), AX
	MOVQ AX, (DI)
	RET
width16:
	MOVOU (SI), X0
	MOVOU X0, (DI)
	RET
width32:
	VMOVDQU (SI), Y0
	VMOVDQU Y0, (DI)
	VZEROUPPER
	RET
width64:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 Z0, (DI)
	VZEROUPPER
	RET
