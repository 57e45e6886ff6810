// The walker, arm64.
//
// R0 is the Walk, R1 the command, R2 the windows, R3 the memories, R4 where to
// stop. An access through a device's address is one instruction, as wide as the
// command says, and naturally aligned, because Device memory faults otherwise
// (Arm ARM, "Device memory"). None has write-back, which leaves a hypervisor
// without a syndrome to emulate it from (Arm ARM, ISS encoding of Data Aborts,
// ISV). Pairs leave it without one too: they occur only in bulk copies, on memory.

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// On from the command at R1. R17 holds WRITE4.
#define DISPATCH \
	CMP   R4, R1             \
	BEQ   done               \
	MOVWU (R1), R5           \
	CMP   R17, R5            \
	BEQ   write4             \
	B     other

// On to the next command. It is noted before anything of it is done, so that a
// fault knows whose it was.
#define NEXT \
	ADD  $command__size, R1 \
	MOVD R1, Walk_Next(R0)  \
	DISPATCH

// R8 is the device's address. What is not mapped is left to Go.
#define DEVICE \
	MOVHU command_Window(R1), R9 \
	MOVD  (R2)(R9<<3), R9 \
	MOVWU command_Offset(R1), R8 \
	CBZ   R9, done        \
	ADD   R9, R8

// AT is the address in the command's memory.
#define MEMORY(AT) \
	MOVHU command_Index(R1), AT  \
	MOVD  (R3)(AT<<3), AT \
	MOVD  command_Value(R1), R5  \
	ADD   R5, AT

// On by the width in R6.
#define WIDTHS(W1, W2, W4, W8) \
	CMP $4, R6 \
	BEQ W4     \
	CMP $8, R6 \
	BEQ W8     \
	CMP $2, R6 \
	BEQ W2     \
	B   W1

// func walk(w *Walk)
TEXT ·walk(SB), NOSPLIT, $0-8
	MOVD w+0(FP), R0
	MOVD Walk_Next(R0), R1
	MOVD Walk_Windows(R0), R2
	MOVD Walk_Memories(R0), R3
	MOVD Walk_Stop(R0), R4
	MOVD ZR, Walk_StopReason(R0)
	MOVD $(const_opWrite | 4<<8), R17
	DISPATCH

write4:
	DEVICE
	MOVWU command_Value(R1), R5
	MOVW  R5, (R8)
	NEXT

other:
	MOVBU (R1), R5
	MOVBU command_Width(R1), R6
	CMP   $const_opPoint, R5
	BHS   apart
	DEVICE
	MOVWU command_Amount(R1), R10
	MOVBU command_Mode(R1), R7
	CMP   $const_opExpect, R5
	BEQ   check
	CMP   $const_opCopyIn, R5
	BEQ   copyIn
	CMP   $const_opWrite, R5
	BEQ   write
	CMP   $const_opCompare, R5
	BEQ   compare
	CMP   $const_opCopyOut, R5
	BEQ   copyOut
	CMP   $const_opFill, R5
	BEQ   fill
	CMP   $const_opModify, R5
	BEQ   check // whose mode is none: Go has what was loaded
	RET

// Opcodes from Point on have no window that is accessed.
apart:
	BEQ point
	CMP $const_opFence, R5
	BNE done
	DSB $15 // SY: what is before it is done, to devices too; Linux's mb() (arch/arm64/include/asm/barrier.h)
	NEXT

write:
	CMP  $8, R6
	BNE  fill // of one access
	MOVD command_Value(R1), R5
	MOVD R5, (R8)
	NEXT

// Copies go from (R9) to (R8), R10 bytes. Those of one width move R9 by R12 and
// R8 by R11 after each access: by the width, or by zero where it is a FIFO or the
// value of a fill. AT is the device's address, and STEP what moves it; in bulk R13
// is that address.
#define COPY(AT, STEP) \
	MOVD AT, R13          \
	CMP  $const_bulk, R7  \
	BEQ  bulk             \
	MOVD R6, STEP         \
	CMP  $const_fixed, R7 \
	BNE  move             \
	MOVD ZR, STEP         \
	B    move

copyIn:
	MEMORY(R9)
	MOVD R6, R12
	COPY(R8, R11)

fill:
	ADD  $command_Value, R1, R9
	MOVD ZR, R12
	COPY(R8, R11)

copyOut:
	MOVD R8, R9
	MEMORY(R8)
	MOVD R6, R11
	COPY(R9, R12)

move:
	WIDTHS(move1, move2, move4, move8)

check:
	WIDTHS(check1, check2, check4, check8)

compare:
	MEMORY(R9)
	WIDTHS(same1, same2, same4, same8)

// What is done in one WIDTH. MOVE copies. CHECK loads, and ONES may be of a device
// that is gone. SAME compares: R10 bytes are left of the range at R8 and of the
// golden ones at R9.
#define EACH(WIDTH, LOAD, STORE, ONES, MOVE, CHECK, SAME) \
MOVE:                 \
	LOAD  (R9), R5    \
	STORE R5, (R8)    \
	ADD   R12, R9     \
	ADD   R11, R8     \
	SUBS  $WIDTH, R10 \
	BHI   MOVE        \
	B     moved       \
CHECK:                \
	LOAD  (R8), R5    \
	MOVD  $ONES, R9   \
	B     looked      \
SAME:                 \
	LOAD  (R8), R5    \
	LOAD  (R9), R11   \
	CMP   R11, R5     \
	BNE   differs     \
	ADD   $WIDTH, R8  \
	ADD   $WIDTH, R9  \
	SUBS  $WIDTH, R10 \
	BHI   SAME        \
	NEXT

EACH(1, MOVBU, MOVB, 0xff, move1, check1, same1)
EACH(2, MOVHU, MOVH, 0xffff, move2, check2, same2)
EACH(4, MOVWU, MOVW, 0xffffffff, move4, check4, same4)
EACH(8, MOVD, MOVD, -1, move8, check8, same8)

// The first fence keeps earlier stores from landing where the window points
// next, the load shows that the registers have taken what they hold, and the
// last fence keeps later accesses behind it.
point:
	CBZ   R6, done
	MOVHU command_Index(R1), R7
	MOVD  (R2)(R7<<3), R8
	MOVWU command_Offset(R1), R7
	ADD   R7, R8
	MOVHU command_Window(R1), R9
	MOVD  Walk_TLBWindows(R0), R7
	MOVD  (R7)(R9<<3), R7
	MOVWU command_Amount(R1), R10
	ADD   R10, R7
	MOVD  R7, (R2)(R9<<3)
	MOVD  command_Value(R1), R5
	MOVD  command_Mask(R1), R9
	DSB   $15
	CMP   $4, R6
	BEQ   point4
	MOVD  R5, (R8)
	MOVD  (R8), R5
	DSB   $15
	NEXT
point4:
	MOVW  R5, (R8)
	LSR   $32, R5
	MOVW  R5, 4(R8)
	MOVW  R9, 8(R8)
	MOVWU 8(R8), R5
	DSB   $15
	NEXT

// All ones, and the rest of what does not hold, are for Go, which gets what was
// loaded.
looked:
	CMP   R9, R5
	BEQ   loaded
	CMP   $const_equal, R7
	BNE   loaded
	MOVD  command_Mask(R1), R9
	AND   R5, R9
	MOVD  command_Value(R1), R10
	CMP   R10, R9
	BNE   loaded
	NEXT

loaded:
	MOVD R5, Walk_Got(R0)
	MOVD $const_Loaded, R9
	B    ended

differs:
	MOVD  R5, Walk_Got(R0)
	MOVD  R11, Walk_Want(R0)
	MOVWU command_Amount(R1), R5
	SUB   R10, R5
	MOVD  R5, Walk_MismatchOffset(R0)
	MOVD  $const_Mismatch, R9
	B     ended

// One access of a bulk copy, if OF has the bit of its WIDTH (1 << BIT) set: R13,
// the bytes to where the device's address is aligned, or R10, those that are left.
// On to the tail when fewer are left.
#define PART(NAME, LOAD, STORE, WIDTH, BIT, OF, ON) \
NAME:                       \
	TBZ   $BIT, OF, ON      \
	CMP   $WIDTH, R10       \
	BLO   tail              \
	LOAD  (R9), R5          \
	STORE R5, (R8)          \
	ADD   $WIDTH, R9        \
	ADD   $WIDTH, R8        \
	SUB   $WIDTH, R10

// Naturally aligned on the device, lowest address first, never overlapping.
// Subtracting 32 leaves the lower five bits of R10 alone, so they still count
// what follows the loop.
bulk:
	NEG R13, R13
PART(align1, MOVBU, MOVB, 1, 0, R13, align2)
PART(align2, MOVHU, MOVH, 2, 1, R13, align4)
PART(align4, MOVWU, MOVW, 4, 2, R13, align8)
PART(align8, MOVD, MOVD, 8, 3, R13, aligned)
aligned:
	SUBS $32, R10
	BLO  tail
by32:
	LDP  0(R9), (R5, R6)
	LDP  16(R9), (R7, R11)
	STP  (R5, R6), 0(R8)
	STP  (R7, R11), 16(R8)
	ADD  $32, R9
	ADD  $32, R8
	SUBS $32, R10
	BHS  by32
tail:
	TBZ  $4, R10, tail8
	LDP  (R9), (R5, R6)
	STP  (R5, R6), (R8)
	ADD  $16, R9
	ADD  $16, R8
PART(tail8, MOVD, MOVD, 8, 3, R10, tail4)
PART(tail4, MOVWU, MOVW, 4, 2, R10, tail2)
PART(tail2, MOVHU, MOVH, 2, 1, R10, tail1)
PART(tail1, MOVBU, MOVB, 1, 0, R10, moved)

// A device that is gone reads all ones: where what was copied out ends with a
// byte of them, Go looks.
moved:
	MOVBU (R1), R5
	CMP   $const_opCopyOut, R5
	BNE   next
	MOVBU -1(R8), R5
	CMP   $0xff, R5
	BEQ   taken
next:
	NEXT
taken:
	MOVD $const_AllOnes, R9
ended:
	MOVD R9, Walk_StopReason(R0)

done:
	RET
