// This file implements Walk.Run for arm64. It executes commands on mapped memory exactly as the Go
// function walkGeneric in walk_generic.go does.
//
// Each load from the device and each store to it is one instruction, exactly as wide as the
// command requires. Each access is naturally aligned, because an unaligned access to memory
// of type Device faults (Arm ARM, "Device memory").
//
// No access uses an addressing mode that also changes the address register (write-back). If a
// hypervisor emulates the device, the processor reports each access to the hypervisor. For an
// access with write-back, the report does not contain the width and the register (Arm ARM, ISS
// encoding of Data Aborts, ISV). The same is true of the instructions that load or store a pair of
// registers. Therefore only bulk copies use instructions for pairs. Images use bulk copies only for
// ranges of the device that are memory.

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers that keep the same contents for all commands of a walk, except CMD.
#define WALK R0    // address of the Walk
#define CMD R1     // Walk.Next: address of the current command
#define WINDOWS R2 // Walk.WindowAddresses: table of the addresses of windows
#define BUFFERS R3 // Walk.BufferAddresses: table of the addresses of buffers in host memory
#define BUDGET R4  // Walk.Budget: the walk ends when it is not above 0
#define DONE R14   // bytes that are done after this part of an interrupted command; else 0
#define WRITE4 R17 // constant: bytes 0 to 3 of a Write command whose width is 4, for comparisons

// Registers whose contents each command sets. One register may have several names.
#define OPCODE R5      // command.Opcode; only jumpByOpcode, pointAndAbove and copyDone use it
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
#define ACCESSES R15   // number of accesses that are left, or that the budget allows

// Begin to execute the command at CMD. The processor flags are those of BUDGET: stop if it is not
// above 0. Otherwise load the first four bytes of the command: opcode, width, mode and option. The
// most frequent command is a Write of 4 bytes, whose mode and option are 0. One comparison of all
// four bytes finds this command. For all other commands, jump to the label `jumpByOpcode`.
#define DISPATCH \
	BLE   stop          \
	MOVWU (CMD), VALUE  \
	CMP   WRITE4, VALUE \
	BEQ   write4        \
	B     jumpByOpcode

// Go on to the next command. First store its address to Walk.Next: if an access of the command
// faults, Walk.Next then points to that command.
#define ADVANCE \
	ADD  $command__size, CMD      \
	MOVD CMD, Walk_Next(WALK)     \
	SUBS $const_commandUs, BUDGET \
	DISPATCH

// Set DST to the address at which the command accesses the device: the address of the window plus
// command.Offset. Stop if the address of the window is 0, because the window is then not mapped. Go
// executes the command through the window's Port.
#define DEVICE_ADDRESS \
	MOVHU command_Window(CMD), SCRATCH   \
	MOVD  (WINDOWS)(SCRATCH<<3), SCRATCH \
	MOVWU command_Offset(CMD), DST       \
	CBZ   SCRATCH, stop                  \
	ADD   SCRATCH, DST

// Set the register AT to the address of the command's data in host memory:
// AT = Walk.BufferAddresses[command.Index] + command.Value
#define HOST_ADDRESS(AT) \
	MOVHU command_Index(CMD), AT \
	MOVD  (BUFFERS)(AT<<3), AT   \
	MOVD  command_Value(CMD), R5 \
	ADD   R5, AT

// Jump to W1, W2, W4 or W8 if the command's width is 1, 2, 4 or 8 bytes.
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
	// Load the fields of the Walk into registers. Set Walk.StopReason to 0, which is
	// StopBeforeNext; code that stops the walk for another reason sets another value.
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

// Write of 4 bytes: store the lower 4 bytes of command.Value to the device.
write4:
	DEVICE_ADDRESS
	MOVWU command_Value(CMD), VALUE
	MOVW  VALUE, (DST)
	ADVANCE

// Jump to the code for the command's opcode. Commands with an opcode below Point access a
// window. For those, set DST, BYTES_LEFT and MODE first.
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

// The opcode is Point or higher. The processor flags are still the result of the comparison
// with Point. Execute Point and Fence; stop at all other commands, which Go executes.
pointAndAbove:
	BEQ programWindow
	CMP $const_opFence, OPCODE
	BNE stop
	// Fence: the operand 15 selects DSB SY, which completes all earlier accesses to memory
	// and devices before any later access starts. Linux uses it as mb()
	// (arch/arm64/include/asm/barrier.h).
	DSB $15
	ADVANCE

// Write of 1, 2 or 8 bytes. If the width is 8, store command.Value. If the width is 1 or 2, use the
// code for Fill: its loop ends after one store, because command.Amount of a Write is 0.
write:
	CMP  $8, WIDTH
	BNE  fill
	MOVD command_Value(CMD), VALUE
	MOVD VALUE, (DST)
	ADVANCE

// Begin to copy BYTES_LEFT bytes from SRC to DST. DEVICE is the register with the address on the
// device, SRC or DST. STEP is the step register of DEVICE: SRC_STEP or DST_STEP.
//
// Mode Bulk: set TO_ALIGN to the address on the device, and jump to the label `bulkCopy`.
//
// Mode Fixed: set STEP to 0, so that all accesses use the same address on the device, and jump to
// the label `copy`.
//
// Any other mode: set STEP to the width, and jump to the label `copy`.
#define START_COPY(DEVICE, STEP) \
	MOVD DEVICE, TO_ALIGN         \
	CMP  $const_accessBulk, MODE  \
	BEQ  bulkCopy                 \
	MOVD WIDTH, STEP              \
	CMP  $const_accessFixed, MODE \
	BNE  copy                     \
	MOVD ZR, STEP                 \
	B    copy

// CopyIn: copy the command's data from host memory to the device.
copyIn:
	HOST_ADDRESS(SRC)
copyInRest:
	MOVD WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// Fill: store command.Value to each element of the range. With SRC_STEP 0, the copy loop loads
// command.Value for each element.
fill:
	ADD  $command_Value, CMD, SRC
	MOVD ZR, SRC_STEP
	START_COPY(DST, DST_STEP)

// CopyOut: copy from the device to the command's buffer in host memory.
copyOut:
	MOVD DST, SRC
	HOST_ADDRESS(DST)
copyOutRest:
	MOVD WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

// Copy BYTES_LEFT bytes from SRC to DST, with accesses of the command's width.
copy:
	JUMP_BY_WIDTH(copy1, copy2, copy4, copy8)

// Expect: load one value from the device, and compare the value with command.Value. Modify: only
// load the value.
expect:
	JUMP_BY_WIDTH(expect1, expect2, expect4, expect8)

// Compare: load each element of a range of the device, and compare the element with the golden
// (expected) data, which are the command's data in host memory.
compare:
	HOST_ADDRESS(SRC)
compareRest:
	JUMP_BY_WIDTH(compare1, compare2, compare4, compare8)

// Continue a command after the first Walk.DoneBytes bytes. Add them to its addresses.
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

// ACCESSES has been subtracted from BUDGET, but is too many. Set BYTES_LEFT to the bytes of one
// access fewer than the budget was, and DONE to the bytes that are done after these. Make these
// accesses, unless there are none. The budget that is left then does not pay for the command, so
// that the walk stops after them.
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

// Define the labels COPY, EXPECT and COMPARE, whose code makes accesses of BYTES bytes, and the
// labels of their loops. SHIFT is the logarithm of BYTES: COPY and COMPARE charge the accesses, and
// jump to the label `interrupt` if the budget does not allow all of them. LOAD and STORE are the
// instructions for an access of that width. ONES is the value of that width with all bits set.
//
// COPY: load an element from SRC and store it to DST, until BYTES_LEFT bytes are copied.
//
// EXPECT: load a value from the device, set SCRATCH to ONES, and jump to checkCondition.
//
// COMPARE: load an element from the device and an element of the golden data, until BYTES_LEFT
// bytes are compared. Stop if two elements differ.
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

// Point: program a TLB window. Store the values that EncodePoint has put into the command to the
// registers of the TLB window. Set the entry of the image's window in Walk.WindowAddresses to its
// new address. Stop if the width is 0: EncodePoint has not encoded this command, and Go executes
// it.
programWindow:
	CBZ   WIDTH, stop
	SUB   $const_pointExtraUs, BUDGET

	// Set DST to the address of the TLB window's registers: the entry with the index command.Index
	// of Walk.WindowAddresses, plus command.Offset.
	MOVHU command_Index(CMD), R7
	MOVD  (WINDOWS)(R7<<3), DST
	MOVWU command_Offset(CMD), R7
	ADD   R7, DST

	// WindowAddresses[command.Window] = TLBWindowBases[command.Window] + command.Amount.
	// This is the new address of the image's window.
	MOVHU command_Window(CMD), R9
	MOVD  Walk_TLBWindowBases(WALK), R7
	MOVD  (R7)(R9<<3), R7
	MOVWU command_Amount(CMD), R10
	ADD   R10, R7
	MOVD  R7, (WINDOWS)(R9<<3)

	// Load the values for the TLB window's registers. command.Value contains the value of the
	// single 8-byte register, or the values of the first two 4-byte registers. command.Mask
	// contains the value of the third 4-byte register, if there is one.
	MOVD  command_Value(CMD), VALUE
	MOVD  command_Mask(CMD), R9

	// Barrier: earlier accesses through the TLB window must be complete before its registers
	// change. Otherwise an earlier access could reach the new address.
	DSB   $15
	CMP   $4, WIDTH
	BEQ   programThreeRegisters

	// The TLB window has one register of 8 bytes. Store the value to the register, then load the
	// register: the load returns only after the store has taken effect. The barrier delays later
	// accesses until the load has returned.
	MOVD  VALUE, (DST)
	MOVD  (DST), VALUE
	DSB   $15
	ADVANCE

	// The TLB window has three registers of 4 bytes. Store the values in the order of the
	// registers' addresses, then load the last register: the load returns only after the stores
	// have taken effect. The barrier delays later accesses until the load has returned.
programThreeRegisters:
	MOVW  VALUE, (DST)
	LSR   $32, VALUE
	MOVW  VALUE, 4(DST)
	MOVW  R9, 8(DST)
	MOVWU 8(DST), VALUE
	DSB   $15
	ADVANCE

// Finish an Expect after its load. Stop if the value is all ones (the contents of SCRATCH), because
// a device that is gone returns all ones. Stop if the mode is not Equal, or if the value masked
// with command.Mask differs from command.Value. Otherwise go on to the next command.
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

// Stop after the load of an Expect or Modify. Store the loaded value to Walk.Got: Go finishes the
// command.
stopLoaded:
	MOVD VALUE, Walk_Got(WALK)
	MOVD $const_StopLoaded, R9
	B    stopWithReason

// Stop a Compare at the first element that differs from the golden data. BYTES_LEFT is the number
// of bytes from the beginning of this element to the end of the range, or of its interrupted part,
// which ends at DONE.
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

// One step of a bulk copy: copy BYTES bytes with one load and one store, if the bit with the number
// BIT is set in the register BITS; otherwise jump to NEXT, the label of the next step. BYTES is the
// value of that bit. NAME is the label of this step. BITS is TO_ALIGN in the steps before the loop,
// and BYTES_LEFT in the steps after the loop.
//
// The jump to the label `bulkTail` ends the steps before the loop early, if fewer than BYTES bytes
// are left. In the steps after the loop, this jump never happens: BYTES_LEFT is then negative,
// which is a large number in this unsigned comparison, or BYTES_LEFT is at least BYTES.
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

// Bulk copy of BYTES_LEFT bytes from SRC to DST. Addresses increase, accesses do not overlap, and
// each access is naturally aligned on the device. First copy up to 15 bytes, with accesses of 1 to
// 8 bytes, until the address on the device is a multiple of 16. After NEG, the lower four bits of
// TO_ALIGN are the number of these bytes.
bulkCopy:
	// WIDTH becomes its logarithm, as in accessCount of package fbs.
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

// Then copy 32 bytes at a time. From here on, BYTES_LEFT is the number of bytes left minus 32. The
// loop ends when BYTES_LEFT falls below 0. The subtraction of 32 does not change the lower five
// bits.
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

// Then copy the remaining 0 to 31 bytes. The lower five bits of BYTES_LEFT are their number: for
// each bit that is set, copy 16, 8, 4, 2 or 1 bytes.
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

// A copy or fill is complete. If the command is a CopyOut and the last byte is 0xff, stop with the
// reason StopAllOnes: Go must check whether the device is gone, because loads from such a device
// return all ones. Otherwise go on to the next command.
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
// Return to Go with the stop reason in R9.
stopWithReason:
	MOVD R9, Walk_StopReason(WALK)
	B    stop

// As `interrupt`, for a bulk copy. The rest must make the same accesses as without an interruption:
// stop after a multiple of 128 bytes from the first address that is a multiple of 32.
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

// Return to Go. Walk.StopReason and Walk.Next are already set, but if DONE is not 0, Walk.Next must
// go back to the command of which only a part is done.
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
