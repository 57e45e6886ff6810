// The walker, amd64.
//
// SI is the command, R8 the windows, R9 the memories, R10 the Walk, R12 where to
// stop. An access through a device's address is one instruction, as wide as the
// command says; only bulk copies, whose range is memory, are wider. Uncached
// accesses happen once each, in program order (Intel SDM volume 3A, "Methods of
// Caching Available").

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// On from the command at SI.
#define DISPATCH \
	CMPQ SI, R12            \
	JEQ  done               \
	MOVL (SI), AX           \
	CMPL AX, $(const_opWrite | 4<<8) \
	JEQ  write4             \
	JMP  other

// On to the next command. It is noted before anything of it is done, so that a
// fault knows whose it was.
#define NEXT \
	ADDQ $command__size, SI  \
	MOVQ SI, Walk_Next(R10)  \
	DISPATCH

// DI is the device's address. What is not mapped is left to Go.
#define DEVICE \
	MOVWLZX command_Window(SI), R11 \
	MOVQ    (R8)(R11*8), R11 \
	MOVL    command_Offset(SI), DI  \
	TESTQ   R11, R11         \
	JEQ     done             \
	ADDQ    R11, DI

// AT is the address in the command's memory.
#define MEMORY(AT) \
	MOVWLZX command_Index(SI), AT \
	MOVQ    (R9)(AT*8), AT \
	ADDQ    command_Value(SI), AT

// On by the width in CX.
#define WIDTHS(W1, W2, W4, W8) \
	CMPL CX, $4 \
	JEQ  W4     \
	CMPL CX, $8 \
	JEQ  W8     \
	CMPL CX, $2 \
	JEQ  W2     \
	JMP  W1

// func walk(w *Walk)
TEXT ·walk(SB), NOSPLIT, $0-8
	MOVQ w+0(FP), R10
	MOVQ Walk_Next(R10), SI
	MOVQ Walk_Windows(R10), R8
	MOVQ Walk_Memories(R10), R9
	MOVQ Walk_Stop(R10), R12
	MOVQ $0, Walk_StopReason(R10)
	DISPATCH

write4:
	DEVICE
	MOVL command_Value(SI), AX
	MOVL AX, (DI)
	NEXT

other:
	MOVBLZX command_Width(SI), CX
	MOVBLZX AX, DX
	CMPL    DX, $const_opPoint
	JCC     apart
	DEVICE
	MOVL    command_Amount(SI), AX
	CMPL    DX, $const_opExpect
	JEQ     check
	CMPL    DX, $const_opCopyIn
	JEQ     copyIn
	CMPL    DX, $const_opWrite
	JEQ     write
	CMPL    DX, $const_opCompare
	JEQ     compare
	CMPL    DX, $const_opCopyOut
	JEQ     copyOut
	CMPL    DX, $const_opFill
	JEQ     fill
	CMPL    DX, $const_opModify
	JEQ     check // whose mode is none: Go has what was loaded
	RET

// Opcodes from Point on have no window that is accessed.
apart:
	JEQ  point
	CMPL DX, $const_opFence
	JNE  done
	MFENCE
	NEXT

write:
	CMPL CX, $8
	JNE  fill // of one access
	MOVQ command_Value(SI), AX
	MOVQ AX, (DI)
	NEXT

// Copies go from (BX) to (DI), AX bytes. Those of one width move BX by R13 and
// DI by DX after each access: by the width, or by zero where it is a FIFO or the
// value of a fill. AT is the device's address, and STEP what moves it; in bulk R11
// is that address.
#define COPY(AT, STEP) \
	MOVQ AT, R11                        \
	CMPB command_Mode(SI), $const_bulk  \
	JEQ  bulk                           \
	MOVQ CX, STEP                       \
	CMPB command_Mode(SI), $const_fixed \
	JNE  move                           \
	XORL STEP, STEP                     \
	JMP  move

copyIn:
	MEMORY(BX)
	MOVQ CX, R13
	COPY(DI, DX)

fill:
	LEAQ command_Value(SI), BX
	XORL R13, R13
	COPY(DI, DX)

copyOut:
	MOVQ DI, BX
	MEMORY(DI)
	MOVQ CX, DX
	COPY(BX, R13)

move:
	MOVQ AX, R11
	WIDTHS(move1, move2, move4, move8)

check:
	WIDTHS(check1, check2, check4, check8)

compare:
	MEMORY(BX)
	MOVQ AX, R11
	WIDTHS(same1, same2, same4, same8)

// What is done in one WIDTH. MOVE copies. CHECK loads; all ones, which may be of a
// device that is gone, and the rest of what does not hold, are for Go, which gets
// what was loaded. SAME compares: R11 bytes are left of the range at DI and of the
// golden ones at BX.
#define EACH(WIDTH, LOAD, STORE, ONES, MOVE, CHECK, SAME) \
MOVE:                        \
	LOAD  (BX), AX           \
	STORE AX, (DI)           \
	ADDQ  R13, BX            \
	ADDQ  DX, DI             \
	SUBQ  $WIDTH, R11        \
	JHI   MOVE               \
	JMP   moved              \
CHECK:                       \
	LOAD (DI), AX            \
	ONES AX, $-1             \
	JEQ  loaded              \
	CMPB command_Mode(SI), $const_equal \
	JNE  loaded              \
	MOVQ AX, DX              \
	ANDQ command_Mask(SI), DX  \
	CMPQ DX, command_Value(SI) \
	JNE  loaded              \
	NEXT                     \
SAME:                        \
	LOAD (DI), AX            \
	LOAD (BX), DX            \
	CMPQ AX, DX              \
	JNE  differs             \
	ADDQ $WIDTH, DI          \
	ADDQ $WIDTH, BX          \
	SUBQ $WIDTH, R11         \
	JHI  SAME                \
	NEXT

EACH(4, MOVL, MOVL, CMPL, move4, check4, same4)
EACH(8, MOVQ, MOVQ, CMPQ, move8, check8, same8)
EACH(2, MOVWLZX, MOVW, CMPW, move2, check2, same2)
EACH(1, MOVBLZX, MOVB, CMPB, move1, check1, same1)

// The first fence keeps earlier stores from landing where the window points
// next, the load shows that the registers have taken what they hold, and the
// last fence keeps later accesses behind it.
point:
	TESTL   CX, CX
	JEQ     done
	MOVWLZX command_Index(SI), R11
	MOVQ    (R8)(R11*8), DI
	MOVL    command_Offset(SI), AX
	MOVWLZX command_Window(SI), BX
	MOVQ    Walk_TLBWindows(R10), DX
	MOVQ    (DX)(BX*8), DX
	MOVL    command_Amount(SI), R11
	ADDQ    AX, DI
	ADDQ    R11, DX
	MOVQ    command_Value(SI), AX
	MOVQ    command_Mask(SI), R13
	MOVQ    DX, (R8)(BX*8)
	MFENCE
	CMPL    CX, $4
	JEQ     point4
	MOVQ    AX, (DI)
	MOVQ    (DI), AX
	MFENCE
	NEXT
point4:
	MOVL    AX, (DI)
	SHRQ    $32, AX
	MOVL    AX, 4(DI)
	MOVL    R13, 8(DI)
	MOVL    8(DI), AX
	MFENCE
	NEXT

loaded:
	MOVQ AX, Walk_Got(R10)
	MOVQ $const_Loaded, Walk_StopReason(R10)
	RET

differs:
	MOVQ AX, Walk_Got(R10)
	MOVQ DX, Walk_Want(R10)
	MOVL command_Amount(SI), AX
	SUBQ R11, AX
	MOVQ AX, Walk_MismatchOffset(R10)
	MOVQ $const_Mismatch, Walk_StopReason(R10)
	RET

// One access of a bulk copy, if OF has the bit of its WIDTH set: R11, the bytes to
// where the device's address is aligned, or AX, those that are left. On to the tail
// when fewer are left.
#define PART(NAME, MOVE, VIA, WIDTH, OF, ON) \
NAME:                       \
	TESTQ $WIDTH, OF        \
	JEQ   ON                \
	CMPQ  AX, $WIDTH        \
	JCS   tail              \
	MOVE  (BX), VIA         \
	MOVE  VIA, (DI)         \
	ADDQ  $WIDTH, BX        \
	ADDQ  $WIDTH, DI        \
	SUBQ  $WIDTH, AX

// 128 bytes at a time, of which AX counts those behind the first.
#define BY128(NAME, STORE) \
NAME:                        \
	VMOVDQU (BX), Y0         \
	VMOVDQU 32(BX), Y1       \
	VMOVDQU 64(BX), Y2       \
	VMOVDQU 96(BX), Y3       \
	STORE   Y0, (DI)         \
	STORE   Y1, 32(DI)       \
	STORE   Y2, 64(DI)       \
	STORE   Y3, 96(DI)       \
	SUBQ    $-128, BX        \
	SUBQ    $-128, DI        \
	SUBQ    $128, AX         \
	JCC     NAME

// Where 4 MiB and more follow the first 128 bytes, what is copied to a device's
// memory goes past the cache, which it would empty: on memory that is cached it first reads what is overwritten.
// Such stores are not in order, so that a fence of stores ends them.
#define STREAM $(4<<20)

// Naturally aligned on the device, lowest address first, never overlapping.
// Subtracting 128 and 32 leaves the lower five bits of AX alone, so they still
// count what follows the loops.
bulk:
	NEGQ  R11
	TESTQ $31, R11
	JEQ   aligned
PART(align1, MOVB, DX, 1, R11, align2)
PART(align2, MOVW, DX, 2, R11, align4)
PART(align4, MOVL, DX, 4, R11, align8)
PART(align8, MOVQ, DX, 8, R11, align16)
PART(align16, MOVOU, X0, 16, R11, aligned)
aligned:
	SUBQ $128, AX
	JCS  rest
	CMPB ·hasAVX(SB), $0
	JEQ  rest
	CMPQ AX, STREAM
	JCS  by128
	CMPB (SI), $const_opCopyIn
	JNE  by128
	BY128(stream, VMOVNTDQ)
	SFENCE
	JMP  by128Done
	BY128(by128, VMOVDQU)
by128Done:
	VZEROUPPER
rest:
	ADDQ  $96, AX
	JLT   tail
by32:
	MOVOU (BX), X0
	MOVOU 16(BX), X1
	MOVOU X0, (DI)
	MOVOU X1, 16(DI)
	ADDQ  $32, BX
	ADDQ  $32, DI
	SUBQ  $32, AX
	JCC   by32
PART(tail, MOVOU, X0, 16, AX, tail8)
PART(tail8, MOVQ, DX, 8, AX, tail4)
PART(tail4, MOVL, DX, 4, AX, tail2)
PART(tail2, MOVW, DX, 2, AX, tail1)
PART(tail1, MOVB, DX, 1, AX, moved)

// A device that is gone reads all ones: where what was copied out ends with a
// byte of them, Go looks.
moved:
	CMPB (SI), $const_opCopyOut
	JNE  next
	CMPB -1(DI), $-1
	JEQ  taken
next:
	NEXT
taken:
	MOVQ $const_AllOnes, Walk_StopReason(R10)

done:
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
	JNE  told
	XORL CX, CX
	XGETBV
	ANDL $6, AX
	CMPL AX, $6
told:
	SETEQ ret+0(FP)
	RET
