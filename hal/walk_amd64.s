// The amd64 version of the walk: executeCommand and its parts in oracle.go, in
// assembly. Labels have the names of the Go functions.
//
// Every load or store through a device's address is one instruction, exactly as
// wide as the command requires. Only bulk copies, whose range is memory, use wider
// ones. Uncached accesses happen once each, in program order (Intel SDM volume 3A,
// "Methods of Caching Available").

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers that keep their meaning during the whole walk.
#define CMD SI      // the command that Walk.Next points to
#define WINDOWS R8  // the table Walk.Windows
#define MEMORIES R9 // the table Walk.Memories
#define WALK R10    // the Walk
#define STOP R12    // Walk.Stop

// Registers of one command.
#define OPCODE DX    // only until the opcode has been dispatched
#define WIDTH CX     // command.Width
#define DST DI       // where the next store goes; for Expect and Compare, the device's address
#define SRC BX       // where the next load of a copy comes from; for Compare, the golden data
#define DST_STEP DX  // what an access adds to DST
#define SRC_STEP R13 // what an access adds to SRC
#define AMOUNT AX    // command.Amount; in bulk copies, the bytes that are left
#define LEFT R11     // bytes of the command that are left, if it is not a bulk copy
#define TO_ALIGN R11 // bulk: bytes up to an aligned address, modulo 32
#define VALUE AX     // the value of one access
#define WANT DX      // Compare: the golden element

// Stop at Walk.Stop. Otherwise go to the command's code. A Write of 4 bytes, the
// most frequent command, is recognized by one comparison.
#define DISPATCH \
	CMPQ CMD, STOP          \
	JEQ  stop               \
	MOVL (CMD), AX          \
	CMPL AX, $(const_opWrite | 4<<8) \
	JEQ  write4             \
	JMP  decode

// Go on to the next command. Walk.Next is stored before any access of that
// command, so that it names the command whose access faults.
#define ADVANCE \
	ADDQ $command__size, CMD   \
	MOVQ CMD, Walk_Next(WALK)  \
	DISPATCH

// Set DST to the device's address: the window's first byte plus command.Offset.
// Stop if the window is not mapped; Go executes such commands on a port.
#define DEVICE_ADDRESS \
	MOVWLZX command_Window(CMD), R11 \
	MOVQ    (WINDOWS)(R11*8), R11    \
	MOVL    command_Offset(CMD), DST \
	TESTQ   R11, R11                 \
	JEQ     stop                     \
	ADDQ    R11, DST

// Set AT to the address in the command's memory (commandMemory in oracle.go).
#define MEMORY_ADDRESS(AT) \
	MOVWLZX command_Index(CMD), AT \
	MOVQ    (MEMORIES)(AT*8), AT   \
	ADDQ    command_Value(CMD), AT

// Go to the code for the command's width.
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
	// Load the fields of the Walk. Walk.StopReason is Unhandled, which is 0, until
	// something else stops the walk.
	MOVQ w+0(FP), WALK
	MOVQ Walk_Next(WALK), CMD
	MOVQ Walk_Windows(WALK), WINDOWS
	MOVQ Walk_Memories(WALK), MEMORIES
	MOVQ Walk_Stop(WALK), STOP
	MOVQ $0, Walk_StopReason(WALK)
	DISPATCH

// Write of 4 bytes: one store of command.Value.
write4:
	DEVICE_ADDRESS
	MOVL command_Value(CMD), VALUE
	MOVL VALUE, (DST)
	ADVANCE

// Go to the code of the opcode, the lowest byte of AX. Opcodes below Point access
// a window.
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
	JEQ     expect // its mode is 0, no condition: the walk stops after the load, and Go stores
	RET

// Point, Fence, or an opcode that Go executes. The flags are of the comparison
// with Point. MFENCE completes all earlier accesses before any later one.
withoutAccess:
	JEQ  programWindow
	CMPL OPCODE, $const_opFence
	JNE  stop
	MFENCE
	ADVANCE

// Write of 1, 2 or 8 bytes. Those of 1 and 2 bytes are a fill of one access:
// command.Amount is 0, which ends the loop after it.
write:
	CMPL WIDTH, $8
	JNE  fill
	MOVQ command_Value(CMD), VALUE
	MOVQ VALUE, (DST)
	ADVANCE

// Choose how to copy AMOUNT bytes from SRC to DST: in bulk, or one access of the
// command's width after the other. DEVICE is the device's address, which is SRC or
// DST, and STEP is what an access adds to it: the width, or 0 in mode Fixed.
#define START_COPY(DEVICE, STEP) \
	MOVQ DEVICE, TO_ALIGN                 \
	CMPB command_Mode(CMD), $const_bulk   \
	JEQ  bulk                             \
	MOVQ WIDTH, STEP                      \
	CMPB command_Mode(CMD), $const_fixed  \
	JNE  copy                             \
	XORL STEP, STEP                       \
	JMP  copy

// CopyIn: from the command's memory to the device.
copyIn:
	MEMORY_ADDRESS(SRC)
	MOVQ WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// Fill: from command.Value, again and again, to the device.
fill:
	LEAQ command_Value(CMD), SRC
	XORL SRC_STEP, SRC_STEP
	START_COPY(DST, DST_STEP)

// CopyOut: from the device to the command's memory.
copyOut:
	MOVQ DST, SRC
	MEMORY_ADDRESS(DST)
	MOVQ WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

copy:
	MOVQ AMOUNT, LEFT
	BY_WIDTH(copy1, copy2, copy4, copy8)

// Expect: one load from the device, compared with command.Value.
expect:
	BY_WIDTH(expect1, expect2, expect4, expect8)

// Compare: loads from the device, compared with the command's memory.
compare:
	MEMORY_ADDRESS(SRC)
	MOVQ AMOUNT, LEFT
	BY_WIDTH(compare1, compare2, compare4, compare8)

// The loops for accesses of BYTES bytes.
//
// COPY: load an element from SRC and store it to DST.
// EXPECT: load from the device. Go on if the value is not all ones, as of a device
// that is gone, the mode is Equal, and the masked value is command.Value. Otherwise
// Go decides.
// COMPARE: load an element from the device and one of the golden data; stop if
// they differ.
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

// Point: store the TLB window's registers that EncodeWindow put into the command,
// and move the window's entry in Walk.Windows. A width of 0 means that Go does it.
programWindow:
	TESTL   WIDTH, WIDTH
	JEQ     stop

	// DST becomes the address of the registers: entry command.Index of
	// Walk.Windows plus command.Offset. DX becomes the window's first byte:
	// command.Amount bytes into its TLB window.
	MOVWLZX command_Index(CMD), R11
	MOVQ    (WINDOWS)(R11*8), DST
	MOVL    command_Offset(CMD), AX
	MOVWLZX command_Window(CMD), BX
	MOVQ    Walk_TLBWindows(WALK), DX
	MOVQ    (DX)(BX*8), DX
	MOVL    command_Amount(CMD), R11
	ADDQ    AX, DST
	ADDQ    R11, DX

	// The values of the registers.
	MOVQ    command_Value(CMD), VALUE
	MOVQ    command_Mask(CMD), R13

	MOVQ    DX, (WINDOWS)(BX*8)

	// Barrier: earlier stores through the TLB window must arrive where it still points.
	MFENCE
	CMPL    WIDTH, $4
	JEQ     programWindow4

	// One register of 8 bytes. The load returns after the store has taken effect.
	// Barrier: later accesses must not start before that load.
	MOVQ    VALUE, (DST)
	MOVQ    (DST), VALUE
	MFENCE
	ADVANCE

	// Three registers of 4 bytes, the lowest address first, and a load of the last.
programWindow4:
	MOVL    VALUE, (DST)
	SHRQ    $32, VALUE
	MOVL    VALUE, 4(DST)
	MOVL    R13, 8(DST)
	MOVL    8(DST), VALUE
	MFENCE
	ADVANCE

// Stop after the load of an Expect or Modify, with the loaded value in Walk.Got.
loaded:
	MOVQ VALUE, Walk_Got(WALK)
	MOVQ $const_Loaded, Walk_StopReason(WALK)
	RET

// Stop a Compare at the first element that differs. Its offset is command.Amount
// minus the bytes that are left.
mismatch:
	MOVQ VALUE, Walk_Got(WALK)
	MOVQ WANT, Walk_Want(WALK)
	MOVL command_Amount(CMD), AX
	SUBQ LEFT, AX
	MOVQ AX, Walk_MismatchOffset(WALK)
	MOVQ $const_Mismatch, Walk_StopReason(WALK)
	RET

// One access of a bulk copy, of BYTES bytes through the register VIA, if OF has the
// bit BYTES set: OF is TO_ALIGN before the loops, AMOUNT after them. ON is the next
// step. If fewer than BYTES bytes are left, go to the tail.
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

// A loop over 128 bytes at a time. AMOUNT counts the bytes after these 128; the
// loop ends when it falls below zero.
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

// A CopyIn with at least 4 MiB after the first 128 bytes uses non-temporal stores.
// Ordinary ones to cached memory would replace what is in the cache, and would first
// read the memory that they overwrite.
#define STREAM $(4<<20)

// Bulk copy: the lowest address first, each access naturally aligned on the device,
// none overlapping another. First single accesses up to an address that is a
// multiple of 32.
bulk:
	NEGQ  TO_ALIGN
	TESTQ $31, TO_ALIGN
	JEQ   aligned
BULK_STEP(align1, MOVB, DX, 1, TO_ALIGN, align2)
BULK_STEP(align2, MOVW, DX, 2, TO_ALIGN, align4)
BULK_STEP(align4, MOVL, DX, 4, TO_ALIGN, align8)
BULK_STEP(align8, MOVQ, DX, 8, TO_ALIGN, align16)
BULK_STEP(align16, MOVOU, X0, 16, TO_ALIGN, aligned)

// Then 128 bytes at a time if the processor has AVX. Subtracting 128 and 32 does not
// change the lower five bits of AMOUNT: after the loops they still count the bytes
// that are left.
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
	// Non-temporal stores are not ordered with others: this barrier orders them.
	SFENCE
	JMP  by128Done
	BY128(by128, VMOVDQU)
by128Done:
	VZEROUPPER

// Then 32 bytes at a time. AMOUNT, which is 128 too small, becomes 32 too small.
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

// Then 16, 8, 4, 2 and 1 bytes, as the bits of AMOUNT require.
BULK_STEP(tail, MOVOU, X0, 16, AMOUNT, tail8)
BULK_STEP(tail8, MOVQ, DX, 8, AMOUNT, tail4)
BULK_STEP(tail4, MOVL, DX, 4, AMOUNT, tail2)
BULK_STEP(tail2, MOVW, DX, 2, AMOUNT, tail1)
BULK_STEP(tail1, MOVB, DX, 1, AMOUNT, copyDone)

// A copy or fill is done. A device that is gone reads all ones: if the last byte of
// a CopyOut is 0xff, stop, and Go checks the device.
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
// It reports whether the processor has AVX and the operating system saves its
// registers: Intel SDM volume 1, "Detection of AVX Instructions".
TEXT ·detectAVX(SB), NOSPLIT, $0-1
	// CPUID leaf 1: OSXSAVE and AVX.
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $(1<<27 | 1<<28), CX
	CMPL CX, $(1<<27 | 1<<28)
	JNE  result
	// XCR0: the system saves the SSE and AVX registers.
	XORL CX, CX
	XGETBV
	ANDL $6, AX
	CMPL AX, $6
	// The result is the outcome of the last comparison.
result:
	SETEQ ret+0(FP)
	RET
