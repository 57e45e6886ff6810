// Loads, stores and block copies on device memory, amd64.
//
// DI always holds the device address, SI the memory side; every access through
// DI is naturally aligned. Sources: Intel SDM volume 3A, "Methods of Caching
// Available" (uncached accesses happen once each, in program order) and
// "Buffering of Write Combining Memory Locations" (when stores leave the
// write-combining buffers). MOVO is MOVDQA, MOVOU is MOVDQU, MOVNTO is MOVNTDQ.
//
// Loops begin at multiples of 32. Elsewhere they take up to twice as long on
// Intel's processors from Skylake to Cascade Lake, which decode a jump across
// such a boundary anew each time ("Mitigations for Jump Conditional Code Erratum").

//go:build !purego

#include "textflag.h"

// func load(device uintptr, width uint8) uint64
TEXT ·load(SB), NOSPLIT, $0-24
	MOVQ device+0(FP), DI
	MOVB width+8(FP), CX
	XORL AX, AX
	CMPB CX, $4
	JEQ  width4
	CMPB CX, $8
	JEQ  width8
	CMPB CX, $2
	JEQ  width2
	MOVB (DI), AX
	MOVQ AX, ret+16(FP)
	RET
width2:
	MOVW (DI), AX
	MOVQ AX, ret+16(FP)
	RET
width4:
	MOVL (DI), AX
	MOVQ AX, ret+16(FP)
	RET
width8:
	MOVQ (DI), AX
	MOVQ AX, ret+16(FP)
	RET

// func store(device uintptr, width uint8, value uint64)
TEXT ·store(SB), NOSPLIT, $0-24
	MOVQ device+0(FP), DI
	MOVB width+8(FP), CX
	MOVQ value+16(FP), AX
	CMPB CX, $4
	JEQ  width4
	CMPB CX, $8
	JEQ  width8
	CMPB CX, $2
	JEQ  width2
	MOVB AX, (DI)
	RET
width2:
	MOVW AX, (DI)
	RET
width4:
	MOVL AX, (DI)
	RET
width8:
	MOVQ AX, (DI)
	RET

// CX accesses from (FROM) to (TO); DI moves by DX, which is zero for a FIFO.
#define EACH(MOVE, FROM, TO, WIDTH) \
	TESTQ CX, CX    \
	JEQ   done      \
	PCALIGN $32     \
next:               \
	MOVE  (FROM), AX \
	MOVE  AX, (TO)  \
	ADDQ  $WIDTH, SI \
	ADDQ  DX, DI    \
	DECQ  CX        \
	JNE   next      \
done:               \
	RET

// func copyIn8(device, step uintptr, data []byte)
TEXT ·copyIn8(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ data_base+16(FP), SI
	MOVQ data_len+24(FP), CX
	EACH(MOVB, SI, DI, 1)

// func copyIn16(device, step uintptr, data []byte)
TEXT ·copyIn16(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ data_base+16(FP), SI
	MOVQ data_len+24(FP), CX
	SHRQ $1, CX
	EACH(MOVW, SI, DI, 2)

// func copyIn32(device, step uintptr, data []byte)
TEXT ·copyIn32(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ data_base+16(FP), SI
	MOVQ data_len+24(FP), CX
	SHRQ $2, CX
	EACH(MOVL, SI, DI, 4)

// func copyIn64(device, step uintptr, data []byte)
TEXT ·copyIn64(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ data_base+16(FP), SI
	MOVQ data_len+24(FP), CX
	SHRQ $3, CX
	EACH(MOVQ, SI, DI, 8)

// func copyOut8(device, step uintptr, data []byte)
TEXT ·copyOut8(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ data_base+16(FP), SI
	MOVQ data_len+24(FP), CX
	EACH(MOVB, DI, SI, 1)

// func copyOut16(device, step uintptr, data []byte)
TEXT ·copyOut16(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ data_base+16(FP), SI
	MOVQ data_len+24(FP), CX
	SHRQ $1, CX
	EACH(MOVW, DI, SI, 2)

// func copyOut32(device, step uintptr, data []byte)
TEXT ·copyOut32(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ data_base+16(FP), SI
	MOVQ data_len+24(FP), CX
	SHRQ $2, CX
	EACH(MOVL, DI, SI, 4)

// func copyOut64(device, step uintptr, data []byte)
TEXT ·copyOut64(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ data_base+16(FP), SI
	MOVQ data_len+24(FP), CX
	SHRQ $3, CX
	EACH(MOVQ, DI, SI, 8)

// CX stores of AX; DI moves by DX.
#define REPEAT(MOVE) \
	TESTQ CX, CX    \
	JEQ   done      \
	PCALIGN $32     \
next:               \
	MOVE  AX, (DI)  \
	ADDQ  DX, DI    \
	DECQ  CX        \
	JNE   next      \
done:               \
	RET

// func fill8(device, step uintptr, value uint8, count uint64)
TEXT ·fill8(SB), NOSPLIT, $0-32
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVB value+16(FP), AX
	MOVQ count+24(FP), CX
	REPEAT(MOVB)

// func fill16(device, step uintptr, value uint16, count uint64)
TEXT ·fill16(SB), NOSPLIT, $0-32
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVW value+16(FP), AX
	MOVQ count+24(FP), CX
	REPEAT(MOVW)

// func fill32(device, step uintptr, value uint32, count uint64)
TEXT ·fill32(SB), NOSPLIT, $0-32
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVL value+16(FP), AX
	MOVQ count+24(FP), CX
	REPEAT(MOVL)

// func fill64(device, step uintptr, value uint64, count uint64)
TEXT ·fill64(SB), NOSPLIT, $0-32
	MOVQ device+0(FP), DI
	MOVQ step+8(FP), DX
	MOVQ value+16(FP), AX
	MOVQ count+24(FP), CX
	REPEAT(MOVQ)

// One access of WIDTH bytes if the device address has that bit set, so that it
// has fewer afterwards; on to the tail when fewer bytes are left.
#define ALIGN(MOVE, FROM, TO, WIDTH, NEXT) \
	TESTQ $WIDTH, DI \
	JEQ   NEXT      \
	CMPQ  CX, $WIDTH \
	JCS   tail      \
	MOVE  (FROM), AX \
	MOVE  AX, (TO)  \
	ADDQ  $WIDTH, SI \
	ADDQ  $WIDTH, DI \
	SUBQ  $WIDTH, CX

// Single accesses until DI is a multiple of 16.
#define HEAD(FROM, TO) \
	ALIGN(MOVB, FROM, TO, 1, align2) \
align2:             \
	ALIGN(MOVW, FROM, TO, 2, align4) \
align4:             \
	ALIGN(MOVL, FROM, TO, 4, align8) \
align8:             \
	ALIGN(MOVQ, FROM, TO, 8, aligned) \
aligned:

// 32 bytes each where the processor has AVX and there are many: half the
// accesses, and memory behind the mapping takes them as fast as memcpy does.
#define AVX(GET, PUT, GETY, PUTY, FROM, TO) \
	CMPB  ·hasAVX(SB), $0 \
	JEQ   sse       \
	CMPQ  CX, $256  \
	JCS   sse       \
	TESTQ $16, DI   \
	JEQ   avx       \
	GET   (FROM), X0 \
	PUT   X0, (TO)  \
	ADDQ  $16, SI   \
	ADDQ  $16, DI   \
	SUBQ  $16, CX   \
avx:                \
	SUBQ  $128, CX  \
	PCALIGN $32     \
avxloop:            \
	GETY  (FROM), Y0 \
	GETY  32(FROM), Y1 \
	GETY  64(FROM), Y2 \
	GETY  96(FROM), Y3 \
	PUTY  Y0, (TO)  \
	PUTY  Y1, 32(TO) \
	PUTY  Y2, 64(TO) \
	PUTY  Y3, 96(TO) \
	ADDQ  $128, SI  \
	ADDQ  $128, DI  \
	SUBQ  $128, CX  \
	JCC   avxloop   \
	ADDQ  $128, CX  \
	VZEROUPPER      \
sse:

// One access of WIDTH bytes if the count has that bit set.
#define TAIL(GET, PUT, VIA, FROM, TO, WIDTH, NEXT) \
	TESTQ $WIDTH, CX \
	JEQ   NEXT      \
	GET   (FROM), VIA \
	PUT   VIA, (TO) \
	ADDQ  $WIDTH, SI \
	ADDQ  $WIDTH, DI

// 16 bytes each while they last, then what is left. Subtracting 64 leaves the
// lower six bits of CX alone, so they still count what follows the loop.
#define REST(GET, PUT, FROM, TO) \
	SUBQ  $64, CX   \
	JCS   tail32    \
	PCALIGN $32     \
loop:               \
	GET   (FROM), X0 \
	GET   16(FROM), X1 \
	GET   32(FROM), X2 \
	GET   48(FROM), X3 \
	PUT   X0, (TO)  \
	PUT   X1, 16(TO) \
	PUT   X2, 32(TO) \
	PUT   X3, 48(TO) \
	ADDQ  $64, SI   \
	ADDQ  $64, DI   \
	SUBQ  $64, CX   \
	JCC   loop      \
tail32:             \
	TESTQ $32, CX   \
	JEQ   tail16    \
	GET   (FROM), X0 \
	GET   16(FROM), X1 \
	PUT   X0, (TO)  \
	PUT   X1, 16(TO) \
	ADDQ  $32, SI   \
	ADDQ  $32, DI   \
tail16:             \
	TAIL(GET, PUT, X0, FROM, TO, 16, tail) \
tail:               \
	TAIL(MOVQ, MOVQ, AX, FROM, TO, 8, tail4) \
tail4:              \
	TAIL(MOVL, MOVL, AX, FROM, TO, 4, tail2) \
tail2:              \
	TAIL(MOVW, MOVW, AX, FROM, TO, 2, tail1) \
tail1:              \
	TAIL(MOVB, MOVB, AX, FROM, TO, 1, done) \
done:               \
	RET

// func bulkIn(device uintptr, data []byte)
TEXT ·bulkIn(SB), NOSPLIT, $0-32
	MOVQ device+0(FP), DI
	MOVQ data_base+8(FP), SI
	MOVQ data_len+16(FP), CX
	HEAD(SI, DI)
	AVX(MOVOU, MOVO, VMOVDQU, VMOVDQA, SI, DI)
	REST(MOVOU, MOVO, SI, DI)

// func streamIn(device uintptr, data []byte)
//
// Non-temporal stores go to the write-combining buffers on any memory type.
TEXT ·streamIn(SB), NOSPLIT, $0-32
	MOVQ device+0(FP), DI
	MOVQ data_base+8(FP), SI
	MOVQ data_len+16(FP), CX
	HEAD(SI, DI)
	REST(MOVOU, MOVNTO, SI, DI)

// func bulkOut(device uintptr, data []byte)
TEXT ·bulkOut(SB), NOSPLIT, $0-32
	MOVQ device+0(FP), DI
	MOVQ data_base+8(FP), SI
	MOVQ data_len+16(FP), CX
	HEAD(DI, SI)
	AVX(MOVO, MOVOU, VMOVDQA, VMOVDQU, DI, SI)
	REST(MOVO, MOVOU, DI, SI)

// func fence()
//
// SFENCE empties the write-combining buffers but lets later loads pass; a
// read-back through a write-combining mapping needs MFENCE.
TEXT ·fence(SB), NOSPLIT, $0-0
	MFENCE
	RET

// func detectAVX() bool
//
// The processor has AVX and the system saves its registers: Intel SDM volume 1,
// "Detection of AVX Instructions".
TEXT ·detectAVX(SB), NOSPLIT, $0-1
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $(1<<27 | 1<<28), CX
	CMPL CX, $(1<<27 | 1<<28)
	JNE  no
	XORL CX, CX
	XGETBV
	ANDL $6, AX
	CMPL AX, $6
	JNE  no
	MOVB $1, ret+0(FP)
	RET
no:
	MOVB $0, ret+0(FP)
	RET

// func storeRun32(device uintptr, first *fbs.Command, count uint64, at *int32) uint64
//
// Offsets in a command: 0 all that must equal the first's, 8 offset, 16 value, 24 mask.
TEXT ·storeRun32(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ first+8(FP), SI
	MOVQ count+16(FP), CX
	MOVQ at+24(FP), DX
	MOVQ (SI), R8
	MOVQ 24(SI), R9
	MOVL (DX), R10
	MOVQ CX, R11
	PCALIGN $32
loop:
	CMPQ (SI), R8
	JNE  done
	CMPQ 24(SI), R9
	JNE  done
	MOVL 8(SI), BX
	ADDQ DI, BX
	MOVQ 16(SI), AX
	MOVL AX, (BX)
	ADDQ $1, R10
	MOVL R10, (DX)
	ADDQ $32, SI
	DECQ CX
	JNE  loop
done:
	SUBQ CX, R11
	MOVQ R11, ret+32(FP)
	RET

// func storeRun64(device uintptr, first *fbs.Command, count uint64, at *int32) uint64
//
// Offsets in a command: 0 all that must equal the first's, 8 offset, 16 value, 24 mask.
TEXT ·storeRun64(SB), NOSPLIT, $0-40
	MOVQ device+0(FP), DI
	MOVQ first+8(FP), SI
	MOVQ count+16(FP), CX
	MOVQ at+24(FP), DX
	MOVQ (SI), R8
	MOVQ 24(SI), R9
	MOVL (DX), R10
	MOVQ CX, R11
	PCALIGN $32
loop:
	CMPQ (SI), R8
	JNE  done
	CMPQ 24(SI), R9
	JNE  done
	MOVL 8(SI), BX
	ADDQ DI, BX
	MOVQ 16(SI), AX
	MOVQ AX, (BX)
	ADDQ $1, R10
	MOVL R10, (DX)
	ADDQ $32, SI
	DECQ CX
	JNE  loop
done:
	SUBQ CX, R11
	MOVQ R11, ret+32(FP)
	RET
