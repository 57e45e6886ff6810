// Loads, stores and block copies on device memory, arm64.
//
// R0 always holds the device address, R1 the memory side; every access through
// R0 is naturally aligned, because Device memory faults otherwise (Arm ARM,
// "Device memory"). None has write-back, which leaves a hypervisor without a
// syndrome to emulate it from (Arm ARM, ISS encoding of Data Aborts, ISV).
// Pairs leave it without one too: they occur only in bulk copies, on memory.

//go:build !purego

#include "textflag.h"

// func load(device uintptr, width uint8) uint64
TEXT ·load(SB), NOSPLIT, $0-24
	MOVD  device+0(FP), R0
	MOVBU width+8(FP), R2
	CMP   $4, R2
	BEQ   width4
	CMP   $8, R2
	BEQ   width8
	CMP   $2, R2
	BEQ   width2
	MOVBU (R0), R4
	MOVD  R4, ret+16(FP)
	RET
width2:
	MOVHU (R0), R4
	MOVD  R4, ret+16(FP)
	RET
width4:
	MOVWU (R0), R4
	MOVD  R4, ret+16(FP)
	RET
width8:
	MOVD  (R0), R4
	MOVD  R4, ret+16(FP)
	RET

// func store(device uintptr, width uint8, value uint64)
TEXT ·store(SB), NOSPLIT, $0-24
	MOVD  device+0(FP), R0
	MOVBU width+8(FP), R2
	MOVD  value+16(FP), R4
	CMP   $4, R2
	BEQ   width4
	CMP   $8, R2
	BEQ   width8
	CMP   $2, R2
	BEQ   width2
	MOVB  R4, (R0)
	RET
width2:
	MOVH  R4, (R0)
	RET
width4:
	MOVW  R4, (R0)
	RET
width8:
	MOVD  R4, (R0)
	RET

// R2 accesses from (FROM) to (TO); R0 moves by R3, which is zero for a FIFO.
#define EACH(LOAD, STORE, FROM, TO, WIDTH) \
	CBZ   R2, done  \
next:               \
	LOAD  (FROM), R4 \
	STORE R4, (TO)  \
	ADD   $WIDTH, R1 \
	ADD   R3, R0    \
	SUB   $1, R2    \
	CBNZ  R2, next  \
done:               \
	RET

// func copyIn8(device, step uintptr, data []byte)
TEXT ·copyIn8(SB), NOSPLIT, $0-40
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD data_base+16(FP), R1
	MOVD data_len+24(FP), R2
	EACH(MOVBU, MOVB, R1, R0, 1)

// func copyIn16(device, step uintptr, data []byte)
TEXT ·copyIn16(SB), NOSPLIT, $0-40
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD data_base+16(FP), R1
	MOVD data_len+24(FP), R2
	LSR  $1, R2
	EACH(MOVHU, MOVH, R1, R0, 2)

// func copyIn32(device, step uintptr, data []byte)
TEXT ·copyIn32(SB), NOSPLIT, $0-40
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD data_base+16(FP), R1
	MOVD data_len+24(FP), R2
	LSR  $2, R2
	EACH(MOVWU, MOVW, R1, R0, 4)

// func copyIn64(device, step uintptr, data []byte)
TEXT ·copyIn64(SB), NOSPLIT, $0-40
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD data_base+16(FP), R1
	MOVD data_len+24(FP), R2
	LSR  $3, R2
	EACH(MOVD, MOVD, R1, R0, 8)

// func copyOut8(device, step uintptr, data []byte)
TEXT ·copyOut8(SB), NOSPLIT, $0-40
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD data_base+16(FP), R1
	MOVD data_len+24(FP), R2
	EACH(MOVBU, MOVB, R0, R1, 1)

// func copyOut16(device, step uintptr, data []byte)
TEXT ·copyOut16(SB), NOSPLIT, $0-40
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD data_base+16(FP), R1
	MOVD data_len+24(FP), R2
	LSR  $1, R2
	EACH(MOVHU, MOVH, R0, R1, 2)

// func copyOut32(device, step uintptr, data []byte)
TEXT ·copyOut32(SB), NOSPLIT, $0-40
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD data_base+16(FP), R1
	MOVD data_len+24(FP), R2
	LSR  $2, R2
	EACH(MOVWU, MOVW, R0, R1, 4)

// func copyOut64(device, step uintptr, data []byte)
TEXT ·copyOut64(SB), NOSPLIT, $0-40
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD data_base+16(FP), R1
	MOVD data_len+24(FP), R2
	LSR  $3, R2
	EACH(MOVD, MOVD, R0, R1, 8)

// R2 stores of R4; R0 moves by R3.
#define REPEAT(STORE) \
	CBZ   R2, done  \
next:               \
	STORE R4, (R0)  \
	ADD   R3, R0    \
	SUB   $1, R2    \
	CBNZ  R2, next  \
done:               \
	RET

// func fill8(device, step uintptr, value uint8, count uint64)
TEXT ·fill8(SB), NOSPLIT, $0-32
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVBU value+16(FP), R4
	MOVD count+24(FP), R2
	REPEAT(MOVB)

// func fill16(device, step uintptr, value uint16, count uint64)
TEXT ·fill16(SB), NOSPLIT, $0-32
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVHU value+16(FP), R4
	MOVD count+24(FP), R2
	REPEAT(MOVH)

// func fill32(device, step uintptr, value uint32, count uint64)
TEXT ·fill32(SB), NOSPLIT, $0-32
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVWU value+16(FP), R4
	MOVD count+24(FP), R2
	REPEAT(MOVW)

// func fill64(device, step uintptr, value uint64, count uint64)
TEXT ·fill64(SB), NOSPLIT, $0-32
	MOVD device+0(FP), R0
	MOVD step+8(FP), R3
	MOVD value+16(FP), R4
	MOVD count+24(FP), R2
	REPEAT(MOVD)

// One access of WIDTH (1 << BIT) bytes if the device address has that bit set,
// so that it has fewer afterwards; on to the tail when fewer bytes are left.
#define ALIGN(LOAD, STORE, FROM, TO, WIDTH, BIT, NEXT) \
	TBZ   $BIT, R0, NEXT \
	CMP   $WIDTH, R2 \
	BLO   tail      \
	LOAD  (FROM), R4 \
	STORE R4, (TO)  \
	ADD   $WIDTH, R1 \
	ADD   $WIDTH, R0 \
	SUB   $WIDTH, R2

// One access of WIDTH (1 << BIT) bytes if the count has that bit set.
#define TAIL(LOAD, STORE, FROM, TO, WIDTH, BIT, NEXT) \
	TBZ   $BIT, R2, NEXT \
	LOAD  (FROM), R4 \
	STORE R4, (TO)  \
	ADD   $WIDTH, R1 \
	ADD   $WIDTH, R0

// R2 bytes from (FROM) to (TO): single accesses until R0 is a multiple of 16,
// then pairs, lowest address first. Subtracting 64 leaves the lower six bits of
// R2 alone, so they still count what follows the loop.
#define WIDE(FROM, TO) \
	ALIGN(MOVBU, MOVB, FROM, TO, 1, 0, align2) \
align2:             \
	ALIGN(MOVHU, MOVH, FROM, TO, 2, 1, align4) \
align4:             \
	ALIGN(MOVWU, MOVW, FROM, TO, 4, 2, align8) \
align8:             \
	ALIGN(MOVD, MOVD, FROM, TO, 8, 3, aligned) \
aligned:            \
	SUBS  $64, R2   \
	BLO   tail32    \
loop:               \
	LDP   0(FROM), (R4, R5) \
	LDP   16(FROM), (R6, R7) \
	LDP   32(FROM), (R8, R9) \
	LDP   48(FROM), (R10, R11) \
	STP   (R4, R5), 0(TO) \
	STP   (R6, R7), 16(TO) \
	STP   (R8, R9), 32(TO) \
	STP   (R10, R11), 48(TO) \
	ADD   $64, R1   \
	ADD   $64, R0   \
	SUBS  $64, R2   \
	BHS   loop      \
tail32:             \
	TBZ   $5, R2, tail16 \
	LDP   0(FROM), (R4, R5) \
	LDP   16(FROM), (R6, R7) \
	STP   (R4, R5), 0(TO) \
	STP   (R6, R7), 16(TO) \
	ADD   $32, R1   \
	ADD   $32, R0   \
tail16:             \
	TBZ   $4, R2, tail \
	LDP   (FROM), (R4, R5) \
	STP   (R4, R5), (TO) \
	ADD   $16, R1   \
	ADD   $16, R0   \
tail:               \
	TAIL(MOVD, MOVD, FROM, TO, 8, 3, tail4) \
tail4:              \
	TAIL(MOVWU, MOVW, FROM, TO, 4, 2, tail2) \
tail2:              \
	TAIL(MOVHU, MOVH, FROM, TO, 2, 1, tail1) \
tail1:              \
	TAIL(MOVBU, MOVB, FROM, TO, 1, 0, done) \
done:               \
	RET

// func bulkIn(device uintptr, data []byte)
TEXT ·bulkIn(SB), NOSPLIT, $0-32
	MOVD device+0(FP), R0
	MOVD data_base+8(FP), R1
	MOVD data_len+16(FP), R2
	WIDE(R1, R0)

// func streamIn(device uintptr, data []byte)
//
// Normal non-cacheable memory, which a write-combining mapping is, merges plain
// stores; a non-temporal hint adds nothing.
TEXT ·streamIn(SB), NOSPLIT, $0-32
	B ·bulkIn(SB)

// func bulkOut(device uintptr, data []byte)
TEXT ·bulkOut(SB), NOSPLIT, $0-32
	MOVD device+0(FP), R0
	MOVD data_base+8(FP), R1
	MOVD data_len+16(FP), R2
	WIDE(R0, R1)

// func fence()
//
// DSB SY, Linux's mb() (arch/arm64/include/asm/barrier.h): what is before it is
// done, of host memory and of devices, before anything after it begins.
TEXT ·fence(SB), NOSPLIT, $0-0
	DSB $15
	RET

// func storeRun32(device uintptr, first *fbs.Command, count uint64, at *int32) uint64
//
// Offsets in a command: 0 all that must equal the first's, 8 offset, 16 value, 24 mask.
TEXT ·storeRun32(SB), NOSPLIT, $0-40
	MOVD  device+0(FP), R0
	MOVD  first+8(FP), R1
	MOVD  count+16(FP), R2
	MOVD  at+24(FP), R3
	MOVD  (R1), R4
	MOVWU (R3), R5
	ADD   $0, R2, R6
	MOVD  24(R1), R7
loop:
	CBZ   R2, done
	MOVD  (R1), R8
	CMP   R4, R8
	BNE   done
	MOVD  24(R1), R8
	CMP   R7, R8
	BNE   done
	MOVWU 8(R1), R9
	ADD   R0, R9, R9
	MOVD  16(R1), R10
	MOVW  R10, (R9)
	ADD   $1, R5, R5
	MOVW  R5, (R3)
	ADD   $32, R1, R1
	SUB   $1, R2, R2
	JMP   loop
done:
	SUB   R2, R6, R6
	MOVD  R6, ret+32(FP)
	RET

// func storeRun64(device uintptr, first *fbs.Command, count uint64, at *int32) uint64
//
// Offsets in a command: 0 all that must equal the first's, 8 offset, 16 value, 24 mask.
TEXT ·storeRun64(SB), NOSPLIT, $0-40
	MOVD  device+0(FP), R0
	MOVD  first+8(FP), R1
	MOVD  count+16(FP), R2
	MOVD  at+24(FP), R3
	MOVD  (R1), R4
	MOVWU (R3), R5
	ADD   $0, R2, R6
	MOVD  24(R1), R7
loop:
	CBZ   R2, done
	MOVD  (R1), R8
	CMP   R4, R8
	BNE   done
	MOVD  24(R1), R8
	CMP   R7, R8
	BNE   done
	MOVWU 8(R1), R9
	ADD   R0, R9, R9
	MOVD  16(R1), R10
	MOVD  R10, (R9)
	ADD   $1, R5, R5
	MOVW  R5, (R3)
	ADD   $32, R1, R1
	SUB   $1, R2, R2
	JMP   loop
done:
	SUB   R2, R6, R6
	MOVD  R6, ret+32(FP)
	RET
