// Executes instructions of SVE on known registers and memory, one at a time, and
// writes the registers and a checksum of the memory after each.
//
//	execute LENGTH <CASES >RESULTS
//
// LENGTH is that of vectors, in bytes. A case is a word, four bytes of padding and
// struct state; a result is struct state and the checksum.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

struct state {
	uint64_t x[32], flags; // x[31]: SP. X28 is not set
	uint8_t z[32][256], p[16][32];
} state;

// The same numbers are in execute_test.go.
enum { AT = 0x10000000, SIZE = 0x50000 };

void run(struct state *);
extern uint32_t patched;

asm(".text\n.arch_extension sve\n.globl run, patched\n"
	"run:\n"
	"sub sp, sp, #192\n"
	"stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
	"stp x25, x26, [sp, #48]\n"
	"stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
	"stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n"
	"stp d14, d15, [sp, #144]\n"
	"mov x28, x0\n adrp x1, stack\n mov x2, sp\n str x2, [x1, :lo12:stack]\n"
	"add x0, x28, #264\n"
	".irp n, "
		"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	"ldr z\\n, [x0]\n add x0, x0, #256\n .endr\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n ldr p\\n, [x0]\n add x0, x0, #32\n .endr\n"
	"ldr x0, [x28, #256]\n msr nzcv, x0\n ldr x0, [x28, #248]\n mov sp, x0\n"
	".irp n, 0,2,4,6,8,10,12,14,16,18,20,22,24,26\n ldr x\\n, [x28, #8 * \\n]\n .endr\n"
	".irp n, 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,30\n ldr x\\n, [x28, #8 * \\n]\n .endr\n"
	"patched: nop\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,29,30\n"
	"str x\\n, [x28, #8 * \\n]\n .endr\n"
	"mov x0, sp\n str x0, [x28, #248]\n mrs x0, nzcv\n str x0, [x28, #256]\n"
	"add x0, x28, #264\n"
	".irp n, "
		"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	"str z\\n, [x0]\n add x0, x0, #256\n .endr\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n str p\\n, [x0]\n add x0, x0, #32\n .endr\n"
	"adrp x1, stack\n ldr x2, [x1, :lo12:stack]\n mov sp, x2\n"
	"ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
	"ldp x25, x26, [sp, #48]\n"
	"ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
	"ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n"
	"ldp d14, d15, [sp, #144]\n"
	"add sp, sp, #192\n ret\n"
	".bss\n.balign 8\nstack: .skip 8\n.text");

int main(int count, char **arguments) {
	uint64_t *memory = mmap((void *)AT, SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	uintptr_t page = (uintptr_t)&patched & ~4095ul;
	int length = count == 2 ? atoi(arguments[1]) : 0;
	if (memory != (void *)AT || mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) ||
	    (prctl(PR_SVE_SET_VL, length) & PR_SVE_VL_LEN_MASK) != length)
		return 64;
	uint32_t word[2];
	while (fread(word, sizeof word, 1, stdin) == 1 && fread(&state, sizeof state, 1, stdin) == 1) {
		for (uint64_t i = 0; i < SIZE / 8; i++)
			memory[i] = (i + 1) * 0x9e3779b97f4a7c15;
		patched = word[0];
		__builtin___clear_cache((char *)&patched, (char *)&patched + 4);
		run(&state);
		uint64_t sum = 0;
		for (uint64_t i = 0; i < SIZE / 8; i++)
			sum = (sum ^ memory[i]) * 0x100000001b3;
		fwrite(&state, sizeof state, 1, stdout);
		fwrite(&sum, sizeof sum, 1, stdout);
	}
	return 0;
}
