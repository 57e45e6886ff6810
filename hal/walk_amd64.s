// Walk.Run for amd64. It does what walkGeneric (walk_generic.go) does, on mapped memory.
//
// Each load and store of the device is one instruction, exactly as wide as the command requires.
// Only bulk copies, which images use for memory of the device, use wider ones. The processor makes
// each access to uncached memory exactly once, in program order (Intel SDM volume 3A, "Methods of
// Caching Available").

//go:build !purego

#include "textflag.h"
#include "go_asm.h"

// Registers with the same contents for all commands, except CMD.
#define CMD SI      // Walk.Next: address of the current command
#define WINDOWS R8  // Walk.WindowAddresses: table of the addresses of windows
#define BUFFERS R9  // Walk.BufferAddresses: table of the addresses of buffers in host memory
#define WALK R10    // address of the Walk
#define BUDGET R12  // Walk.Budget: the walk ends when it is not above 0
#define DONE R14    // bytes that are done after this part of an interrupted command; else 0

// Registers that each command sets. One register may have several names.
#define OPCODE DX      // command.Opcode, in jumpByOpcode and pointAndAbove
#define WIDTH CX       // command.Width
#define DST DI         // address of the next store; Expect and Compare: address of the next load
#define SRC BX         // address of the next load; Compare: address of the next golden element
#define DST_STEP DX    // number of bytes added to DST after each access
#define SRC_STEP R13   // number of bytes added to SRC after each access
#define AMOUNT AX      // bytes left; accesses left for `interrupt`
#define BYTES_LEFT R11 // bytes left in the range; bulk copies use AMOUNT instead
#define TO_ALIGN R11   // bulk copy: its lower 5 bits count the bytes to the next multiple of 32
#define VALUE AX       // value that is loaded or stored
#define GOLDEN DX      // Compare: the golden element, which must equal VALUE

// Begin the command at CMD; stop if the flags say that BUDGET is not above 0. One comparison of the
// command's first four bytes (opcode, width, mode, option) finds the most frequent command, a Write
// of 4 bytes.
#define DISPATCH \
	JLE  stop                        \
	MOVL (CMD), AX                   \
	CMPL AX, $(const_opWrite | 4<<8) \
	JEQ  write4                      \
	JMP  jumpByOpcode

// Go on to the next command. Walk.Next has its address before any access, which may fault.
#define ADVANCE \
	ADDQ $command__size, CMD      \
	MOVQ CMD, Walk_Next(WALK)     \
	SUBQ $const_commandUs, BUDGET \
	DISPATCH

// DST = the window's address + command.Offset. Stop if the window is not mapped (0): Go executes
// the command through its Port.
#define DEVICE_ADDRESS \
	MOVWLZX command_Window(CMD), R11 \
	MOVQ    (WINDOWS)(R11*8), R11    \
	MOVL    command_Offset(CMD), DST \
	TESTQ   R11, R11                 \
	JEQ     stop                     \
	ADDQ    R11, DST

// AT = Walk.BufferAddresses[command.Index] + command.Value
#define HOST_ADDRESS(AT) \
	MOVWLZX command_Index(CMD), AT \
	MOVQ    (BUFFERS)(AT*8), AT    \
	ADDQ    command_Value(CMD), AT

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
	// StopReason 0 is StopBeforeNext; any other reason is set where the walk stops.
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

write4:
	DEVICE_ADDRESS
	MOVL command_Value(CMD), VALUE
	MOVL VALUE, (DST)
	ADVANCE

// AX has the first four bytes of the command, the opcode in the lowest. Opcodes below Point access
// a window.
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

// The flags are those of the comparison with Point. MFENCE completes all earlier accesses before
// any later one starts. Go executes all other commands.
pointAndAbove:
	JEQ  programWindow
	CMPL OPCODE, $const_opFence
	JNE  stop
	MFENCE
	ADVANCE

// Write of 1, 2 or 8 bytes. For 1 and 2, the loop of Fill ends after one store, because
// command.Amount is 0.
write:
	CMPL WIDTH, $8
	JNE  fill
	MOVQ command_Value(CMD), VALUE
	MOVQ VALUE, (DST)
	ADVANCE

// Begin to copy from SRC to DST. DEVICE is SRC or DST, whichever addresses the device, and STEP is
// its step: 0 in mode Fixed, else the width. Mode Bulk goes to bulkCopy, with DEVICE in TO_ALIGN.
#define START_COPY(DEVICE, STEP) \
	MOVQ DEVICE, TO_ALIGN                      \
	CMPB command_Mode(CMD), $const_accessBulk  \
	JEQ  bulkCopy                              \
	MOVQ WIDTH, STEP                           \
	CMPB command_Mode(CMD), $const_accessFixed \
	JNE  copy                                  \
	XORL STEP, STEP                            \
	JMP  copy

copyIn:
	HOST_ADDRESS(SRC)
copyInRest:
	MOVQ WIDTH, SRC_STEP
	START_COPY(DST, DST_STEP)

// With SRC_STEP 0, the copy loop loads command.Value for each element.
fill:
	LEAQ command_Value(CMD), SRC
	XORL SRC_STEP, SRC_STEP
	START_COPY(DST, DST_STEP)

copyOut:
	MOVQ DST, SRC
	HOST_ADDRESS(DST)
copyOutRest:
	MOVQ WIDTH, DST_STEP
	START_COPY(SRC, SRC_STEP)

copy:
	MOVQ AMOUNT, BYTES_LEFT
	JUMP_BY_WIDTH(copy1, copy2, copy4, copy8)

// Also for Modify.
expect:
	JUMP_BY_WIDTH(expect1, expect2, expect4, expect8)

// SRC is the golden (expected) data.
compare:
	HOST_ADDRESS(SRC)
compareRest:
	MOVQ AMOUNT, BYTES_LEFT
	JUMP_BY_WIDTH(compare1, compare2, compare4, compare8)

// Continue a command after its first Walk.DoneBytes bytes.
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

// BUDGET does not pay for AMOUNT, the accesses left, which were subtracted from it. Make one access
// fewer than it pays for, if any; DONE is the bytes done then. The rest of BUDGET does not pay for
// the command, so that the walk stops after these accesses.
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

// The code for accesses of BYTES bytes; SHIFT is the logarithm of BYTES. COPY and COMPARE charge
// their accesses, and go to `interrupt` if the budget does not allow all. CMP compares values of
// this width with all ones.
//
// EXPECT stops if the value is all ones (the device may be gone), if the mode is not Equal, and if
// the condition is not met. COMPARE stops at the first difference.
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

// Point: set the window's new address. Between two barriers, store the register values that
// EncodePoint has put into the command. Stop if the width is 0: the command is not encoded, and Go
// executes it.
programWindow:
	TESTL   WIDTH, WIDTH
	JEQ     stop
	SUBQ    $const_pointExtraUs, BUDGET

	// DST = WindowAddresses[command.Index] + command.Offset: the registers. DX =
	// TLBWindowBases[command.Window] + command.Amount: the window's new address.
	MOVWLZX command_Index(CMD), R11
	MOVQ    (WINDOWS)(R11*8), DST
	MOVL    command_Offset(CMD), AX
	MOVWLZX command_Window(CMD), BX
	MOVQ    Walk_TLBWindowBases(WALK), DX
	MOVQ    (DX)(BX*8), DX
	MOVL    command_Amount(CMD), R11
	ADDQ    AX, DST
	ADDQ    R11, DX

	// command.Value has the 8-byte register, or the first two of three 4-byte registers;
	// command.Mask has the third.
	MOVQ    command_Value(CMD), VALUE
	MOVQ    command_Mask(CMD), R13

	MOVQ    DX, (WINDOWS)(BX*8)

	// Without a barrier, an earlier access through the TLB window could reach the new address.
	MFENCE
	CMPL    WIDTH, $4
	JEQ     programThreeRegisters

	// The load returns only after the store has taken effect, and the barrier delays later accesses
	// until then.
	MOVQ    VALUE, (DST)
	MOVQ    (DST), VALUE
	MFENCE
	ADVANCE

	// Three registers of 4 bytes, in the order of their addresses. The load and the barrier are as
	// above.
programThreeRegisters:
	MOVL    VALUE, (DST)
	SHRQ    $32, VALUE
	MOVL    VALUE, 4(DST)
	MOVL    R13, 8(DST)
	MOVL    8(DST), VALUE
	MFENCE
	ADVANCE

// Go finishes the command.
stopLoaded:
	MOVQ VALUE, Walk_Got(WALK)
	MOVQ $const_StopLoaded, Walk_StopReason(WALK)
	JMP  stop

// BYTES_LEFT counts from the element that differs to the end of the range, or to DONE if the
// command is interrupted.
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

// A step of a bulk copy, with the label NAME: copy BYTES bytes by MOVE and the register VIA if this
// bit of BITS is set, else go to NEXT. BITS is TO_ALIGN before the loops, AMOUNT after them.
//
// Before the loops, the step goes to bulkTail if fewer bytes are left. After them it never does:
// AMOUNT is at least BYTES, or negative, which is large as an unsigned number.
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

// Copy 128 bytes in each round. AMOUNT is the bytes left minus 128. SUBQ $-128 is shorter than ADDQ
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

// From this size on, a CopyIn bypasses the cache: ordinary stores to cached memory, such as a Host
// window, would evict other data, and read the memory before they overwrite it.
#define STREAM_MIN_BYTES $(4<<20)

// Bulk copy of AMOUNT bytes: ascending, without overlap, each access aligned on the device. First
// up to 31 bytes, by 1 to 16, until the device's address is a multiple of 32. After NEGQ, the lower
// five bits of TO_ALIGN are their number.
bulkCopy:
	// WIDTH becomes its logarithm; an old processor executes TZCNT as BSF, with the same result.
	// DX is the number of accesses.
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

// Then 128 bytes at a time, with AVX. AMOUNT is now the bytes left minus 128 or 32, which does not
// change its lower five bits.
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
	// Without a fence, later stores could overtake these non-temporal stores.
	SFENCE
	JMP  copyBy128Done
	COPY_BY_128(copyBy128, VMOVDQU)
copyBy128Done:
	VZEROUPPER

// Then 32 bytes at a time. AMOUNT, the bytes left minus 128, becomes the bytes left minus 32.
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

// Then the 0 to 31 bytes that are left: the lower five bits of AMOUNT.
BULK_STEP(bulkTail, MOVOU, X0, 16, AMOUNT, tail8)
BULK_STEP(tail8, MOVQ, DX, 8, AMOUNT, tail4)
BULK_STEP(tail4, MOVL, DX, 4, AMOUNT, tail2)
BULK_STEP(tail2, MOVW, DX, 2, AMOUNT, tail1)
BULK_STEP(tail1, MOVB, DX, 1, AMOUNT, copyDone)

// If the last byte of a CopyOut is 0xff, Go checks whether the device is gone.
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

// The same as `interrupt`, for a bulk copy. It must make the same accesses as without an
// interruption: stop a multiple of 128 bytes after the first address that is a multiple of 32.
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

// If DONE is not 0, Walk.Next goes back to the command of which only a part is done.
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
// Whether the processor has AVX and the kernel saves its registers (Intel SDM volume 1, "Detection
// of AVX Instructions").
TEXT ·detectAVX(SB), NOSPLIT, $0-1
	// CPUID leaf 1: bits 27 (OSXSAVE) and 28 (AVX) of ECX.
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $(1<<27 | 1<<28), CX
	CMPL CX, $(1<<27 | 1<<28)
	JNE  returnResult
	// XCR0: bit 1 (SSE registers are saved) and bit 2 (AVX registers).
	XORL CX, CX
	XGETBV
	ANDL $6, AX
	CMPL AX, $6
returnResult:
	SETEQ ret+0(FP)
	RET
