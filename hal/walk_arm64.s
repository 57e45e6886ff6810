// Walk.Run for arm64. It does what walkGeneric (walk_generic.go) does, on mapped memory.
//
// Each load and store of the device is one instruction, exactly as wide as the command requires,
// and naturally aligned: an unaligned access to memory of type Device faults (Arm ARM, "Device
// memory").
//
// No access has write-back, and only bulk copies, which images use for memory of the device, use
// pairs of registers: a hypervisor that emulates the device would not learn width and register of
// such an access (Arm ARM, ISS encoding of Data Aborts, ISV).

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers with the same contents for all commands, except CMD.
#define WALK R0    // address of the Walk
#define CMD R1     // Walk.Next: address of the current command
#define WINDOWS R2 // Walk.WindowAddresses: table of the addresses of windows
#define BUFFERS R3 // Walk.BufferAddresses: table of the addresses of buffers in host memory
#define BUDGET R4  // Walk.Budget: the walk ends when it is not above 0
#define DONE R14   // bytes that are done after this part of an interrupted command; else 0
#define WRITE4 R17 // constant: bytes 0 to 3 of a Write command whose width is 4, for comparisons

// Registers that each command sets. One register may have several names.
#define OPCODE R5      // command.Opcode, for a jump
#define VALUE R5       // value that is loaded or stored
#define WIDTH R6       // command.Width
#define MODE R7        // command.Mode
#define DST R8         // address of the next store; Expect and Compare: address of the next load
#define SRC R9         // address of the next load; Compare: address of the next golden element
#define BYTES_LEFT R10 // number of bytes left in the range
#define DST_STEP R11   // number of bytes added to DST after each access
#define SRC_STEP R12   // number of bytes added to SRC after each access
#define TO_ALIGN R13   // bulk copy: its lower 4 bits count the bytes to the next multiple of 16
#define GOLDEN R11     // Compare: the golden element, which must equal VALUE
#define SCRATCH R9     // temporary value
#define ACCESSES R15   // accesses left; at `interrupt`, then bytes that the budget allows

// Begin the command at CMD; stop if the flags say that BUDGET is not above 0. One comparison of the
// command's first four bytes (opcode, width, mode, option) finds the most frequent command, a Write
// of 4 bytes.
#define DISPATCH \
	BLE   stop          \
	MOVWU (CMD), VALUE  \
	CMP   WRITE4, VALUE \
	BEQ   write4        \
	B     jumpByOpcode

// Go on to the next command. Walk.Next has its address before any access, which may fault.
#define ADVANCE \
	ADD  $command__size, CMD      \
	MOVD CMD, Walk_Next(WALK)     \
	SUBS $const_commandUs, BUDGET \
	DISPATCH

// DST = the window's address + command.Offset. Stop if the window is not mapped (0): Go executes
// the command through its Port.
#define DEVICE_ADDRESS \
	MOVHU command_Window(CMD), SCRATCH   \
	MOVD  (WINDOWS)(SCRATCH<<3), SCRATCH \
	MOVWU command_Offset(CMD), DST       \
	CBZ   SCRATCH, stop                  \
	ADD   SCRATCH, DST

// AT = Walk.BufferAddresses[command.Index] + command.Value
#define HOST_ADDRESS(AT) \
	MOVHU command_Index(CMD), AT \
	MOVD  (BUFFERS)(AT<<3), AT   \
	MOVD  command_Value(CMD), R5 \
	ADD   R5, AT

#define JUMP_BY_WIDTH(W1, W2, W4, W8) \
	CMP $4, WIDTH \
	BEQ W4        \
	CMP $8, WIDTH \
	BEQ W8        \
	CMP $2, WIDTH \
	BEQ W2        \
	B   W1

// func executeWalk(w *Walk)
TEXT ·executeWalk(SB), NOSPLIT, $0-8
	// StopReason 0 is StopBeforeNext; any other reason is set where the walk stops.
	MOVD w+0(FP), WALK
	MOVD Walk_Next(WALK), CMD
	MOVD Walk_WindowAddresses(WALK), WINDOWS
	MOVD Walk_BufferAddresses(WALK), BUFFERS
	MOVD Walk_Budget(WALK), BUDGET
	MOVD ZR, Walk_StopReason(WALK)
	MOVD $(const_opWrite | 4<<8), WRITE4
	MOVD ZR, DONE
	MOVD Walk_DoneBytes(WALK), SCRATCH
	CBNZ SCRATCH, resume
	CMP  ZR, BUDGET
	DISPATCH

write4:
	DEVICE_ADDRESS
	MOVWU command_Value(CMD), VALUE
	MOVW  VALUE, (DST)
	ADVANCE

// Opcodes below Point access a window.
jumpByOpcode:
	MOVBU (CMD), OPCODE
	MOVBU command_Width(CMD), WIDTH
	CMP   $const_opPoint, OPCODE
	BHS   pointAndAbove
	DEVICE_ADDRESS
	MOVWU command_Amount(CMD), BYTES_LEFT
	MOVBU command_Mode(CMD), MODE
	CMP   $const_opExpect, OPCODE
	BEQ   expect
	CMP   $const_opCopyIn, OPCODE
	BEQ   copyIn
	CMP   $const_opWrite, OPCODE
	BEQ   write
	CMP   $const_opCompare, OPCODE
	BEQ   compare
	CMP   $const_opCopyOut, OPCODE
	BEQ   copyOut
	CMP   $const_opFill, OPCODE
	BEQ   fill
	CMP   $const_opModify, OPCODE
	BEQ   expect // the mode of a Modify is not Equal, so the walk stops after the load
	B     stop // any other opcode: stop with the reason StopBeforeNext

// The flags are those of the comparison with Point. Go executes all commands but Point and Fence.
pointAndAbove:
	BEQ programWindow
	CMP $const_opFence, OPCODE
	BNE stop
	// 15 selects DSB SY, which completes all earlier accesses to memory and devices before any
	// later one starts, as Linux's mb() (arch/arm64/include/asm/barrier.h).
	DSB $15
	ADVANCE

// Write of 1, 2 or 8 bytes. For 1 and 2, the loop of Fill ends after one store, because
// command.Amount is 0.
write:
	CMP  $8, WIDTH
	BNE  fill
	MOVD command_Value(CMD), VALUE
	MOVD VALUE, (DST)
	ADVANCE

// Begin to copy from SRC to DST. DEVICE is SRC or DST, whichever addresses the device, and STEP is
// its step: 0 in mode Fixed, else the width. Mode Bulk goes to bulkCopy, with DEVICE in TO_ALIGN.
#define START_COPY(DEVICE, STEP) \
	MOVD DEVICE, TO_ALIGN         \
	CMP  $const_accessBulk, MODE  \
	BEQ  bulkCopy                 \
	MOVD WIDTH, STEP              \
	CMP  $const_accessFixed, MODE \
	BNE  copy                     \
	MOVD ZR, STEP                 \
	B    copy

copyIn:
	HOST_ADDRESS(SRC)
copyInRest:
	MOVD WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// With SRC_STEP 0, the copy loop loads command.Value for each element.
fill:
	ADD  $command_Value, CMD, SRC
	MOVD ZR, SRC_STEP
	START_COPY(DST, DST_STEP)

copyOut:
	MOVD DST, SRC
	HOST_ADDRESS(DST)
copyOutRest:
	MOVD WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

copy:
	JUMP_BY_WIDTH(copy1, copy2, copy4, copy8)

// Also for Modify.
expect:
	JUMP_BY_WIDTH(expect1, expect2, expect4, expect8)

// SRC is the golden (expected) data.
compare:
	HOST_ADDRESS(SRC)
compareRest:
	JUMP_BY_WIDTH(compare1, compare2, compare4, compare8)

// Continue a command after its first Walk.DoneBytes bytes.
resume:
	CMP   ZR, BUDGET
	BLE   stop
	DEVICE_ADDRESS
	MOVD  Walk_DoneBytes(WALK), R13
	MOVD  ZR, Walk_DoneBytes(WALK)
	MOVBU command_Width(CMD), WIDTH
	MOVBU command_Mode(CMD), MODE
	MOVWU command_Amount(CMD), BYTES_LEFT
	SUB   R13, BYTES_LEFT
	CMP   $const_accessFixed, MODE
	BEQ   resumeAtDST
	ADD   R13, DST
resumeAtDST:
	MOVBU (CMD), R12
	CMP   $const_opFill, R12
	BEQ   fill
	HOST_ADDRESS(SRC)
	ADD   R13, SRC
	CMP   $const_opCopyIn, R12
	BEQ   copyInRest
	CMP   $const_opCompare, R12
	BEQ   compareRest
	MOVD  SRC, R13
	MOVD  DST, SRC
	MOVD  R13, DST
	B     copyOutRest

// BUDGET does not pay for ACCESSES, which were subtracted from it. Make one access fewer than it
// pays for, if any; DONE is the bytes done then. The rest of BUDGET does not pay for the command,
// so that the walk stops after these accesses.
interrupt:
	ADD   ACCESSES, BUDGET
	SUB   $1, BUDGET, ACCESSES
	MUL   WIDTH, ACCESSES
	MOVWU command_Amount(CMD), DONE
	SUB   BYTES_LEFT, DONE
	ADD   ACCESSES, DONE
	MOVD  ACCESSES, BYTES_LEFT
	CBZ   BYTES_LEFT, stopInterrupted
	MOVBU (CMD), OPCODE
	CMP   $const_opCompare, OPCODE
	BEQ   compareRest
	B     copy

// The code for accesses of BYTES bytes; SHIFT is the logarithm of BYTES. COPY and COMPARE charge
// their accesses, and go to `interrupt` if the budget does not allow all. ONES is all ones of this
// width, for checkCondition. COMPARE stops at the first difference.
#define ACCESS_LOOPS(BYTES, SHIFT, LOAD, STORE, ONES, COPY, COPYING, EXPECT, COMPARE, COMPARED) \
COPY:                        \
	LSR   $SHIFT, BYTES_LEFT, ACCESSES \
	SUBS  ACCESSES, BUDGET   \
	BLE   interrupt          \
COPYING:                     \
	LOAD  (SRC), VALUE       \
	STORE VALUE, (DST)       \
	ADD   SRC_STEP, SRC      \
	ADD   DST_STEP, DST      \
	SUBS  $BYTES, BYTES_LEFT \
	BHI   COPYING            \
	B     copyDone           \
EXPECT:                      \
	LOAD  (DST), VALUE       \
	MOVD  $ONES, SCRATCH     \
	B     checkCondition     \
COMPARE:                     \
	LSR   $SHIFT, BYTES_LEFT, ACCESSES \
	SUBS  ACCESSES, BUDGET   \
	BLE   interrupt          \
COMPARED:                   \
	LOAD  (DST), VALUE       \
	LOAD  (SRC), GOLDEN      \
	CMP   GOLDEN, VALUE      \
	BNE   stopMismatch       \
	ADD   $BYTES, DST        \
	ADD   $BYTES, SRC        \
	SUBS  $BYTES, BYTES_LEFT \
	BHI   COMPARED           \
	ADVANCE

ACCESS_LOOPS(1, 0, MOVBU, MOVB, 0xff, copy1, copying1, expect1, compare1, comparing1)
ACCESS_LOOPS(2, 1, MOVHU, MOVH, 0xffff, copy2, copying2, expect2, compare2, comparing2)
ACCESS_LOOPS(4, 2, MOVWU, MOVW, 0xffffffff, copy4, copying4, expect4, compare4, comparing4)
ACCESS_LOOPS(8, 3, MOVD, MOVD, -1, copy8, copying8, expect8, compare8, comparing8)

// Point: set the window's new address. Between two barriers, store the register values that
// EncodePoint has put into the command. Stop if the width is 0: the command is not encoded, and Go
// executes it.
programWindow:
	CBZ   WIDTH, stop
	SUB   $const_pointExtraUs, BUDGET

	// DST = WindowAddresses[command.Index] + command.Offset: the registers.
	MOVHU command_Index(CMD), R7
	MOVD  (WINDOWS)(R7<<3), DST
	MOVWU command_Offset(CMD), R7
	ADD   R7, DST

	// WindowAddresses[command.Window] = TLBWindowBases[command.Window] + command.Amount
	MOVHU command_Window(CMD), R9
	MOVD  Walk_TLBWindowBases(WALK), R7
	MOVD  (R7)(R9<<3), R7
	MOVWU command_Amount(CMD), R10
	ADD   R10, R7
	MOVD  R7, (WINDOWS)(R9<<3)

	// command.Value has the 8-byte register, or the first two of three 4-byte registers;
	// command.Mask has the third.
	MOVD  command_Value(CMD), VALUE
	MOVD  command_Mask(CMD), R9

	// Without a barrier, an earlier access through the TLB window could reach the new address.
	DSB   $15
	CMP   $4, WIDTH
	BEQ   programThreeRegisters

	// The load returns only after the store has taken effect, and the barrier delays later accesses
	// until then.
	MOVD  VALUE, (DST)
	MOVD  (DST), VALUE
	DSB   $15
	ADVANCE

	// Three registers of 4 bytes, in the order of their addresses. The load and the barrier are as
	// above.
programThreeRegisters:
	MOVW  VALUE, (DST)
	LSR   $32, VALUE
	MOVW  VALUE, 4(DST)
	MOVW  R9, 8(DST)
	MOVWU 8(DST), VALUE
	DSB   $15
	ADVANCE

// Finish an Expect. Stop if the value is all ones (SCRATCH: the device may be gone), if the mode is
// not Equal, and if the condition is not met.
checkCondition:
	CMP   SCRATCH, VALUE
	BEQ   stopLoaded
	CMP   $const_conditionEqual, MODE
	BNE   stopLoaded
	MOVD  command_Mask(CMD), R9
	AND   VALUE, R9
	MOVD  command_Value(CMD), R10
	CMP   R10, R9
	BNE   stopLoaded
	ADVANCE

// Go finishes the command.
stopLoaded:
	MOVD VALUE, Walk_Got(WALK)
	MOVD $const_StopLoaded, R9
	B    stopWithReason

// BYTES_LEFT counts from the element that differs to the end of the range, or to DONE if the
// command is interrupted.
stopMismatch:
	MOVD  VALUE, Walk_Got(WALK)
	MOVD  GOLDEN, Walk_Want(WALK)
	MOVD  DONE, R5
	CBNZ  DONE, mismatchOffset
	MOVWU command_Amount(CMD), R5
mismatchOffset:
	SUB   BYTES_LEFT, R5
	MOVD  R5, Walk_MismatchOffset(WALK)
	MOVD  ZR, DONE
	MOVD  $const_StopMismatch, R9
	B     stopWithReason

// A step of a bulk copy, with the label NAME: copy BYTES bytes if bit BIT, which has this value, is
// set in BITS, else go to NEXT. BITS is TO_ALIGN before the loop, BYTES_LEFT after it.
//
// Before the loop, the step goes to bulkTail if fewer bytes are left. After it, it never does:
// BYTES_LEFT is at least BYTES, or negative, which is large as an unsigned number.
#define BULK_STEP(NAME, LOAD, STORE, BYTES, BIT, BITS, NEXT) \
NAME:                        \
	TBZ   $BIT, BITS, NEXT   \
	CMP   $BYTES, BYTES_LEFT \
	BLO   bulkTail           \
	LOAD  (SRC), VALUE       \
	STORE VALUE, (DST)       \
	ADD   $BYTES, SRC        \
	ADD   $BYTES, DST        \
	SUB   $BYTES, BYTES_LEFT

// Bulk copy of BYTES_LEFT bytes: ascending, without overlap, each access aligned on the device.
// First up to 15 bytes, by 1 to 8, until the device's address is a multiple of 16. After NEG, the
// lower four bits of TO_ALIGN are their number.
bulkCopy:
	// WIDTH, at most 8, becomes its logarithm: width/2 - width/8.
	LSR  $3, WIDTH, R7
	LSR  $1, WIDTH
	SUB  R7, WIDTH
	LSR  WIDTH, BYTES_LEFT, ACCESSES
	SUBS ACCESSES, BUDGET
	BLE  interruptBulk
bulkPart:
	NEG  TO_ALIGN, TO_ALIGN
BULK_STEP(align1, MOVBU, MOVB, 1, 0, TO_ALIGN, align2)
BULK_STEP(align2, MOVHU, MOVH, 2, 1, TO_ALIGN, align4)
BULK_STEP(align4, MOVWU, MOVW, 4, 2, TO_ALIGN, align8)
BULK_STEP(align8, MOVD, MOVD, 8, 3, TO_ALIGN, bulkAligned)

// Then 32 bytes at a time. BYTES_LEFT is now the bytes left minus 32, which does not change its
// lower five bits.
bulkAligned:
	SUBS $32, BYTES_LEFT
	BLO  bulkTail
copyBy32:
	LDP  0(SRC), (R5, R6)
	LDP  16(SRC), (R7, R11)
	STP  (R5, R6), 0(DST)
	STP  (R7, R11), 16(DST)
	ADD  $32, SRC
	ADD  $32, DST
	SUBS $32, BYTES_LEFT
	BHS  copyBy32

// Then the 0 to 31 bytes that are left: the lower five bits of BYTES_LEFT.
bulkTail:
	TBZ  $4, BYTES_LEFT, tail8
	LDP  (SRC), (R5, R6)
	STP  (R5, R6), (DST)
	ADD  $16, SRC
	ADD  $16, DST
BULK_STEP(tail8, MOVD, MOVD, 8, 3, BYTES_LEFT, tail4)
BULK_STEP(tail4, MOVWU, MOVW, 4, 2, BYTES_LEFT, tail2)
BULK_STEP(tail2, MOVHU, MOVH, 2, 1, BYTES_LEFT, tail1)
BULK_STEP(tail1, MOVBU, MOVB, 1, 0, BYTES_LEFT, copyDone)

// If the last byte of a CopyOut is 0xff, Go checks whether the device is gone.
copyDone:
	MOVBU (CMD), OPCODE
	CMP   $const_opCopyOut, OPCODE
	BNE   advance
	MOVBU -1(DST), VALUE
	CMP   $0xff, VALUE
	BEQ   stopAllOnes
advance:
	ADVANCE
stopAllOnes:
	CBNZ DONE, stopInterrupted
	MOVD $const_StopAllOnes, R9
stopWithReason:
	MOVD R9, Walk_StopReason(WALK)
	B    stop

// The same as `interrupt`, for a bulk copy. It must make the same accesses as without an
// interruption: stop a multiple of 128 bytes after the first address that is a multiple of 32.
interruptBulk:
	ADD   ACCESSES, BUDGET
	SUB   $1, BUDGET, ACCESSES
	LSL   WIDTH, ACCESSES
	NEG   TO_ALIGN, R7
	AND   $31, R7
	MOVWU command_Amount(CMD), DONE
	SUB   BYTES_LEFT, DONE
	SUB   R7, ACCESSES
	AND   $-128, ACCESSES
	CMP   ZR, ACCESSES
	BLE   stopInterrupted
	ADD   R7, ACCESSES, BYTES_LEFT
	ADD   BYTES_LEFT, DONE
	MOVD  $1, BUDGET
	B     bulkPart

// If DONE is not 0, Walk.Next goes back to the command of which only a part is done.
stop:
	CBNZ DONE, stopAfterPart
	MOVD BUDGET, Walk_Budget(WALK)
	RET
stopAfterPart:
	SUB  $command__size, CMD
	MOVD CMD, Walk_Next(WALK)
stopInterrupted:
	MOVD ZR, Walk_Budget(WALK)
	MOVD DONE, Walk_DoneBytes(WALK)
	RET
