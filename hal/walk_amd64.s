// The amd64 version of the walk. It implements walkGeneric of oracle.go in assembly.
// A label that implements a Go function of oracle.go has the name of that function.
//
// Every load or store through a device's address is one instruction, exactly as
// wide as the command requires. Only bulk copies, whose range is memory, use wider
// instructions. The processor makes each uncached access exactly once, in program order
// (Intel SDM volume 3A, "Methods of Caching Available").

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers that keep their meaning during the whole walk.
#define CMD SI      // address of the current command, which Walk.Next points to
#define WINDOWS R8  // Walk.Windows: address of the table of windows
#define MEMORIES R9 // Walk.Memories: address of the table of buffers
#define WALK R10    // address of the Walk
#define STOP R12    // Walk.Stop: address of the command before which the walk stops

// Registers whose contents belong to the current command.
#define OPCODE DX    // command.Opcode; the register is reused after the dispatch
#define WIDTH CX     // command.Width
#define DST DI       // address of the next store; for Expect and Compare, of the next load
#define SRC BX       // address of the next load of a copy; for Compare, of the next golden element
#define DST_STEP DX  // bytes that DST advances after each access
#define SRC_STEP R13 // bytes that SRC advances after each access
#define AMOUNT AX    // command.Amount; in a bulk copy, the bytes that are left
#define LEFT R11     // bytes of the command that are left, except in a bulk copy
#define TO_ALIGN R11 // bulk copy: bytes up to the next aligned address, modulo 32
#define VALUE AX     // the value of one access
#define WANT DX      // Compare: the golden element, which the loaded value must equal

// Return if the command is Walk.Stop. Otherwise jump to the code for the command's
// opcode. A Write of 4 bytes is the most frequent command; therefore one comparison
// recognizes it.
#define DISPATCH \
	CMPQ CMD, STOP          \
	JEQ  stop               \
	MOVL (CMD), AX          \
	CMPL AX, $(const_opWrite | 4<<8) \
	JEQ  write4             \
	JMP  decode

// Continue with the next command. Store its address to Walk.Next before the command
// makes an access: if the access faults, Walk.Next then names this command.
#define ADVANCE \
	ADDQ $command__size, CMD   \
	MOVQ CMD, Walk_Next(WALK)  \
	DISPATCH

// Set DST to the address of the access: the window's first byte plus command.Offset.
// Return if the window is not mapped, because Go executes such commands on a port.
#define DEVICE_ADDRESS \
	MOVWLZX command_Window(CMD), R11 \
	MOVQ    (WINDOWS)(R11*8), R11    \
	MOVL    command_Offset(CMD), DST \
	TESTQ   R11, R11                 \
	JEQ     stop                     \
	ADDQ    R11, DST

// Set AT to the address of the command's memory (commandMemory in oracle.go).
#define MEMORY_ADDRESS(AT) \
	MOVWLZX command_Index(CMD), AT \
	MOVQ    (MEMORIES)(AT*8), AT   \
	ADDQ    command_Value(CMD), AT

// Jump to one of the four labels, depending on the command's width.
#define BY_WIDTH(W1, W2, W4, W8) \
	CMPL WIDTH, $4 \
	JEQ  W4        \
	CMPL WIDTH, $8 \
	JEQ  W8        \
	CMPL WIDTH, $2 \
	JEQ  W2        \
	JMP  W1

// func walk(w *Walk)
TEXT ·walk(SB), NOSPLIT, $0-8
	// Load the fields of the Walk. Set Walk.StopReason to 0, which is Unhandled. Code
	// that stops the walk for another reason overwrites it.
	MOVQ w+0(FP), WALK
	MOVQ Walk_Next(WALK), CMD
	MOVQ Walk_Windows(WALK), WINDOWS
	MOVQ Walk_Memories(WALK), MEMORIES
	MOVQ Walk_Stop(WALK), STOP
	MOVQ $0, Walk_StopReason(WALK)
	DISPATCH

// Write of 4 bytes: store command.Value once.
write4:
	DEVICE_ADDRESS
	MOVL command_Value(CMD), VALUE
	MOVL VALUE, (DST)
	ADVANCE

// Jump to the code for the opcode, which is the lowest byte of AX. Only commands with
// an opcode below Point access a window.
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
	JEQ     expect // mode 0 is no condition: the walk stops after the load, and Go stores
	RET

// The opcode is Point, Fence, or one that Go executes. The flags are the result of
// the comparison with Point. MFENCE completes all earlier accesses before any later
// access starts.
withoutAccess:
	JEQ  programWindow
	CMPL OPCODE, $const_opFence
	JNE  stop
	MFENCE
	ADVANCE

// Write of 1, 2 or 8 bytes. A Write of 1 or 2 bytes is executed as a fill of one
// access: its command.Amount is 0, which ends the loop after the first access.
write:
	CMPL WIDTH, $8
	JNE  fill
	MOVQ command_Value(CMD), VALUE
	MOVQ VALUE, (DST)
	ADVANCE

// Choose how to copy AMOUNT bytes from SRC to DST: in bulk, or by accesses of the
// command's width. DEVICE is the register with the device's address, SRC or DST.
// STEP is the register with the bytes that DEVICE advances after each access. Set
// STEP to the width, or to 0 if the mode is Fixed.
#define START_COPY(DEVICE, STEP) \
	MOVQ DEVICE, TO_ALIGN                 \
	CMPB command_Mode(CMD), $const_bulk   \
	JEQ  bulk                             \
	MOVQ WIDTH, STEP                      \
	CMPB command_Mode(CMD), $const_fixed  \
	JNE  copy                             \
	XORL STEP, STEP                       \
	JMP  copy

// CopyIn: copy from the command's memory to the device.
copyIn:
	MEMORY_ADDRESS(SRC)
	MOVQ WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// Fill: copy command.Value to the device repeatedly. SRC does not advance.
fill:
	LEAQ command_Value(CMD), SRC
	XORL SRC_STEP, SRC_STEP
	START_COPY(DST, DST_STEP)

// CopyOut: copy from the device to the command's memory.
copyOut:
	MOVQ DST, SRC
	MEMORY_ADDRESS(DST)
	MOVQ WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

copy:
	MOVQ AMOUNT, LEFT
	BY_WIDTH(copy1, copy2, copy4, copy8)

// Expect: load once from the device and compare with command.Value.
expect:
	BY_WIDTH(expect1, expect2, expect4, expect8)

// Compare: load from the device and compare each element with the command's memory.
compare:
	MEMORY_ADDRESS(SRC)
	MOVQ AMOUNT, LEFT
	BY_WIDTH(compare1, compare2, compare4, compare8)

// The code for accesses of BYTES bytes.
//
// COPY: load an element from SRC and store it to DST.
// EXPECT: load from the device. Continue with the next command if the mode is Equal,
// the masked value is command.Value, and the value is not all ones, which a missing
// device returns. Otherwise stop, and Go evaluates the value.
// COMPARE: load an element from the device and an element of the golden data. Stop if
// the two elements differ.
#define EACH(BYTES, LOAD, STORE, CMP_ONES, COPY, EXPECT, COMPARE) \
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
	JEQ  loaded                  \
	CMPB command_Mode(CMD), $const_equal \
	JNE  loaded                  \
	MOVQ VALUE, DX               \
	ANDQ command_Mask(CMD), DX   \
	CMPQ DX, command_Value(CMD)  \
	JNE  loaded                  \
	ADVANCE                      \
COMPARE:                         \
	LOAD (DST), VALUE            \
	LOAD (SRC), WANT             \
	CMPQ VALUE, WANT             \
	JNE  mismatch                \
	ADDQ $BYTES, DST             \
	ADDQ $BYTES, SRC             \
	SUBQ $BYTES, LEFT            \
	JHI  COMPARE                 \
	ADVANCE

EACH(4, MOVL, MOVL, CMPL, copy4, expect4, compare4)
EACH(8, MOVQ, MOVQ, CMPQ, copy8, expect8, compare8)
EACH(2, MOVWLZX, MOVW, CMPW, copy2, expect2, compare2)
EACH(1, MOVBLZX, MOVB, CMPB, copy1, expect1, compare1)

// Point: store the values that EncodeWindow put into the command to the TLB window's
// registers, and update the window's entry in Walk.Windows. If the width is 0, stop:
// EncodeWindow has not encoded the command, and Go executes it.
programWindow:
	TESTL   WIDTH, WIDTH
	JEQ     stop

	// Set DST to the address of the registers: entry command.Index of Walk.Windows
	// plus command.Offset. Set DX to the new address of the window's first byte: the
	// entry of Walk.TLBWindows plus command.Amount.
	MOVWLZX command_Index(CMD), R11
	MOVQ    (WINDOWS)(R11*8), DST
	MOVL    command_Offset(CMD), AX
	MOVWLZX command_Window(CMD), BX
	MOVQ    Walk_TLBWindows(WALK), DX
	MOVQ    (DX)(BX*8), DX
	MOVL    command_Amount(CMD), R11
	ADDQ    AX, DST
	ADDQ    R11, DX

	// Load the values to store to the registers.
	MOVQ    command_Value(CMD), VALUE
	MOVQ    command_Mask(CMD), R13

	MOVQ    DX, (WINDOWS)(BX*8)

	// Barrier: earlier stores through the TLB window must arrive at its old target
	// before the registers change.
	MFENCE
	CMPL    WIDTH, $4
	JEQ     programWindow4

	// Store one register of 8 bytes and load it again: the load returns only after the
	// store has taken effect. Barrier: later accesses must not start before the load
	// has returned.
	MOVQ    VALUE, (DST)
	MOVQ    (DST), VALUE
	MFENCE
	ADVANCE

	// Store three registers of 4 bytes, the lowest address first, and load the last one.
programWindow4:
	MOVL    VALUE, (DST)
	SHRQ    $32, VALUE
	MOVL    VALUE, 4(DST)
	MOVL    R13, 8(DST)
	MOVL    8(DST), VALUE
	MFENCE
	ADVANCE

// Stop after the load of an Expect or Modify. Store the loaded value to Walk.Got.
loaded:
	MOVQ VALUE, Walk_Got(WALK)
	MOVQ $const_Loaded, Walk_StopReason(WALK)
	RET

// Stop a Compare at the first element that differs. The offset of the element is
// command.Amount minus LEFT.
mismatch:
	MOVQ VALUE, Walk_Got(WALK)
	MOVQ WANT, Walk_Want(WALK)
	MOVL command_Amount(CMD), AX
	SUBQ LEFT, AX
	MOVQ AX, Walk_MismatchOffset(WALK)
	MOVQ $const_Mismatch, Walk_StopReason(WALK)
	RET

// Make one access of a bulk copy if the bit BYTES is set in the register OF. The
// access copies BYTES bytes through the register VIA. OF is TO_ALIGN before the loops
// and AMOUNT after the loops. ON is the label of the next step. If fewer than BYTES
// bytes are left, jump to tail.
#define BULK_STEP(NAME, MOVE, VIA, BYTES, OF, ON) \
NAME:                       \
	TESTQ $BYTES, OF        \
	JEQ   ON                \
	CMPQ  AMOUNT, $BYTES    \
	JCS   tail              \
	MOVE  (SRC), VIA        \
	MOVE  VIA, (DST)        \
	ADDQ  $BYTES, SRC       \
	ADDQ  $BYTES, DST       \
	SUBQ  $BYTES, AMOUNT

// A loop that copies 128 bytes in each round. AMOUNT is the number of bytes after the
// next 128 bytes. The loop ends when AMOUNT falls below zero.
#define BY128(NAME, STORE) \
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

// A CopyIn uses non-temporal stores if STREAM bytes or more follow the first 128 bytes.
// Ordinary stores to cached memory would evict other data from the cache, and the
// processor would first read the memory that they overwrite.
#define STREAM $(4<<20)

// Bulk copy. The accesses begin at the lowest address and do not overlap, and each is
// naturally aligned on the device. First make single accesses up to an address that is
// a multiple of 32.
bulk:
	NEGQ  TO_ALIGN
	TESTQ $31, TO_ALIGN
	JEQ   aligned
BULK_STEP(align1, MOVB, DX, 1, TO_ALIGN, align2)
BULK_STEP(align2, MOVW, DX, 2, TO_ALIGN, align4)
BULK_STEP(align4, MOVL, DX, 4, TO_ALIGN, align8)
BULK_STEP(align8, MOVQ, DX, 8, TO_ALIGN, align16)
BULK_STEP(align16, MOVOU, X0, 16, TO_ALIGN, aligned)

// Then copy 128 bytes at a time if the processor has AVX. Subtracting 128 or 32 does
// not change the lower five bits of AMOUNT. Therefore these bits are still the number
// of bytes that are left after the loops.
aligned:
	SUBQ $128, AMOUNT
	JCS  below128
	CMPB ·hasAVX(SB), $0
	JEQ  below128
	CMPQ AMOUNT, STREAM
	JCS  by128
	CMPB (CMD), $const_opCopyIn
	JNE  by128
	BY128(stream, VMOVNTDQ)
	// Barrier: the processor does not order non-temporal stores with later stores.
	SFENCE
	JMP  by128Done
	BY128(by128, VMOVDQU)
by128Done:
	VZEROUPPER

// Then copy 32 bytes at a time. AMOUNT is the bytes that are left minus 128; make it the
// bytes that are left minus 32.
below128:
	ADDQ  $96, AMOUNT
	JLT   tail
by32:
	MOVOU (SRC), X0
	MOVOU 16(SRC), X1
	MOVOU X0, (DST)
	MOVOU X1, 16(DST)
	ADDQ  $32, SRC
	ADDQ  $32, DST
	SUBQ  $32, AMOUNT
	JCC   by32

// Then copy 16, 8, 4, 2 and 1 bytes: each if its bit is set in AMOUNT.
BULK_STEP(tail, MOVOU, X0, 16, AMOUNT, tail8)
BULK_STEP(tail8, MOVQ, DX, 8, AMOUNT, tail4)
BULK_STEP(tail4, MOVL, DX, 4, AMOUNT, tail2)
BULK_STEP(tail2, MOVW, DX, 2, AMOUNT, tail1)
BULK_STEP(tail1, MOVB, DX, 1, AMOUNT, copyDone)

// A copy or fill is complete. Loads from a missing device return all ones. Therefore
// stop if the last byte of a CopyOut is 0xff, and Go checks the device.
copyDone:
	CMPB (CMD), $const_opCopyOut
	JNE  advance
	CMPB -1(DST), $-1
	JEQ  allOnes
advance:
	ADVANCE
allOnes:
	MOVQ $const_AllOnes, Walk_StopReason(WALK)

stop:
	RET

// func detectAVX() bool
//
// detectAVX reports whether the processor has AVX and the operating system saves the
// AVX registers (Intel SDM volume 1, "Detection of AVX Instructions").
TEXT ·detectAVX(SB), NOSPLIT, $0-1
	// CPUID leaf 1 must have the bits OSXSAVE and AVX set.
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $(1<<27 | 1<<28), CX
	CMPL CX, $(1<<27 | 1<<28)
	JNE  result
	// XCR0 must show that the operating system saves the SSE and AVX registers.
	XORL CX, CX
	XGETBV
	ANDL $6, AX
	CMPL AX, $6
	// The function returns whether the last comparison found equality.
result:
	SETEQ ret+0(FP)
	RET
