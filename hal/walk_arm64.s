// The arm64 version of the walk. It implements walkGeneric of oracle.go in assembly.
// A label that implements a Go function of oracle.go has the name of that function.
//
// Every load or store through a device's address is one instruction, exactly as
// wide as the command requires, and naturally aligned, because unaligned accesses
// to Device memory fault (Arm ARM, "Device memory"). No access uses write-back
// addressing, because a hypervisor that emulates the device would get no description
// of the access (Arm ARM, ISS encoding of Data Aborts, ISV). The same is true of load
// and store pairs. Therefore pairs occur only in bulk copies, whose range is memory.

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers that keep their meaning during the whole walk.
#define WALK R0     // address of the Walk
#define CMD R1      // address of the current command, which Walk.Next points to
#define WINDOWS R2  // Walk.Windows: address of the table of windows
#define MEMORIES R3 // Walk.Memories: address of the table of buffers
#define STOP R4     // Walk.Stop: address of the command before which the walk stops
#define WRITE4 R17  // constant: the first four bytes of a Write of width 4

// Registers whose contents belong to the current command.
#define OPCODE R5    // command.Opcode; the register is reused after the dispatch
#define VALUE R5     // the value of one access
#define WIDTH R6     // command.Width
#define MODE R7      // command.Mode
#define DST R8       // address of the next store; for Expect and Compare, of the next load
#define SRC R9       // address of the next load of a copy; for Compare, of the next golden element
#define LEFT R10     // bytes of the command that are left
#define DST_STEP R11 // bytes that DST advances after each access
#define SRC_STEP R12 // bytes that SRC advances after each access
#define TO_ALIGN R13 // bulk copy: bytes up to the next aligned address, modulo 16
#define WANT R11     // Compare: the golden element, which the loaded value must equal
#define SCRATCH R9   // temporary values; the same register as SRC

// Return if the command is Walk.Stop. Otherwise jump to the code for the command's
// opcode. A Write of 4 bytes is the most frequent command; therefore one comparison
// recognizes it.
#define DISPATCH \
	CMP   STOP, CMD          \
	BEQ   stop               \
	MOVWU (CMD), VALUE       \
	CMP   WRITE4, VALUE      \
	BEQ   write4             \
	B     decode

// Continue with the next command. Store its address to Walk.Next before the command
// makes an access: if the access faults, Walk.Next then names this command.
#define ADVANCE \
	ADD  $command__size, CMD   \
	MOVD CMD, Walk_Next(WALK)  \
	DISPATCH

// Set DST to the address of the access: the window's first byte plus command.Offset.
// Return if the window is not mapped, because Go executes such commands on a port.
#define DEVICE_ADDRESS \
	MOVHU command_Window(CMD), SCRATCH       \
	MOVD  (WINDOWS)(SCRATCH<<3), SCRATCH     \
	MOVWU command_Offset(CMD), DST           \
	CBZ   SCRATCH, stop                      \
	ADD   SCRATCH, DST

// Set AT to the address of the command's memory (commandMemory in oracle.go).
#define MEMORY_ADDRESS(AT) \
	MOVHU command_Index(CMD), AT   \
	MOVD  (MEMORIES)(AT<<3), AT    \
	MOVD  command_Value(CMD), R5   \
	ADD   R5, AT

// Jump to one of the four labels, depending on the command's width.
#define BY_WIDTH(W1, W2, W4, W8) \
	CMP $4, WIDTH \
	BEQ W4        \
	CMP $8, WIDTH \
	BEQ W8        \
	CMP $2, WIDTH \
	BEQ W2        \
	B   W1

// func walk(w *Walk)
TEXT ·walk(SB), NOSPLIT, $0-8
	// Load the fields of the Walk. Set Walk.StopReason to 0, which is Unhandled. Code
	// that stops the walk for another reason overwrites it.
	MOVD w+0(FP), WALK
	MOVD Walk_Next(WALK), CMD
	MOVD Walk_Windows(WALK), WINDOWS
	MOVD Walk_Memories(WALK), MEMORIES
	MOVD Walk_Stop(WALK), STOP
	MOVD ZR, Walk_StopReason(WALK)
	MOVD $(const_opWrite | 4<<8), WRITE4
	DISPATCH

// Write of 4 bytes: store command.Value once.
write4:
	DEVICE_ADDRESS
	MOVWU command_Value(CMD), VALUE
	MOVW  VALUE, (DST)
	ADVANCE

// Jump to the code for the opcode. Only commands with an opcode below Point access a
// window.
decode:
	MOVBU (CMD), OPCODE
	MOVBU command_Width(CMD), WIDTH
	CMP   $const_opPoint, OPCODE
	BHS   withoutAccess
	DEVICE_ADDRESS
	MOVWU command_Amount(CMD), LEFT
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
	BEQ   expect // mode 0 is no condition: the walk stops after the load, and Go stores
	RET

// The opcode is Point, Fence, or one that Go executes. The flags are the result of
// the comparison with Point.
withoutAccess:
	BEQ programWindow
	CMP $const_opFence, OPCODE
	BNE stop
	// DSB SY: all earlier accesses, also those to devices, are complete before any
	// later access starts. Linux uses it as mb() (arch/arm64/include/asm/barrier.h).
	DSB $15
	ADVANCE

// Write of 1, 2 or 8 bytes. A Write of 1 or 2 bytes is executed as a fill of one
// access: its command.Amount is 0, which ends the loop after the first access.
write:
	CMP  $8, WIDTH
	BNE  fill
	MOVD command_Value(CMD), VALUE
	MOVD VALUE, (DST)
	ADVANCE

// Choose how to copy LEFT bytes from SRC to DST: in bulk, or by accesses of the
// command's width. DEVICE is the register with the device's address, SRC or DST.
// STEP is the register with the bytes that DEVICE advances after each access. Set
// STEP to the width, or to 0 if the mode is Fixed.
#define START_COPY(DEVICE, STEP) \
	MOVD DEVICE, TO_ALIGN   \
	CMP  $const_bulk, MODE  \
	BEQ  bulk               \
	MOVD WIDTH, STEP        \
	CMP  $const_fixed, MODE \
	BNE  copy               \
	MOVD ZR, STEP           \
	B    copy

// CopyIn: copy from the command's memory to the device.
copyIn:
	MEMORY_ADDRESS(SRC)
	MOVD WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// Fill: copy command.Value to the device repeatedly. SRC does not advance.
fill:
	ADD  $command_Value, CMD, SRC
	MOVD ZR, SRC_STEP
	START_COPY(DST, DST_STEP)

// CopyOut: copy from the device to the command's memory.
copyOut:
	MOVD DST, SRC
	MEMORY_ADDRESS(DST)
	MOVD WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

copy:
	BY_WIDTH(copy1, copy2, copy4, copy8)

// Expect: load once from the device and compare with command.Value.
expect:
	BY_WIDTH(expect1, expect2, expect4, expect8)

// Compare: load from the device and compare each element with the command's memory.
compare:
	MEMORY_ADDRESS(SRC)
	BY_WIDTH(compare1, compare2, compare4, compare8)

// The code for accesses of BYTES bytes.
//
// COPY: load an element from SRC and store it to DST.
// EXPECT: load from the device. ONES is the value all ones, which a missing device
// returns.
// COMPARE: load an element from the device and an element of the golden data. Stop if
// the two elements differ.
#define EACH(BYTES, LOAD, STORE, ONES, COPY, EXPECT, COMPARE) \
COPY:                  \
	LOAD  (SRC), VALUE     \
	STORE VALUE, (DST)     \
	ADD   SRC_STEP, SRC    \
	ADD   DST_STEP, DST    \
	SUBS  $BYTES, LEFT     \
	BHI   COPY             \
	B     copyDone         \
EXPECT:                \
	LOAD  (DST), VALUE     \
	MOVD  $ONES, SCRATCH   \
	B     checkCondition   \
COMPARE:               \
	LOAD  (DST), VALUE     \
	LOAD  (SRC), WANT      \
	CMP   WANT, VALUE      \
	BNE   mismatch         \
	ADD   $BYTES, DST      \
	ADD   $BYTES, SRC      \
	SUBS  $BYTES, LEFT     \
	BHI   COMPARE          \
	ADVANCE

EACH(1, MOVBU, MOVB, 0xff, copy1, expect1, compare1)
EACH(2, MOVHU, MOVH, 0xffff, copy2, expect2, compare2)
EACH(4, MOVWU, MOVW, 0xffffffff, copy4, expect4, compare4)
EACH(8, MOVD, MOVD, -1, copy8, expect8, compare8)

// Point: store the values that EncodeWindow put into the command to the TLB window's
// registers, and update the window's entry in Walk.Windows. If the width is 0, stop:
// EncodeWindow has not encoded the command, and Go executes it.
programWindow:
	CBZ   WIDTH, stop

	// Set DST to the address of the registers: entry command.Index of Walk.Windows
	// plus command.Offset.
	MOVHU command_Index(CMD), R7
	MOVD  (WINDOWS)(R7<<3), DST
	MOVWU command_Offset(CMD), R7
	ADD   R7, DST

	// The new address of the window's first byte is the entry of Walk.TLBWindows plus
	// command.Amount.
	MOVHU command_Window(CMD), R9
	MOVD  Walk_TLBWindows(WALK), R7
	MOVD  (R7)(R9<<3), R7
	MOVWU command_Amount(CMD), R10
	ADD   R10, R7
	MOVD  R7, (WINDOWS)(R9<<3)

	// Load the values to store to the registers.
	MOVD  command_Value(CMD), VALUE
	MOVD  command_Mask(CMD), R9

	// Barrier: earlier stores through the TLB window must arrive at its old target
	// before the registers change.
	DSB   $15
	CMP   $4, WIDTH
	BEQ   programWindow4

	// Store one register of 8 bytes and load it again: the load returns only after the
	// store has taken effect. Barrier: later accesses must not start before the load
	// has returned.
	MOVD  VALUE, (DST)
	MOVD  (DST), VALUE
	DSB   $15
	ADVANCE

	// Store three registers of 4 bytes, the lowest address first, and load the last one.
programWindow4:
	MOVW  VALUE, (DST)
	LSR   $32, VALUE
	MOVW  VALUE, 4(DST)
	MOVW  R9, 8(DST)
	MOVWU 8(DST), VALUE
	DSB   $15
	ADVANCE

// The part of an Expect after the load. Continue with the next command if the mode is
// Equal, the masked value is command.Value, and the value is not all ones, which is in
// SCRATCH. Otherwise stop, and Go evaluates the value.
checkCondition:
	CMP   SCRATCH, VALUE
	BEQ   loaded
	CMP   $const_equal, MODE
	BNE   loaded
	MOVD  command_Mask(CMD), R9
	AND   VALUE, R9
	MOVD  command_Value(CMD), R10
	CMP   R10, R9
	BNE   loaded
	ADVANCE

// Stop after the load of an Expect or Modify. Store the loaded value to Walk.Got.
loaded:
	MOVD VALUE, Walk_Got(WALK)
	MOVD $const_Loaded, R9
	B    stopWithReason

// Stop a Compare at the first element that differs. The offset of the element is
// command.Amount minus LEFT.
mismatch:
	MOVD  VALUE, Walk_Got(WALK)
	MOVD  WANT, Walk_Want(WALK)
	MOVWU command_Amount(CMD), R5
	SUB   LEFT, R5
	MOVD  R5, Walk_MismatchOffset(WALK)
	MOVD  $const_Mismatch, R9
	B     stopWithReason

// Make one access of a bulk copy, of BYTES (1 << BIT) bytes, if bit BIT is set in the
// register OF. OF is TO_ALIGN before the loop and LEFT after the loop. ON is the label
// of the next step. If fewer than BYTES bytes are left, jump to tail.
#define BULK_STEP(NAME, LOAD, STORE, BYTES, BIT, OF, ON) \
NAME:                       \
	TBZ   $BIT, OF, ON      \
	CMP   $BYTES, LEFT      \
	BLO   tail              \
	LOAD  (SRC), VALUE      \
	STORE VALUE, (DST)      \
	ADD   $BYTES, SRC       \
	ADD   $BYTES, DST       \
	SUB   $BYTES, LEFT

// Bulk copy. The accesses begin at the lowest address and do not overlap, and each is
// naturally aligned on the device. First make single accesses up to an address that is
// a multiple of 16.
bulk:
	NEG TO_ALIGN, TO_ALIGN
BULK_STEP(align1, MOVBU, MOVB, 1, 0, TO_ALIGN, align2)
BULK_STEP(align2, MOVHU, MOVH, 2, 1, TO_ALIGN, align4)
BULK_STEP(align4, MOVWU, MOVW, 4, 2, TO_ALIGN, align8)
BULK_STEP(align8, MOVD, MOVD, 8, 3, TO_ALIGN, aligned)

// Then copy 32 bytes at a time. The loop ends when LEFT falls below zero. Subtracting
// 32 does not change the lower five bits of LEFT. Therefore these bits are still the
// number of bytes that are left after the loop.
aligned:
	SUBS $32, LEFT
	BLO  tail
by32:
	LDP  0(SRC), (R5, R6)
	LDP  16(SRC), (R7, R11)
	STP  (R5, R6), 0(DST)
	STP  (R7, R11), 16(DST)
	ADD  $32, SRC
	ADD  $32, DST
	SUBS $32, LEFT
	BHS  by32

// Then copy 16, 8, 4, 2 and 1 bytes: each if its bit is set in LEFT.
tail:
	TBZ  $4, LEFT, tail8
	LDP  (SRC), (R5, R6)
	STP  (R5, R6), (DST)
	ADD  $16, SRC
	ADD  $16, DST
BULK_STEP(tail8, MOVD, MOVD, 8, 3, LEFT, tail4)
BULK_STEP(tail4, MOVWU, MOVW, 4, 2, LEFT, tail2)
BULK_STEP(tail2, MOVHU, MOVH, 2, 1, LEFT, tail1)
BULK_STEP(tail1, MOVBU, MOVB, 1, 0, LEFT, copyDone)

// A copy or fill is complete. Loads from a missing device return all ones. Therefore
// stop if the last byte of a CopyOut is 0xff, and Go checks the device.
copyDone:
	MOVBU (CMD), OPCODE
	CMP   $const_opCopyOut, OPCODE
	BNE   advance
	MOVBU -1(DST), VALUE
	CMP   $0xff, VALUE
	BEQ   allOnes
advance:
	ADVANCE
allOnes:
	MOVD $const_AllOnes, R9
stopWithReason:
	MOVD R9, Walk_StopReason(WALK)

stop:
	RET
