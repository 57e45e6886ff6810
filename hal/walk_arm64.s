// This file implements Walk.Run for arm64. It executes commands on mapped memory exactly as
// the Go function walkGeneric in oracle.go does. If a label has the name of a Go function
// in oracle.go, the code after the label does the same as that function.
//
// Each load from the device and each store to it is one instruction, exactly as wide as the
// command requires. Each access is naturally aligned, because an unaligned access to memory
// of type Device faults (Arm ARM, "Device memory").
//
// No access uses an addressing mode that also changes the address register (write-back). If
// a hypervisor emulates the device, the processor reports each access to the hypervisor,
// but reports no width and register for an access with write-back (Arm ARM, ISS encoding of
// Data Aborts, ISV). The same is true of the instructions that load or store a pair of
// registers. Therefore only bulk copies use instructions for pairs. Images use bulk copies
// only for ranges of the device that are memory.

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers that keep their contents for all commands.
#define WALK R0     // address of the Walk
#define CMD R1      // Walk.Next: address of the current command
#define WINDOWS R2  // Walk.Windows: table of the windows' addresses
#define MEMORIES R3 // Walk.Memories: table of the buffers' addresses
#define STOP R4     // Walk.StopAt: the walk returns when CMD equals this address
#define WRITE4 R17  // constant: the first four bytes of a Write of 4 bytes

// Registers with contents that each command sets. One register may have several names.
#define OPCODE R5    // command.Opcode; only decode, withoutAccess and copyDone use it
#define VALUE R5     // value that is loaded or stored
#define WIDTH R6     // command.Width
#define MODE R7      // command.Mode
#define DST R8       // address of the next store; in Expect and Compare, of the next load
#define SRC R9       // address of the next load; in Compare, of the next golden element
#define LEFT R10     // number of bytes left in the range
#define DST_STEP R11 // number of bytes added to DST after each access
#define SRC_STEP R12 // number of bytes added to SRC after each access
#define TO_ALIGN R13 // bulk copy: its lower 4 bits are the number of bytes up to a multiple of 16
#define WANT R11     // Compare: the golden element, which must equal VALUE
#define SCRATCH R9   // temporary value

// Begin to execute the command at CMD. Return if CMD is Walk.StopAt. Otherwise load the first
// four bytes of the command: opcode, width, mode and option. A Write of 4 bytes is the most
// frequent command, and its mode and option are 0. Therefore compare all four bytes with
// that command first. Jump to the label `decode` for all other commands.
#define DISPATCH \
	CMP   STOP, CMD          \
	BEQ   stop               \
	MOVWU (CMD), VALUE       \
	CMP   WRITE4, VALUE      \
	BEQ   write4             \
	B     decode

// Go on to the next command. Store the address of that command to Walk.Next before
// executing the command: if an access faults, Walk.Next then points to the command that
// made the access.
#define ADVANCE \
	ADD  $command__size, CMD   \
	MOVD CMD, Walk_Next(WALK)  \
	DISPATCH

// Set DST to the address at which the command accesses the device: the address of the
// window's first byte plus command.Offset. If the address of the window is 0, the window is
// not mapped. In that case return to Go, which executes the command through the window's
// Port.
#define DEVICE_ADDRESS \
	MOVHU command_Window(CMD), SCRATCH       \
	MOVD  (WINDOWS)(SCRATCH<<3), SCRATCH     \
	MOVWU command_Offset(CMD), DST           \
	CBZ   SCRATCH, stop                      \
	ADD   SCRATCH, DST

// Set the register AT to the address of the command's data in host memory: entry
// command.Index of Walk.Memories plus command.Value. The function commandMemory in
// oracle.go does the same.
#define MEMORY_ADDRESS(AT) \
	MOVHU command_Index(CMD), AT   \
	MOVD  (MEMORIES)(AT<<3), AT    \
	MOVD  command_Value(CMD), R5   \
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

// func walk(w *Walk)
TEXT ·walk(SB), NOSPLIT, $0-8
	// Load the fields of the Walk into registers. Set Walk.StopReason to 0, which is
	// StopUnhandled. Code that stops the walk for another reason overwrites the field.
	MOVD w+0(FP), WALK
	MOVD Walk_Next(WALK), CMD
	MOVD Walk_Windows(WALK), WINDOWS
	MOVD Walk_Memories(WALK), MEMORIES
	MOVD Walk_StopAt(WALK), STOP
	MOVD ZR, Walk_StopReason(WALK)
	MOVD $(const_opWrite | 4<<8), WRITE4
	DISPATCH

// Write of 4 bytes: store the lower 4 bytes of command.Value to the device.
write4:
	DEVICE_ADDRESS
	MOVWU command_Value(CMD), VALUE
	MOVW  VALUE, (DST)
	ADVANCE

// Jump to the code for the command's opcode. Commands with an opcode below Point access a
// window. For those, set DST, LEFT and MODE first.
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
	BEQ   expect // the mode is 0, not Equal: the walk stops after the load; Go makes the store
	RET // any other opcode: stop with the reason StopUnhandled

// The opcode is Point or higher. The processor flags are still the result of the comparison
// with Point. Execute Point and Fence; stop at all other commands, which Go executes.
withoutAccess:
	BEQ programWindow
	CMP $const_opFence, OPCODE
	BNE stop
	// Fence: the operand 15 selects DSB SY, which completes all earlier accesses to memory
	// and devices before any later access starts. Linux uses it as mb()
	// (arch/arm64/include/asm/barrier.h).
	DSB $15
	ADVANCE

// Write of 1, 2 or 8 bytes. If the width is 8, store command.Value once. If the width is 1
// or 2, jump to the code for Fill. command.Amount of a Write is 0; therefore the loop of
// Fill ends after one store.
write:
	CMP  $8, WIDTH
	BNE  fill
	MOVD command_Value(CMD), VALUE
	MOVD VALUE, (DST)
	ADVANCE

// Begin to copy LEFT bytes from SRC to DST. DEVICE is the register with the address on the
// device, SRC or DST. STEP is the step register of DEVICE: SRC_STEP or DST_STEP. If the mode
// is Bulk, jump to the label `bulkCopy`, with the address on the device in TO_ALIGN. If the
// mode is Fixed, set STEP to 0, so that all accesses use the same address on the device.
// Otherwise set STEP to the width. Then jump to the label `copy`.
#define START_COPY(DEVICE, STEP) \
	MOVD DEVICE, TO_ALIGN   \
	CMP  $const_accessBulk, MODE  \
	BEQ  bulkCopy               \
	MOVD WIDTH, STEP        \
	CMP  $const_accessFixed, MODE \
	BNE  copy               \
	MOVD ZR, STEP           \
	B    copy

// CopyIn: copy from the command's data in host memory to the device.
copyIn:
	MEMORY_ADDRESS(SRC)
	MOVD WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// Fill: store command.Value to each element of the range. SRC_STEP is 0, so that the copy
// loads command.Value again for each element.
fill:
	ADD  $command_Value, CMD, SRC
	MOVD ZR, SRC_STEP
	START_COPY(DST, DST_STEP)

// CopyOut: copy from the device to the command's data in host memory.
copyOut:
	MOVD DST, SRC
	MEMORY_ADDRESS(DST)
	MOVD WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

// Copy LEFT bytes from SRC to DST by accesses of the command's width.
copy:
	JUMP_BY_WIDTH(copy1, copy2, copy4, copy8)

// Expect: load one value from the device and compare it with command.Value. For a Modify,
// this code only makes the load.
expect:
	JUMP_BY_WIDTH(expect1, expect2, expect4, expect8)

// Compare: load each element of a range of the device, and compare it with the golden data.
// The golden data are the command's data in host memory.
compare:
	MEMORY_ADDRESS(SRC)
	JUMP_BY_WIDTH(compare1, compare2, compare4, compare8)

// Define the labels COPY, EXPECT and COMPARE, whose code makes accesses of BYTES bytes.
// LOAD and STORE are the instructions for an access of that width. ONES is the value of
// that width with all bits set.
//
// COPY: load an element from SRC and store it to DST, until LEFT bytes are copied.
//
// EXPECT: load a value from the device and jump to checkCondition, with ONES in SCRATCH.
//
// COMPARE: load an element from the device and an element of the golden data, until LEFT
// bytes are compared. Stop if two elements differ.
#define ACCESS_LOOPS(BYTES, LOAD, STORE, ONES, COPY, EXPECT, COMPARE) \
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
	BNE   stopMismatch         \
	ADD   $BYTES, DST      \
	ADD   $BYTES, SRC      \
	SUBS  $BYTES, LEFT     \
	BHI   COMPARE          \
	ADVANCE

ACCESS_LOOPS(1, MOVBU, MOVB, 0xff, copy1, expect1, compare1)
ACCESS_LOOPS(2, MOVHU, MOVH, 0xffff, copy2, expect2, compare2)
ACCESS_LOOPS(4, MOVWU, MOVW, 0xffffffff, copy4, expect4, compare4)
ACCESS_LOOPS(8, MOVD, MOVD, -1, copy8, expect8, compare8)

// Point: program a TLB window. EncodeWindow has put the values of the TLB window's
// registers into the command: store them, and set the window's entry in Walk.Windows to the
// window's new address. If the width is 0, EncodeWindow has not encoded this command; stop,
// and Go executes it.
programWindow:
	CBZ   WIDTH, stop

	// Set DST to the address of the TLB window's registers: entry command.Index of
	// Walk.Windows plus command.Offset.
	MOVHU command_Index(CMD), R7
	MOVD  (WINDOWS)(R7<<3), DST
	MOVWU command_Offset(CMD), R7
	ADD   R7, DST

	// Set the window's entry in Walk.Windows to the new address of the window: entry
	// command.Window of Walk.TLBWindows plus command.Amount.
	MOVHU command_Window(CMD), R9
	MOVD  Walk_TLBWindows(WALK), R7
	MOVD  (R7)(R9<<3), R7
	MOVWU command_Amount(CMD), R10
	ADD   R10, R7
	MOVD  R7, (WINDOWS)(R9<<3)

	// Load the values for the TLB window's registers: command.Value has the value of the
	// single 8-byte register, or of the first two 4-byte registers. command.Mask has the
	// value of the third 4-byte register, if there is one.
	MOVD  command_Value(CMD), VALUE
	MOVD  command_Mask(CMD), R9

	// Barrier: earlier accesses through the TLB window must be complete before its
	// registers change. Otherwise such an access could reach the new address of the tile.
	DSB   $15
	CMP   $4, WIDTH
	BEQ   programWindow4

	// The TLB window has one register of 8 bytes. Store it, then load it: the load returns
	// only after the store has taken effect. The barrier delays later accesses until the
	// load has returned.
	MOVD  VALUE, (DST)
	MOVD  (DST), VALUE
	DSB   $15
	ADVANCE

	// The TLB window has three registers of 4 bytes. Store them in the order of their
	// addresses, then load the last one: the load returns only after the stores have taken
	// effect. The barrier delays later accesses until the load has returned.
programWindow4:
	MOVW  VALUE, (DST)
	LSR   $32, VALUE
	MOVW  VALUE, 4(DST)
	MOVW  R9, 8(DST)
	MOVWU 8(DST), VALUE
	DSB   $15
	ADVANCE

// Finish an Expect after its load. Continue with the next command if the mode is Equal, the masked
// value equals command.Value, and the value is not all ones, which the register SCRATCH contains. A
// missing device returns all ones. In all other cases, return to the Go code, which evaluates the
// value.
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

// Stop after the load of an Expect or Modify. Store the loaded value to Walk.Got, so that
// Go can finish the command.
stopLoaded:
	MOVD VALUE, Walk_Got(WALK)
	MOVD $const_StopLoaded, R9
	B    stopWithReason

// Stop a Compare at the first element that differs from the golden data. LEFT is the number
// of bytes from the beginning of this element to the end of the range. Therefore the offset
// of the element in the range is command.Amount minus LEFT.
stopMismatch:
	MOVD  VALUE, Walk_Got(WALK)
	MOVD  WANT, Walk_Want(WALK)
	MOVWU command_Amount(CMD), R5
	SUB   LEFT, R5
	MOVD  R5, Walk_MismatchOffset(WALK)
	MOVD  $const_StopMismatch, R9
	B     stopWithReason

// One step of a bulk copy: copy BYTES bytes, by one load and one store, if the bit with the
// number BIT is set in the register BITS; otherwise jump to NEXT, the label of the next
// step. BYTES is the value of that bit. NAME is the label of this step. BITS is TO_ALIGN in
// the steps before the loop, and LEFT in the steps after it.
//
// A step before the loop jumps to the label `bulkTail` if fewer than BYTES bytes are left. A
// step after the loop never jumps there: if its bit is set, at least BYTES bytes are left.
// LEFT may then be negative, but the comparison is unsigned, so a negative number counts as
// a large one.
#define BULK_STEP(NAME, LOAD, STORE, BYTES, BIT, BITS, NEXT) \
NAME:                       \
	TBZ   $BIT, BITS, NEXT  \
	CMP   $BYTES, LEFT      \
	BLO   bulkTail              \
	LOAD  (SRC), VALUE      \
	STORE VALUE, (DST)      \
	ADD   $BYTES, SRC       \
	ADD   $BYTES, DST       \
	SUB   $BYTES, LEFT

// Bulk copy of LEFT bytes from SRC to DST. Addresses increase, accesses do not overlap, and
// each access is naturally aligned on the device. First copy up to 15 bytes, by accesses of
// 1 to 8 bytes, until the address on the device is a multiple of 16. After NEG, the lower
// four bits of TO_ALIGN are the number of bytes up to that address.
bulkCopy:
	NEG TO_ALIGN, TO_ALIGN
BULK_STEP(align1, MOVBU, MOVB, 1, 0, TO_ALIGN, align2)
BULK_STEP(align2, MOVHU, MOVH, 2, 1, TO_ALIGN, align4)
BULK_STEP(align4, MOVWU, MOVW, 4, 2, TO_ALIGN, align8)
BULK_STEP(align8, MOVD, MOVD, 8, 3, TO_ALIGN, bulkAligned)

// Then copy 32 bytes at a time. From here on, LEFT is the number of bytes left minus 32,
// and the loop ends when it falls below 0. The lower five bits of LEFT are still those of
// the number of bytes left, because subtracting 32 does not change them.
bulkAligned:
	SUBS $32, LEFT
	BLO  bulkTail
copyBy32:
	LDP  0(SRC), (R5, R6)
	LDP  16(SRC), (R7, R11)
	STP  (R5, R6), 0(DST)
	STP  (R7, R11), 16(DST)
	ADD  $32, SRC
	ADD  $32, DST
	SUBS $32, LEFT
	BHS  copyBy32

// Then copy the remaining 0 to 31 bytes. The lower five bits of LEFT are the number of
// these bytes. For each of these bits that is set, make one access of 16, 8, 4, 2 or 1
// bytes.
bulkTail:
	TBZ  $4, LEFT, tail8
	LDP  (SRC), (R5, R6)
	STP  (R5, R6), (DST)
	ADD  $16, SRC
	ADD  $16, DST
BULK_STEP(tail8, MOVD, MOVD, 8, 3, LEFT, tail4)
BULK_STEP(tail4, MOVWU, MOVW, 4, 2, LEFT, tail2)
BULK_STEP(tail2, MOVHU, MOVH, 2, 1, LEFT, tail1)
BULK_STEP(tail1, MOVBU, MOVB, 1, 0, LEFT, copyDone)

// A copy or fill is complete. If the last byte of a CopyOut is 0xff, stop with the reason
// StopAllOnes: loads from a device that is gone return all ones, so Go must check the device.
// Otherwise go on to the next command.
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
	MOVD $const_StopAllOnes, R9
// Return to Go with the stop reason that is in R9.
stopWithReason:
	MOVD R9, Walk_StopReason(WALK)

// Return to Go. Walk.StopReason and Walk.Next are set.
stop:
	RET
