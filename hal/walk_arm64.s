// The arm64 version of the walk: executeCommand and its parts in oracle.go, in
// assembly. Labels have the names of the Go functions.
//
// Every load or store through a device's address is one instruction, exactly as
// wide as the command requires, and naturally aligned, because unaligned accesses
// to Device memory fault (Arm ARM, "Device memory"). No access uses write-back:
// a hypervisor that emulates the device would get no syndrome to decode (Arm ARM,
// ISS encoding of Data Aborts, ISV). Load and store pairs have no syndrome either:
// they occur only in bulk copies, whose range is memory.

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers that keep their meaning during the whole walk.
#define WALK R0     // the Walk
#define CMD R1      // the command that Walk.Next points to
#define WINDOWS R2  // the table Walk.Windows
#define MEMORIES R3 // the table Walk.Memories
#define STOP R4     // Walk.Stop
#define WRITE4 R17  // the first four bytes of a Write of width 4

// Registers of one command.
#define OPCODE R5    // only until the opcode has been dispatched
#define VALUE R5     // the value of one access
#define WIDTH R6     // command.Width
#define MODE R7      // command.Mode
#define DST R8       // where the next store goes; for Expect and Compare, the device's address
#define SRC R9       // where the next load of a copy comes from; for Compare, the golden data
#define LEFT R10     // bytes of the command that are left
#define DST_STEP R11 // what an access adds to DST
#define SRC_STEP R12 // what an access adds to SRC
#define TO_ALIGN R13 // bulk: bytes up to an aligned address, modulo 16
#define WANT R11     // Compare: the golden element
#define SCRATCH R9

// Stop at Walk.Stop. Otherwise go to the command's code. A Write of 4 bytes, the
// most frequent command, is recognized by one comparison.
#define DISPATCH \
	CMP   STOP, CMD          \
	BEQ   stop               \
	MOVWU (CMD), VALUE       \
	CMP   WRITE4, VALUE      \
	BEQ   write4             \
	B     decode

// Go on to the next command. Walk.Next is stored before any access of that
// command, so that it names the command whose access faults.
#define ADVANCE \
	ADD  $command__size, CMD   \
	MOVD CMD, Walk_Next(WALK)  \
	DISPATCH

// Set DST to the device's address: the window's first byte plus command.Offset.
// Stop if the window is not mapped; Go executes such commands on a port.
#define DEVICE_ADDRESS \
	MOVHU command_Window(CMD), SCRATCH       \
	MOVD  (WINDOWS)(SCRATCH<<3), SCRATCH     \
	MOVWU command_Offset(CMD), DST           \
	CBZ   SCRATCH, stop                      \
	ADD   SCRATCH, DST

// Set AT to the address in the command's memory (commandMemory in oracle.go).
#define MEMORY_ADDRESS(AT) \
	MOVHU command_Index(CMD), AT   \
	MOVD  (MEMORIES)(AT<<3), AT    \
	MOVD  command_Value(CMD), R5   \
	ADD   R5, AT

// Go to the code for the command's width.
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
	// Load the fields of the Walk. Walk.StopReason is Unhandled, which is 0, until
	// something else stops the walk.
	MOVD w+0(FP), WALK
	MOVD Walk_Next(WALK), CMD
	MOVD Walk_Windows(WALK), WINDOWS
	MOVD Walk_Memories(WALK), MEMORIES
	MOVD Walk_Stop(WALK), STOP
	MOVD ZR, Walk_StopReason(WALK)
	MOVD $(const_opWrite | 4<<8), WRITE4
	DISPATCH

// Write of 4 bytes: one store of command.Value.
write4:
	DEVICE_ADDRESS
	MOVWU command_Value(CMD), VALUE
	MOVW  VALUE, (DST)
	ADVANCE

// Go to the code of the opcode. Opcodes below Point access a window.
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
	BEQ   expect // its mode is 0, no condition: the walk stops after the load, and Go stores
	RET

// Point, Fence, or an opcode that Go executes. The flags are of the comparison
// with Point.
withoutAccess:
	BEQ programWindow
	CMP $const_opFence, OPCODE
	BNE stop
	// SY: all earlier accesses are complete, on devices too, before any later one.
	// It is Linux's mb() (arch/arm64/include/asm/barrier.h).
	DSB $15
	ADVANCE

// Write of 1, 2 or 8 bytes. Those of 1 and 2 bytes are a fill of one access:
// command.Amount is 0, which ends the loop after it.
write:
	CMP  $8, WIDTH
	BNE  fill
	MOVD command_Value(CMD), VALUE
	MOVD VALUE, (DST)
	ADVANCE

// Choose how to copy LEFT bytes from SRC to DST: in bulk, or one access of the
// command's width after the other. DEVICE is the device's address, which is SRC or
// DST, and STEP is what an access adds to it: the width, or 0 in mode Fixed.
#define START_COPY(DEVICE, STEP) \
	MOVD DEVICE, TO_ALIGN   \
	CMP  $const_bulk, MODE  \
	BEQ  bulk               \
	MOVD WIDTH, STEP        \
	CMP  $const_fixed, MODE \
	BNE  copy               \
	MOVD ZR, STEP           \
	B    copy

// CopyIn: from the command's memory to the device.
copyIn:
	MEMORY_ADDRESS(SRC)
	MOVD WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// Fill: from command.Value, again and again, to the device.
fill:
	ADD  $command_Value, CMD, SRC
	MOVD ZR, SRC_STEP
	START_COPY(DST, DST_STEP)

// CopyOut: from the device to the command's memory.
copyOut:
	MOVD DST, SRC
	MEMORY_ADDRESS(DST)
	MOVD WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

copy:
	BY_WIDTH(copy1, copy2, copy4, copy8)

// Expect: one load from the device, compared with command.Value.
expect:
	BY_WIDTH(expect1, expect2, expect4, expect8)

// Compare: loads from the device, compared with the command's memory.
compare:
	MEMORY_ADDRESS(SRC)
	BY_WIDTH(compare1, compare2, compare4, compare8)

// The loops for accesses of BYTES bytes.
//
// COPY: load an element from SRC and store it to DST.
// EXPECT: load from the device; ONES is the value that a device that is gone reads as.
// COMPARE: load an element from the device and one of the golden data; stop if
// they differ.
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

// Point: store the TLB window's registers that EncodeWindow put into the command,
// and move the window's entry in Walk.Windows. A width of 0 means that Go does it.
programWindow:
	CBZ   WIDTH, stop

	// DST is the address of the registers: entry command.Index of Walk.Windows
	// plus command.Offset.
	MOVHU command_Index(CMD), R7
	MOVD  (WINDOWS)(R7<<3), DST
	MOVWU command_Offset(CMD), R7
	ADD   R7, DST

	// The window's first byte is now command.Amount bytes into its TLB window.
	MOVHU command_Window(CMD), R9
	MOVD  Walk_TLBWindows(WALK), R7
	MOVD  (R7)(R9<<3), R7
	MOVWU command_Amount(CMD), R10
	ADD   R10, R7
	MOVD  R7, (WINDOWS)(R9<<3)

	// The values of the registers.
	MOVD  command_Value(CMD), VALUE
	MOVD  command_Mask(CMD), R9

	// Barrier: earlier stores through the TLB window must arrive where it still points.
	DSB   $15
	CMP   $4, WIDTH
	BEQ   programWindow4

	// One register of 8 bytes. The load returns after the store has taken effect.
	// Barrier: later accesses must not start before that load.
	MOVD  VALUE, (DST)
	MOVD  (DST), VALUE
	DSB   $15
	ADVANCE

	// Three registers of 4 bytes, the lowest address first, and a load of the last.
programWindow4:
	MOVW  VALUE, (DST)
	LSR   $32, VALUE
	MOVW  VALUE, 4(DST)
	MOVW  R9, 8(DST)
	MOVWU 8(DST), VALUE
	DSB   $15
	ADVANCE

// Expect, after the load: go on if the mode is Equal, the masked value is
// command.Value, and the value is not all ones (SCRATCH). Otherwise Go decides.
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

// Stop after the load of an Expect or Modify, with the loaded value in Walk.Got.
loaded:
	MOVD VALUE, Walk_Got(WALK)
	MOVD $const_Loaded, R9
	B    stopWithReason

// Stop a Compare at the first element that differs. Its offset is command.Amount
// minus the bytes that are left.
mismatch:
	MOVD  VALUE, Walk_Got(WALK)
	MOVD  WANT, Walk_Want(WALK)
	MOVWU command_Amount(CMD), R5
	SUB   LEFT, R5
	MOVD  R5, Walk_MismatchOffset(WALK)
	MOVD  $const_Mismatch, R9
	B     stopWithReason

// One access of a bulk copy, of BYTES (1 << BIT) bytes, if that bit is set in OF:
// TO_ALIGN before the loop, LEFT after it. ON is the next step. If fewer than BYTES
// bytes are left, go to the tail.
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

// Bulk copy: the lowest address first, each access naturally aligned on the device,
// none overlapping another. First single accesses up to an address that is a
// multiple of 16.
bulk:
	NEG TO_ALIGN, TO_ALIGN
BULK_STEP(align1, MOVBU, MOVB, 1, 0, TO_ALIGN, align2)
BULK_STEP(align2, MOVHU, MOVH, 2, 1, TO_ALIGN, align4)
BULK_STEP(align4, MOVWU, MOVW, 4, 2, TO_ALIGN, align8)
BULK_STEP(align8, MOVD, MOVD, 8, 3, TO_ALIGN, aligned)

// Then 32 bytes at a time. Subtracting 32 does not change the lower five bits of
// LEFT: after the loop, which ends below zero, they still count the bytes that are
// left.
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

// Then 16, 8, 4, 2 and 1 bytes, as the bits of LEFT require.
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

// A copy or fill is done. A device that is gone reads all ones: if the last byte of
// a CopyOut is 0xff, stop, and Go checks the device.
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
