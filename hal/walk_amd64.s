// This file implements Walk.Run for amd64. It executes commands on mapped memory exactly as
// the Go function walkGeneric in oracle.go does. If a label has the name of a Go function
// in oracle.go, the code after the label does the same as that function.
//
// Each load from the device and each store to it is one instruction, exactly as wide as the
// command requires. Only bulk copies use wider instructions. Images use bulk copies only
// for ranges of the device that are memory. The processor makes each access to uncached
// memory exactly once, in program order (Intel SDM volume 3A, "Methods of Caching
// Available").

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers that keep their contents for all commands.
#define CMD SI      // Walk.Next: address of the current command
#define WINDOWS R8  // Walk.Windows: table of the windows' addresses
#define MEMORIES R9 // Walk.Memories: table of the buffers' addresses
#define WALK R10    // address of the Walk
#define STOP R12    // Walk.StopAt: the walk returns when CMD equals this address

// Registers with contents that each command sets. One register may have several names.
#define OPCODE DX    // command.Opcode; only decode and withoutAccess use it
#define WIDTH CX     // command.Width
#define DST DI       // address of the next store; in Expect and Compare, of the next load
#define SRC BX       // address of the next load; in Compare, of the next golden element
#define DST_STEP DX  // number of bytes added to DST after each access
#define SRC_STEP R13 // number of bytes added to SRC after each access
#define AMOUNT AX    // command.Amount; in a bulk copy, the number of bytes left
#define LEFT R11     // number of bytes left in the range; a bulk copy counts in AMOUNT instead
#define TO_ALIGN R11 // bulk copy: its lower 5 bits are the number of bytes up to a multiple of 32
#define VALUE AX     // value that is loaded or stored
#define WANT DX      // Compare: the golden element, which must equal VALUE

// Begin to execute the command at CMD. Return if CMD is Walk.StopAt. Otherwise load the first
// four bytes of the command: opcode, width, mode and option. A Write of 4 bytes is the most
// frequent command, and its mode and option are 0. Therefore compare all four bytes with
// that command first. Jump to the label `decode` for all other commands.
#define DISPATCH \
	CMPQ CMD, STOP          \
	JEQ  stop               \
	MOVL (CMD), AX          \
	CMPL AX, $(const_opWrite | 4<<8) \
	JEQ  write4             \
	JMP  decode

// Go on to the next command. Store the address of that command to Walk.Next before
// executing the command: if an access faults, Walk.Next then points to the command that
// made the access.
#define ADVANCE \
	ADDQ $command__size, CMD   \
	MOVQ CMD, Walk_Next(WALK)  \
	DISPATCH

// Set DST to the address at which the command accesses the device: the address of the
// window's first byte plus command.Offset. If the address of the window is 0, the window is
// not mapped. In that case return to Go, which executes the command through the window's
// Port.
#define DEVICE_ADDRESS \
	MOVWLZX command_Window(CMD), R11 \
	MOVQ    (WINDOWS)(R11*8), R11    \
	MOVL    command_Offset(CMD), DST \
	TESTQ   R11, R11                 \
	JEQ     stop                     \
	ADDQ    R11, DST

// Set the register AT to the address of the command's data in host memory: entry
// command.Index of Walk.Memories plus command.Value. The function commandMemory in
// oracle.go does the same.
#define MEMORY_ADDRESS(AT) \
	MOVWLZX command_Index(CMD), AT \
	MOVQ    (MEMORIES)(AT*8), AT   \
	ADDQ    command_Value(CMD), AT

// Jump to W1, W2, W4 or W8 if the command's width is 1, 2, 4 or 8 bytes.
#define JUMP_BY_WIDTH(W1, W2, W4, W8) \
	CMPL WIDTH, $4 \
	JEQ  W4        \
	CMPL WIDTH, $8 \
	JEQ  W8        \
	CMPL WIDTH, $2 \
	JEQ  W2        \
	JMP  W1

// func walk(w *Walk)
TEXT ·walk(SB), NOSPLIT, $0-8
	// Load the fields of the Walk into registers. Set Walk.StopReason to 0, which is
	// StopUnhandled. Code that stops the walk for another reason overwrites the field.
	MOVQ w+0(FP), WALK
	MOVQ Walk_Next(WALK), CMD
	MOVQ Walk_Windows(WALK), WINDOWS
	MOVQ Walk_Memories(WALK), MEMORIES
	MOVQ Walk_StopAt(WALK), STOP
	MOVQ $0, Walk_StopReason(WALK)
	DISPATCH

// Write of 4 bytes: store the lower 4 bytes of command.Value to the device.
write4:
	DEVICE_ADDRESS
	MOVL command_Value(CMD), VALUE
	MOVL VALUE, (DST)
	ADVANCE

// Jump to the code for the command's opcode. AX contains the first four bytes of the
// command; the lowest byte is the opcode. Commands with an opcode below Point access a
// window. For those, set DST and AMOUNT first.
decode:
	MOVBLZX command_Width(CMD), WIDTH
	MOVBLZX AX, OPCODE
	CMPL    OPCODE, $const_opPoint
	JCC     withoutAccess
	DEVICE_ADDRESS
	MOVL    command_Amount(CMD), AMOUNT
	CMPL    OPCODE, $const_opExpect
	JEQ     expect
	CMPL    OPCODE, $const_opCopyIn
	JEQ     copyIn
	CMPL    OPCODE, $const_opWrite
	JEQ     write
	CMPL    OPCODE, $const_opCompare
	JEQ     compare
	CMPL    OPCODE, $const_opCopyOut
	JEQ     copyOut
	CMPL    OPCODE, $const_opFill
	JEQ     fill
	CMPL    OPCODE, $const_opModify
	JEQ     expect // the mode is 0, not Equal: the walk stops after the load; Go makes the store
	RET // any other opcode: stop with the reason StopUnhandled

// The opcode is Point or higher. The processor flags are still the result of the comparison
// with Point. Execute Point and Fence; stop at all other commands, which Go executes. For
// Fence, MFENCE completes all earlier accesses before any later access starts.
withoutAccess:
	JEQ  programWindow
	CMPL OPCODE, $const_opFence
	JNE  stop
	MFENCE
	ADVANCE

// Write of 1, 2 or 8 bytes. If the width is 8, store command.Value once. If the width is 1
// or 2, jump to the code for Fill. command.Amount of a Write is 0; therefore the loop of
// Fill ends after one store.
write:
	CMPL WIDTH, $8
	JNE  fill
	MOVQ command_Value(CMD), VALUE
	MOVQ VALUE, (DST)
	ADVANCE

// Begin to copy AMOUNT bytes from SRC to DST. DEVICE is the register with the address on the
// device, SRC or DST. STEP is the step register of DEVICE: SRC_STEP or DST_STEP. If the mode
// is Bulk, jump to the label `bulkCopy`, with the address on the device in TO_ALIGN. If the
// mode is Fixed, set STEP to 0, so that all accesses use the same address on the device.
// Otherwise set STEP to the width. Then jump to the label `copy`.
#define START_COPY(DEVICE, STEP) \
	MOVQ DEVICE, TO_ALIGN                 \
	CMPB command_Mode(CMD), $const_accessBulk   \
	JEQ  bulkCopy                             \
	MOVQ WIDTH, STEP                      \
	CMPB command_Mode(CMD), $const_accessFixed  \
	JNE  copy                             \
	XORL STEP, STEP                       \
	JMP  copy

// CopyIn: copy from the command's data in host memory to the device.
copyIn:
	MEMORY_ADDRESS(SRC)
	MOVQ WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// Fill: store command.Value to each element of the range. SRC_STEP is 0, so that the copy
// loads command.Value again for each element.
fill:
	LEAQ command_Value(CMD), SRC
	XORL SRC_STEP, SRC_STEP
	START_COPY(DST, DST_STEP)

// CopyOut: copy from the device to the command's data in host memory.
copyOut:
	MOVQ DST, SRC
	MEMORY_ADDRESS(DST)
	MOVQ WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

// Copy AMOUNT bytes from SRC to DST by accesses of the command's width.
copy:
	MOVQ AMOUNT, LEFT
	JUMP_BY_WIDTH(copy1, copy2, copy4, copy8)

// Expect: load one value from the device and compare it with command.Value. For a Modify,
// this code only makes the load.
expect:
	JUMP_BY_WIDTH(expect1, expect2, expect4, expect8)

// Compare: load each element of a range of the device, and compare it with the golden data.
// The golden data are the command's data in host memory.
compare:
	MEMORY_ADDRESS(SRC)
	MOVQ AMOUNT, LEFT
	JUMP_BY_WIDTH(compare1, compare2, compare4, compare8)

// Define the labels COPY, EXPECT and COMPARE, whose code makes accesses of BYTES bytes.
// LOAD and STORE are the instructions for an access of that width. CMP_ONES compares a
// value of that width, with all ones as its other operand.
//
// COPY: load an element from SRC and store it to DST, until LEFT bytes are copied.
//
// EXPECT: load a value from the device. Go on to the next command if the mode is Equal, the
// value masked with command.Mask equals command.Value, and the value is not all ones. A
// device that is gone returns all ones. In all other cases stop, and Go evaluates the
// value.
//
// COMPARE: load an element from the device and an element of the golden data, until LEFT
// bytes are compared. Stop if two elements differ.
#define ACCESS_LOOPS(BYTES, LOAD, STORE, CMP_ONES, COPY, EXPECT, COMPARE) \
COPY:                            \
	LOAD  (SRC), VALUE           \
	STORE VALUE, (DST)           \
	ADDQ  SRC_STEP, SRC          \
	ADDQ  DST_STEP, DST          \
	SUBQ  $BYTES, LEFT           \
	JHI   COPY                   \
	JMP   copyDone               \
EXPECT:                          \
	LOAD (DST), VALUE            \
	CMP_ONES VALUE, $-1          \
	JEQ  stopLoaded                  \
	CMPB command_Mode(CMD), $const_conditionEqual \
	JNE  stopLoaded                  \
	MOVQ VALUE, DX               \
	ANDQ command_Mask(CMD), DX   \
	CMPQ DX, command_Value(CMD)  \
	JNE  stopLoaded                  \
	ADVANCE                      \
COMPARE:                         \
	LOAD (DST), VALUE            \
	LOAD (SRC), WANT             \
	CMPQ VALUE, WANT             \
	JNE  stopMismatch                \
	ADDQ $BYTES, DST             \
	ADDQ $BYTES, SRC             \
	SUBQ $BYTES, LEFT            \
	JHI  COMPARE                 \
	ADVANCE

ACCESS_LOOPS(4, MOVL, MOVL, CMPL, copy4, expect4, compare4)
ACCESS_LOOPS(8, MOVQ, MOVQ, CMPQ, copy8, expect8, compare8)
ACCESS_LOOPS(2, MOVWLZX, MOVW, CMPW, copy2, expect2, compare2)
ACCESS_LOOPS(1, MOVBLZX, MOVB, CMPB, copy1, expect1, compare1)

// Point: program a TLB window. EncodeWindow has put the values of the TLB window's
// registers into the command: store them, and set the window's entry in Walk.Windows to the
// window's new address. If the width is 0, EncodeWindow has not encoded this command; stop,
// and Go executes it.
programWindow:
	TESTL   WIDTH, WIDTH
	JEQ     stop

	// Set DST to the address of the TLB window's registers: entry command.Index of
	// Walk.Windows plus command.Offset. Set DX to the new address of the window: entry
	// command.Window of Walk.TLBWindows plus command.Amount.
	MOVWLZX command_Index(CMD), R11
	MOVQ    (WINDOWS)(R11*8), DST
	MOVL    command_Offset(CMD), AX
	MOVWLZX command_Window(CMD), BX
	MOVQ    Walk_TLBWindows(WALK), DX
	MOVQ    (DX)(BX*8), DX
	MOVL    command_Amount(CMD), R11
	ADDQ    AX, DST
	ADDQ    R11, DX

	// Load the values for the TLB window's registers: command.Value has the value of the
	// single 8-byte register, or of the first two 4-byte registers. command.Mask has the
	// value of the third 4-byte register, if there is one.
	MOVQ    command_Value(CMD), VALUE
	MOVQ    command_Mask(CMD), R13

	// Set the window's entry in Walk.Windows to the new address of the window.
	MOVQ    DX, (WINDOWS)(BX*8)

	// Barrier: earlier accesses through the TLB window must be complete before its
	// registers change. Otherwise such an access could reach the new address of the tile.
	MFENCE
	CMPL    WIDTH, $4
	JEQ     programWindow4

	// The TLB window has one register of 8 bytes. Store it, then load it: the load returns
	// only after the store has taken effect. The barrier delays later accesses until the
	// load has returned.
	MOVQ    VALUE, (DST)
	MOVQ    (DST), VALUE
	MFENCE
	ADVANCE

	// The TLB window has three registers of 4 bytes. Store them in the order of their
	// addresses, then load the last one: the load returns only after the stores have taken
	// effect. The barrier delays later accesses until the load has returned.
programWindow4:
	MOVL    VALUE, (DST)
	SHRQ    $32, VALUE
	MOVL    VALUE, 4(DST)
	MOVL    R13, 8(DST)
	MOVL    8(DST), VALUE
	MFENCE
	ADVANCE

// Stop after the load of an Expect or Modify. Store the loaded value to Walk.Got, so that
// Go can finish the command.
stopLoaded:
	MOVQ VALUE, Walk_Got(WALK)
	MOVQ $const_StopLoaded, Walk_StopReason(WALK)
	RET

// Stop a Compare at the first element that differs from the golden data. LEFT is the number
// of bytes from the beginning of this element to the end of the range. Therefore the offset
// of the element in the range is command.Amount minus LEFT.
stopMismatch:
	MOVQ VALUE, Walk_Got(WALK)
	MOVQ WANT, Walk_Want(WALK)
	MOVL command_Amount(CMD), AX
	SUBQ LEFT, AX
	MOVQ AX, Walk_MismatchOffset(WALK)
	MOVQ $const_StopMismatch, Walk_StopReason(WALK)
	RET

// One step of a bulk copy: copy BYTES bytes if the bit with the value BYTES is set in the
// register BITS; otherwise jump to NEXT, the label of the next step. NAME is the label of
// this step. The instruction MOVE loads the bytes into the register VIA, and then stores
// them. BITS is TO_ALIGN in the steps before the loops, and AMOUNT in the steps after them.
//
// A step before the loops jumps to the label `bulkTail` if fewer than BYTES bytes are left. A
// step after the loops never jumps there: if its bit is set, at least BYTES bytes are left.
// AMOUNT may then be negative, but the comparison is unsigned, so a negative number counts
// as a large one.
#define BULK_STEP(NAME, MOVE, VIA, BYTES, BITS, NEXT) \
NAME:                       \
	TESTQ $BYTES, BITS      \
	JEQ   NEXT              \
	CMPQ  AMOUNT, $BYTES    \
	JCS   bulkTail              \
	MOVE  (SRC), VIA        \
	MOVE  VIA, (DST)        \
	ADDQ  $BYTES, SRC       \
	ADDQ  $BYTES, DST       \
	SUBQ  $BYTES, AMOUNT

// A loop that copies 128 bytes in each round, through the AVX registers Y0 to Y3. NAME is
// the label of the loop. STORE is the store instruction. AMOUNT is the number of bytes left
// minus 128, and the loop ends when it falls below 0. SUBQ $-128 adds 128, and is a shorter
// instruction than ADDQ $128.
#define COPY_BY_128(NAME, STORE) \
NAME:                        \
	VMOVDQU (SRC), Y0        \
	VMOVDQU 32(SRC), Y1      \
	VMOVDQU 64(SRC), Y2      \
	VMOVDQU 96(SRC), Y3      \
	STORE   Y0, (DST)        \
	STORE   Y1, 32(DST)      \
	STORE   Y2, 64(DST)      \
	STORE   Y3, 96(DST)      \
	SUBQ    $-128, SRC       \
	SUBQ    $-128, DST       \
	SUBQ    $128, AMOUNT     \
	JCC     NAME

// STREAM_MIN is a number of bytes. A CopyIn uses non-temporal stores if at least STREAM_MIN + 128
// bytes are left when the address on the device is aligned. Ordinary stores would have two
// disadvantages if the destination is cached memory, such as a Host window: they would
// evict other data from the cache, and the processor would read the memory before
// overwriting it.
#define STREAM_MIN $(4<<20)

// Bulk copy of AMOUNT bytes from SRC to DST. Addresses increase, accesses do not overlap,
// and each access is naturally aligned on the device. First copy up to 31 bytes, by
// accesses of 1 to 16 bytes, until the address on the device is a multiple of 32. After
// NEGQ, the lower five bits of TO_ALIGN are the number of bytes up to that address.
bulkCopy:
	NEGQ  TO_ALIGN
	TESTQ $31, TO_ALIGN
	JEQ   bulkAligned
BULK_STEP(align1, MOVB, DX, 1, TO_ALIGN, align2)
BULK_STEP(align2, MOVW, DX, 2, TO_ALIGN, align4)
BULK_STEP(align4, MOVL, DX, 4, TO_ALIGN, align8)
BULK_STEP(align8, MOVQ, DX, 8, TO_ALIGN, align16)
BULK_STEP(align16, MOVOU, X0, 16, TO_ALIGN, bulkAligned)

// Then copy 128 bytes at a time, if the processor has AVX. A large CopyIn uses non-temporal
// stores. From here on, AMOUNT is the number of bytes left minus 128 or minus 32. Its lower
// five bits are still those of the number of bytes left, because 128 and 32 are multiples
// of 32.
bulkAligned:
	SUBQ $128, AMOUNT
	JCS  copyBelow128
	CMPB ·hasAVX(SB), $0
	JEQ  copyBelow128
	CMPQ AMOUNT, STREAM_MIN
	JCS  copyBy128
	CMPB (CMD), $const_opCopyIn
	JNE  copyBy128
	COPY_BY_128(copyBy128Streaming, VMOVNTDQ)
	// Barrier: without SFENCE, the processor may make later stores before these
	// non-temporal stores.
	SFENCE
	JMP  copyBy128Done
	COPY_BY_128(copyBy128, VMOVDQU)
copyBy128Done:
	VZEROUPPER

// Then copy 32 bytes at a time. AMOUNT is the number of bytes left minus 128. Adding 96
// makes it the number of bytes left minus 32. The loop ends when it falls below 0.
copyBelow128:
	ADDQ  $96, AMOUNT
	JLT   bulkTail
copyBy32:
	MOVOU (SRC), X0
	MOVOU 16(SRC), X1
	MOVOU X0, (DST)
	MOVOU X1, 16(DST)
	ADDQ  $32, SRC
	ADDQ  $32, DST
	SUBQ  $32, AMOUNT
	JCC   copyBy32

// Then copy the remaining 0 to 31 bytes. The lower five bits of AMOUNT are the number of
// these bytes. For each of these bits that is set, make one access of 16, 8, 4, 2 or 1
// bytes.
BULK_STEP(bulkTail, MOVOU, X0, 16, AMOUNT, tail8)
BULK_STEP(tail8, MOVQ, DX, 8, AMOUNT, tail4)
BULK_STEP(tail4, MOVL, DX, 4, AMOUNT, tail2)
BULK_STEP(tail2, MOVW, DX, 2, AMOUNT, tail1)
BULK_STEP(tail1, MOVB, DX, 1, AMOUNT, copyDone)

// A copy or fill is complete. If the last byte of a CopyOut is 0xff, stop with the reason
// StopAllOnes: loads from a device that is gone return all ones, so Go must check the device.
// Otherwise go on to the next command.
copyDone:
	CMPB (CMD), $const_opCopyOut
	JNE  advance
	CMPB -1(DST), $-1
	JEQ  stopAllOnes
advance:
	ADVANCE
stopAllOnes:
	MOVQ $const_StopAllOnes, Walk_StopReason(WALK)

// Return to Go. Walk.StopReason and Walk.Next are set.
stop:
	RET

// func detectAVX() bool
//
// detectAVX reports whether the processor has AVX and the operating system saves the AVX
// registers of each thread (Intel SDM volume 1, "Detection of AVX Instructions").
TEXT ·detectAVX(SB), NOSPLIT, $0-1
	// The bits 27 (OSXSAVE) and 28 (AVX) of CPUID leaf 1, register ECX, must be 1.
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $(1<<27 | 1<<28), CX
	CMPL CX, $(1<<27 | 1<<28)
	JNE  returnResult
	// The bits 1 (SSE) and 2 (AVX) of the register XCR0 must be 1: the operating system
	// saves these registers.
	XORL CX, CX
	XGETBV
	ANDL $6, AX
	CMPL AX, $6
	// Return true if the last comparison found its operands equal.
returnResult:
	SETEQ ret+0(FP)
	RET
