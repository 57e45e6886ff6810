// This file implements Walk.Run for amd64. It executes commands on mapped memory exactly as the Go
// function walkGeneric in walk_generic.go does.
//
// Each load from the device and each store to it is one instruction, exactly as wide as the
// command requires. Only bulk copies use wider instructions. Images use bulk copies only
// for ranges of the device that are memory. The processor makes each access to uncached
// memory exactly once, in program order (Intel SDM volume 3A, "Methods of Caching
// Available").

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers that keep the same contents for all commands of a walk, except CMD.
#define CMD SI      // Walk.Next: address of the current command
#define WINDOWS R8  // Walk.WindowAddresses: table of the addresses of windows
#define BUFFERS R9  // Walk.BufferAddresses: table of the addresses of buffers in host memory
#define WALK R10    // address of the Walk
#define BUDGET R12  // Walk.Budget: the walk ends when it is not above 0
#define DONE R14    // bytes that are done after this part of an interrupted command; else 0

// Registers whose contents each command sets. One register may have several names.
#define OPCODE DX      // command.Opcode; only jumpByOpcode and pointAndAbove use it
#define WIDTH CX       // command.Width
#define DST DI         // address of the next store; Expect and Compare: address of the next load
#define SRC BX         // address of the next load; Compare: address of the next golden element
#define DST_STEP DX    // number of bytes added to DST after each access
#define SRC_STEP R13   // number of bytes added to SRC after each access
#define AMOUNT AX      // command.Amount; in a bulk copy, the number of bytes left
#define BYTES_LEFT R11 // number of bytes left in the range; bulk copies use AMOUNT instead
#define TO_ALIGN R11   // bulk copy: its lower 5 bits count the bytes to the next multiple of 32
#define VALUE AX       // value that is loaded or stored
#define GOLDEN DX      // Compare: the golden element, which must equal VALUE

// Begin to execute the command at CMD. The processor flags are those of BUDGET: stop if it is not
// above 0. Otherwise load the first four bytes of the command: opcode, width, mode and option. The
// most frequent command is a Write of 4 bytes, whose mode and option are 0. One comparison of all
// four bytes finds this command. For all other commands, jump to the label `jumpByOpcode`.
#define DISPATCH \
	JLE  stop                        \
	MOVL (CMD), AX                   \
	CMPL AX, $(const_opWrite | 4<<8) \
	JEQ  write4                      \
	JMP  jumpByOpcode

// Go on to the next command. First store its address to Walk.Next: if an access of the command
// faults, Walk.Next then points to that command.
#define ADVANCE \
	ADDQ $command__size, CMD      \
	MOVQ CMD, Walk_Next(WALK)     \
	SUBQ $const_commandUs, BUDGET \
	DISPATCH

// Set DST to the address at which the command accesses the device: the address of the window plus
// command.Offset. Stop if the address of the window is 0, because the window is then not mapped. Go
// executes the command through the window's Port.
#define DEVICE_ADDRESS \
	MOVWLZX command_Window(CMD), R11 \
	MOVQ    (WINDOWS)(R11*8), R11    \
	MOVL    command_Offset(CMD), DST \
	TESTQ   R11, R11                 \
	JEQ     stop                     \
	ADDQ    R11, DST

// Set the register AT to the address of the command's data in host memory:
// AT = Walk.BufferAddresses[command.Index] + command.Value
#define HOST_ADDRESS(AT) \
	MOVWLZX command_Index(CMD), AT \
	MOVQ    (BUFFERS)(AT*8), AT    \
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

// func executeWalk(w *Walk)
TEXT ·executeWalk(SB), NOSPLIT, $0-8
	// Load the fields of the Walk into registers. Set Walk.StopReason to 0, which is
	// StopBeforeNext; code that stops the walk for another reason sets another value.
	MOVQ w+0(FP), WALK
	MOVQ Walk_Next(WALK), CMD
	MOVQ Walk_WindowAddresses(WALK), WINDOWS
	MOVQ Walk_BufferAddresses(WALK), BUFFERS
	MOVQ Walk_Budget(WALK), BUDGET
	MOVQ $0, Walk_StopReason(WALK)
	XORL DONE, DONE
	CMPQ Walk_DoneBytes(WALK), $0
	JNE  resume
	TESTQ BUDGET, BUDGET
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
jumpByOpcode:
	MOVBLZX command_Width(CMD), WIDTH
	MOVBLZX AX, OPCODE
	CMPL    OPCODE, $const_opPoint
	JCC     pointAndAbove
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
	JEQ     expect // the mode of a Modify is not Equal, so the walk stops after the load
	JMP     stop // any other opcode: stop with the reason StopBeforeNext

// The opcode is Point or higher. The processor flags are still the result of the comparison
// with Point. Execute Point and Fence; stop at all other commands, which Go executes. For
// Fence, MFENCE completes all earlier accesses before any later access starts.
pointAndAbove:
	JEQ  programWindow
	CMPL OPCODE, $const_opFence
	JNE  stop
	MFENCE
	ADVANCE

// Write of 1, 2 or 8 bytes. If the width is 8, store command.Value. If the width is 1 or 2, use the
// code for Fill: its loop ends after one store, because command.Amount of a Write is 0.
write:
	CMPL WIDTH, $8
	JNE  fill
	MOVQ command_Value(CMD), VALUE
	MOVQ VALUE, (DST)
	ADVANCE

// Begin to copy AMOUNT bytes from SRC to DST. DEVICE is SRC or DST, whichever contains the address
// on the device. STEP is SRC_STEP or DST_STEP accordingly.
//
// Mode Bulk: set TO_ALIGN to the address on the device, and jump to the label `bulkCopy`.
//
// Mode Fixed: set STEP to 0, so that all accesses use the same address on the device, and jump to
// the label `copy`.
//
// Any other mode: set STEP to the width, and jump to the label `copy`.
#define START_COPY(DEVICE, STEP) \
	MOVQ DEVICE, TO_ALIGN                      \
	CMPB command_Mode(CMD), $const_accessBulk  \
	JEQ  bulkCopy                              \
	MOVQ WIDTH, STEP                           \
	CMPB command_Mode(CMD), $const_accessFixed \
	JNE  copy                                  \
	XORL STEP, STEP                            \
	JMP  copy

// CopyIn: copy the command's data from host memory to the device.
copyIn:
	HOST_ADDRESS(SRC)
copyInRest:
	MOVQ WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// Fill: store command.Value to each element of the range. With SRC_STEP 0, the copy loop loads
// command.Value for each element.
fill:
	LEAQ command_Value(CMD), SRC
	XORL SRC_STEP, SRC_STEP
	START_COPY(DST, DST_STEP)

// CopyOut: copy from the device to the command's buffer in host memory.
copyOut:
	MOVQ DST, SRC
	HOST_ADDRESS(DST)
copyOutRest:
	MOVQ WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

// Copy AMOUNT bytes from SRC to DST, with accesses of the command's width.
copy:
	MOVQ AMOUNT, BYTES_LEFT
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
	MOVQ AMOUNT, BYTES_LEFT
	JUMP_BY_WIDTH(compare1, compare2, compare4, compare8)

// Continue a command after the first Walk.DoneBytes bytes. Add them to its addresses.
resume:
	TESTQ BUDGET, BUDGET
	JLE   stop
	DEVICE_ADDRESS
	MOVQ  Walk_DoneBytes(WALK), R13
	MOVQ  $0, Walk_DoneBytes(WALK)
	MOVBLZX command_Width(CMD), WIDTH
	MOVL  command_Amount(CMD), AMOUNT
	SUBQ  R13, AMOUNT
	CMPB  command_Mode(CMD), $const_accessFixed
	JEQ   resumeAtDST
	ADDQ  R13, DST
resumeAtDST:
	CMPB  (CMD), $const_opFill
	JEQ   fill
	HOST_ADDRESS(SRC)
	ADDQ  R13, SRC
	CMPB  (CMD), $const_opCopyIn
	JEQ   copyInRest
	CMPB  (CMD), $const_opCompare
	JEQ   compareRest
	MOVQ  SRC, R13
	MOVQ  DST, SRC
	MOVQ  R13, DST
	JMP   copyOutRest

// The accesses that are left, AMOUNT, have been subtracted from BUDGET, but are too many. Set
// AMOUNT to the bytes of one access fewer than the budget was, and DONE to the bytes that are done
// after these. Make these accesses, unless there are none. The budget that is left then does not
// pay for the command, so that the walk stops after them.
interrupt:
	ADDQ  AMOUNT, BUDGET
	LEAQ  -1(BUDGET), AMOUNT
	IMULQ WIDTH, AMOUNT
	MOVL  command_Amount(CMD), DONE
	SUBQ  BYTES_LEFT, DONE
	ADDQ  AMOUNT, DONE
	TESTQ AMOUNT, AMOUNT
	JEQ   stopInterrupted
	CMPB  (CMD), $const_opCompare
	JEQ   compareRest
	JMP   copy

// Define the labels COPY, EXPECT and COMPARE, whose code makes accesses of BYTES bytes, and the
// labels of their loops. SHIFT is the logarithm of BYTES: COPY and COMPARE charge the accesses, and
// jump to the label `interrupt` if the budget does not allow all of them. LOAD and STORE are the
// instructions for an access of that width. CMP is the instruction that compares a value of
// that width; this macro uses it to find a value of all ones.
//
// COPY: load an element from SRC and store it to DST, until BYTES_LEFT bytes are copied.
//
// EXPECT: load a value from the device. Stop if the value is all ones, because a device that is
// gone returns all ones. Stop if the mode is not Equal, or if the value masked with command.Mask
// differs from command.Value. Otherwise go on to the next command.
//
// COMPARE: load an element from the device and an element of the golden data, until BYTES_LEFT
// bytes are compared. Stop if two elements differ.
#define ACCESS_LOOPS(BYTES, SHIFT, LOAD, STORE, CMP, COPY, COPYING, EXPECT, COMPARE, COMPARED) \
COPY:                                             \
	SHRQ  $SHIFT, AMOUNT                          \
	SUBQ  AMOUNT, BUDGET                          \
	JLE   interrupt                               \
COPYING:                                          \
	LOAD  (SRC), VALUE                            \
	STORE VALUE, (DST)                            \
	ADDQ  SRC_STEP, SRC                           \
	ADDQ  DST_STEP, DST                           \
	SUBQ  $BYTES, BYTES_LEFT                      \
	JHI   COPYING                                 \
	JMP   copyDone                                \
EXPECT:                                           \
	LOAD (DST), VALUE                             \
	CMP VALUE, $-1                           \
	JEQ  stopLoaded                               \
	CMPB command_Mode(CMD), $const_conditionEqual \
	JNE  stopLoaded                               \
	MOVQ VALUE, DX                                \
	ANDQ command_Mask(CMD), DX                    \
	CMPQ DX, command_Value(CMD)                   \
	JNE  stopLoaded                               \
	ADVANCE                                       \
COMPARE:                                          \
	SHRQ  $SHIFT, AMOUNT                          \
	SUBQ  AMOUNT, BUDGET                          \
	JLE   interrupt                               \
COMPARED:                                        \
	LOAD (DST), VALUE                             \
	LOAD (SRC), GOLDEN                            \
	CMPQ VALUE, GOLDEN                            \
	JNE  stopMismatch                             \
	ADDQ $BYTES, DST                              \
	ADDQ $BYTES, SRC                              \
	SUBQ $BYTES, BYTES_LEFT                       \
	JHI  COMPARED                                 \
	ADVANCE

ACCESS_LOOPS(4, 2, MOVL, MOVL, CMPL, copy4, copying4, expect4, compare4, comparing4)
ACCESS_LOOPS(8, 3, MOVQ, MOVQ, CMPQ, copy8, copying8, expect8, compare8, comparing8)
ACCESS_LOOPS(2, 1, MOVWLZX, MOVW, CMPW, copy2, copying2, expect2, compare2, comparing2)
ACCESS_LOOPS(1, 0, MOVBLZX, MOVB, CMPB, copy1, copying1, expect1, compare1, comparing1)

// Point: program a TLB window. Store the values that EncodePoint has put into the command to the
// registers of the TLB window. Set the entry of the image's window in Walk.WindowAddresses to its
// new address. Stop if the width is 0: EncodePoint has not encoded this command, and Go executes
// it.
programWindow:
	TESTL   WIDTH, WIDTH
	JEQ     stop
	SUBQ    $const_pointExtraUs, BUDGET

	// DST = WindowAddresses[command.Index] + command.Offset: the address of the TLB window's
	// registers. DX = TLBWindowBases[command.Window] + command.Amount: the new address of the
	// image's window.
	MOVWLZX command_Index(CMD), R11
	MOVQ    (WINDOWS)(R11*8), DST
	MOVL    command_Offset(CMD), AX
	MOVWLZX command_Window(CMD), BX
	MOVQ    Walk_TLBWindowBases(WALK), DX
	MOVQ    (DX)(BX*8), DX
	MOVL    command_Amount(CMD), R11
	ADDQ    AX, DST
	ADDQ    R11, DX

	// Load the values for the TLB window's registers. command.Value contains the value of the
	// single 8-byte register, or the values of the first two 4-byte registers. command.Mask
	// contains the value of the third 4-byte register, if there is one.
	MOVQ    command_Value(CMD), VALUE
	MOVQ    command_Mask(CMD), R13

	// Set the entry of the image's window in Walk.WindowAddresses to its new address.
	MOVQ    DX, (WINDOWS)(BX*8)

	// Barrier: earlier accesses through the TLB window must be complete before its registers
	// change. Otherwise an earlier access could reach the new address.
	MFENCE
	CMPL    WIDTH, $4
	JEQ     programThreeRegisters

	// The TLB window has one register of 8 bytes. Store the value to the register, then load the
	// register: the load returns only after the store has taken effect. The barrier delays later
	// accesses until the load has returned.
	MOVQ    VALUE, (DST)
	MOVQ    (DST), VALUE
	MFENCE
	ADVANCE

	// The TLB window has three registers of 4 bytes. Store the values in the order of the
	// registers' addresses, then load the last register: the load returns only after the stores
	// have taken effect. The barrier delays later accesses until the load has returned.
programThreeRegisters:
	MOVL    VALUE, (DST)
	SHRQ    $32, VALUE
	MOVL    VALUE, 4(DST)
	MOVL    R13, 8(DST)
	MOVL    8(DST), VALUE
	MFENCE
	ADVANCE

// Stop after the load of an Expect or Modify. Store the loaded value to Walk.Got: Go finishes the
// command.
stopLoaded:
	MOVQ VALUE, Walk_Got(WALK)
	MOVQ $const_StopLoaded, Walk_StopReason(WALK)
	JMP  stop

// Stop a Compare at the first element that differs from the golden data. BYTES_LEFT is the number
// of bytes from the beginning of this element to the end of the range, or of its interrupted part,
// which ends at DONE.
stopMismatch:
	MOVQ  VALUE, Walk_Got(WALK)
	MOVQ  GOLDEN, Walk_Want(WALK)
	MOVQ  DONE, AX
	TESTQ DONE, DONE
	JNE   mismatchOffset
	MOVL  command_Amount(CMD), AX
mismatchOffset:
	SUBQ  BYTES_LEFT, AX
	MOVQ  AX, Walk_MismatchOffset(WALK)
	MOVQ  $const_StopMismatch, Walk_StopReason(WALK)
	XORL  DONE, DONE
	JMP   stop

// One step of a bulk copy: copy BYTES bytes if the bit with the value BYTES is set in the register
// BITS; otherwise jump to NEXT, the label of the next step. NAME is the label of this step. The
// instruction MOVE loads the bytes into the register VIA, and then stores them. BITS is TO_ALIGN in
// the steps before the loops, and AMOUNT in the steps after the loops.
//
// The jump to the label `bulkTail` ends the steps before the loops early, if fewer than BYTES bytes
// are left. In the steps after the loops, this jump never happens: AMOUNT is then negative, which
// is a large number in this unsigned comparison, or AMOUNT is at least BYTES.
#define BULK_STEP(NAME, MOVE, VIA, BYTES, BITS, NEXT) \
NAME:                    \
	TESTQ $BYTES, BITS   \
	JEQ   NEXT           \
	CMPQ  AMOUNT, $BYTES \
	JCS   bulkTail       \
	MOVE  (SRC), VIA     \
	MOVE  VIA, (DST)     \
	ADDQ  $BYTES, SRC    \
	ADDQ  $BYTES, DST    \
	SUBQ  $BYTES, AMOUNT

// A loop that copies 128 bytes in each round, through the AVX registers Y0 to Y3. NAME is the label
// of the loop. STORE is the store instruction. AMOUNT is the number of bytes left minus 128; the
// loop ends when AMOUNT falls below 0. SUBQ $-128 adds 128, and is a shorter instruction than ADDQ
// $128.
#define COPY_BY_128(NAME, STORE) \
NAME:                    \
	VMOVDQU (SRC), Y0    \
	VMOVDQU 32(SRC), Y1  \
	VMOVDQU 64(SRC), Y2  \
	VMOVDQU 96(SRC), Y3  \
	STORE   Y0, (DST)    \
	STORE   Y1, 32(DST)  \
	STORE   Y2, 64(DST)  \
	STORE   Y3, 96(DST)  \
	SUBQ    $-128, SRC   \
	SUBQ    $-128, DST   \
	SUBQ    $128, AMOUNT \
	JCC     NAME

// A CopyIn of STREAM_MIN_BYTES or more uses non-temporal stores, which bypass the cache. If the
// destination is cached memory, such as a Host window, many ordinary stores have two disadvantages:
// they evict other data from the cache, and the processor reads the memory before it overwrites it.
#define STREAM_MIN_BYTES $(4<<20)

// Bulk copy of AMOUNT bytes from SRC to DST. Addresses increase, accesses do not overlap, and each
// access is naturally aligned on the device. First copy up to 31 bytes, with accesses of 1 to 16
// bytes, until the address on the device is a multiple of 32. After NEGQ, the lower five bits of
// TO_ALIGN are the number of these bytes.
bulkCopy:
	// WIDTH becomes its logarithm, also on processors without TZCNT, which execute BSF. DX is the
	// number of accesses.
	TZCNTL WIDTH, WIDTH
	MOVQ  AMOUNT, DX
	SHRQ  CX, DX
	SUBQ  DX, BUDGET
	JLE   interruptBulk
bulkPart:
	NEGQ  TO_ALIGN
	TESTQ $31, TO_ALIGN
	JEQ   bulkAligned
BULK_STEP(align1, MOVB, DX, 1, TO_ALIGN, align2)
BULK_STEP(align2, MOVW, DX, 2, TO_ALIGN, align4)
BULK_STEP(align4, MOVL, DX, 4, TO_ALIGN, align8)
BULK_STEP(align8, MOVQ, DX, 8, TO_ALIGN, align16)
BULK_STEP(align16, MOVOU, X0, 16, TO_ALIGN, bulkAligned)

// Then copy 128 bytes at a time, if the processor has AVX. A large CopyIn uses non-temporal stores.
// From here on, AMOUNT is the number of bytes left, minus 128 or minus 32. This subtraction does
// not change the lower five bits, because 128 and 32 are multiples of 32.
bulkAligned:
	SUBQ $128, AMOUNT
	JCS  copyBelow128
	CMPB ·hasAVX(SB), $0
	JEQ  copyBelow128
	CMPL command_Amount(CMD), STREAM_MIN_BYTES
	JCS  copyBy128
	CMPB (CMD), $const_opCopyIn
	JNE  copyBy128
	COPY_BY_128(copyBy128Streaming, VMOVNTDQ)
	// Barrier: without SFENCE, later stores could overtake these non-temporal stores.
	SFENCE
	JMP  copyBy128Done
	COPY_BY_128(copyBy128, VMOVDQU)
copyBy128Done:
	VZEROUPPER

// Then copy 32 bytes at a time. AMOUNT is the number of bytes left minus 128. After adding 96,
// AMOUNT is the number of bytes left minus 32. The loop ends when AMOUNT falls below 0.
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

// Then copy the remaining 0 to 31 bytes. The lower five bits of AMOUNT are their number: for each
// bit that is set, copy 16, 8, 4, 2 or 1 bytes.
BULK_STEP(bulkTail, MOVOU, X0, 16, AMOUNT, tail8)
BULK_STEP(tail8, MOVQ, DX, 8, AMOUNT, tail4)
BULK_STEP(tail4, MOVL, DX, 4, AMOUNT, tail2)
BULK_STEP(tail2, MOVW, DX, 2, AMOUNT, tail1)
BULK_STEP(tail1, MOVB, DX, 1, AMOUNT, copyDone)

// A copy or fill is complete. If the command is a CopyOut and the last byte is 0xff, stop with the
// reason StopAllOnes: Go must check whether the device is gone, because loads from such a device
// return all ones. Otherwise go on to the next command.
copyDone:
	CMPB (CMD), $const_opCopyOut
	JNE  advance
	CMPB -1(DST), $-1
	JEQ  stopAllOnes
advance:
	ADVANCE
stopAllOnes:
	TESTQ DONE, DONE
	JNE  stopInterrupted
	MOVQ $const_StopAllOnes, Walk_StopReason(WALK)
	JMP  stop

// As `interrupt`, for a bulk copy. The rest must make the same accesses as without an interruption:
// stop after a multiple of 128 bytes from the first address that is a multiple of 32.
interruptBulk:
	ADDQ DX, BUDGET
	LEAQ -1(BUDGET), DX
	SHLQ CX, DX
	MOVQ TO_ALIGN, R13
	NEGQ R13
	ANDQ $31, R13
	MOVL command_Amount(CMD), DONE
	SUBQ AMOUNT, DONE
	SUBQ R13, DX
	ANDQ $-128, DX
	JLE  stopInterrupted
	ADDQ R13, DX
	ADDQ DX, DONE
	MOVQ DX, AMOUNT
	MOVQ $1, BUDGET
	JMP  bulkPart

// Return to Go. Walk.StopReason and Walk.Next are already set, but if DONE is not 0, Walk.Next must
// go back to the command of which only a part is done.
stop:
	TESTQ DONE, DONE
	JNE   stopAfterPart
	MOVQ  BUDGET, Walk_Budget(WALK)
	RET
stopAfterPart:
	SUBQ  $command__size, CMD
	MOVQ  CMD, Walk_Next(WALK)
stopInterrupted:
	MOVQ  $0, Walk_Budget(WALK)
	MOVQ  DONE, Walk_DoneBytes(WALK)
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
	// The bits 1 and 2 of the register XCR0 must be 1. They mean that the operating system
	// saves the SSE registers (bit 1) and the AVX registers (bit 2) of a thread.
	XORL CX, CX
	XGETBV
	ANDL $6, AX
	CMPL AX, $6
	// Return true if the last comparison found its operands equal.
returnResult:
	SETEQ ret+0(FP)
	RET
