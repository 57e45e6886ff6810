// Makes the same accesses of SVE and FEAT_MOPS to a BAR and to ordinary memory:
// registers and bytes must be equal afterwards.
//
//	scalable FILE sve|library|mops
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { SIZE = 1 << 20, PAGE = 4096, MIDDLE = 0x8000, MOST = 0x20000 };

static int fd;
static uint8_t *bar, *memory; // both have the same bytes

static void fail(const char *what, int number) {
	printf("scalable: %s %d differs from ordinary memory\n", what, number);
	exit(1);
}

static uint8_t *map_at(void *at, size_t length, off_t offset) {
	void *p = mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd,
		offset);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static uint64_t seed = 88172645463325252ull;
static uint64_t next(void) {
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed;
}

static void fill(void *to, size_t size) {
	for (size_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = next();
}

// compare reads a part of the BAR and compares it with memory.
static void compare(const char *what, int number, size_t from, size_t size) {
	for (size_t i = from & ~7ul; i < from + size; i += 8)
		if (*(volatile uint64_t *)(bar + i) != *(uint64_t *)(memory + i))
			fail(what, number);
}

// equalize writes the same bytes to the BAR and to memory.
static void equalize(size_t from, size_t size) {
	for (size_t i = from; i < from + size; i += 8)
		*(volatile uint64_t *)(bar + i) = *(uint64_t *)(memory + i) = next();
}

// A test has a function that loads z0 to z3 and some predicates, executes one
// instruction on the base x4 and the index x5, and stores the registers. A device
// takes its accesses where they are aligned.
struct test {
	void (*run)(const void *z, const void *p, void *z_after, void *p_after, uint8_t *base,
		uint64_t index);
	uint64_t align;
};

#define CODE(text) asm(".pushsection .text\n.arch_extension sve\n" text "\n.popsection");
#define VECTORS(op, at) \
	op " z0, [" at "]\n" op " z1, [" at ", #1, mul vl]\n" \
	op " z2, [" at ", #2, mul vl]\n" op " z3, [" at ", #3, mul vl]\n"
#define PREDICATES(op, at) \
	op " p1, [" at ", #1, mul vl]\n" op " p2, [" at ", #2, mul vl]\n" \
	op " p3, [" at ", #3, mul vl]\n" \
	op " p7, [" at ", #7, mul vl]\n" op " p15, [" at ", #15, mul vl]\n"

CODE("load_state:\n" VECTORS("ldr", "x0") PREDICATES("ldr", "x1") "ret")
CODE("store_state:\n" VECTORS("str", "x2") PREDICATES("str", "x3") "ret")
CODE(".pushsection .rodata.tests, \"a\"\n.balign 8\n.globl tests\ntests:\n.popsection")
#define TEST(align, text) \
	CODE("1: mov x9, x30\nbl load_state\n" text "\nbl store_state\nret x9\n" \
		".pushsection .rodata.tests, \"a\"\n.quad 1b, " #align "\n.popsection")

// Loads, each with the alignment that a device takes.
TEST(1, "ld1b {z0.b}, p1/z, [x4]")
TEST(1, "ld1b {z0.h}, p1/z, [x4, x5]")
TEST(1, "ld1b {z0.s}, p1/z, [x4, #3, mul vl]")
TEST(1, "ld1b {z0.d}, p1/z, [x4, #-8, mul vl]")
TEST(1, "ld1sb {z1.h}, p2/z, [x4]")
TEST(1, "ld1sb {z1.d}, p1/z, [x4, x5]")
TEST(2, "ld1h {z1.h}, p1/z, [x4, x5, lsl #1]")
TEST(2, "ld1sh {z1.d}, p7/z, [x4, #-1, mul vl]")
TEST(2, "ld1h {z2.s}, p1/z, [x4]")
TEST(4, "ld1w {z2.s}, p3/z, [x4]")
TEST(4, "ld1w {z2.d}, p1/z, [x4, x5, lsl #2]")
TEST(4, "ld1sw {z2.d}, p1/z, [x4, #7, mul vl]")
TEST(8, "ld1d {z3.d}, p1/z, [x4, x5, lsl #3]")
TEST(8, "ld1d {z3.d}, p3/z, [x4, #1, mul vl]")
TEST(1, "ldnt1b {z0.b}, p1/z, [x4]")
TEST(8, "ldnt1d {z0.d}, p1/z, [x4, x5, lsl #3]")
TEST(4, "ldnt1w {z0.s}, p2/z, [x4, #2, mul vl]")
TEST(1, "ld1rb {z0.s}, p1/z, [x4, #63]")
TEST(2, "ld1rsh {z1.d}, p1/z, [x4, #2]")
TEST(8, "ld1rd {z2.d}, p3/z, [x4, #8]")
TEST(1, "ld1rqb {z0.b}, p1/z, [x4, #16]")
TEST(4, "ld1rqw {z3.s}, p3/z, [x4, x5, lsl #2]")
TEST(1, "ldr z1, [x4]")
TEST(1, "ldr z1, [x4, #-3, mul vl]")
TEST(1, "ldr p2, [x4, #5, mul vl]")
TEST(1, "ldr p15, [x4]")
// Stores.
TEST(1, "st1b {z0.b}, p1, [x4]")
TEST(1, "st1b {z0.h}, p1, [x4, x5]")
TEST(1, "st1b {z1.d}, p3, [x4, #-4, mul vl]")
TEST(2, "st1h {z1.h}, p2, [x4]")
TEST(2, "st1h {z1.s}, p1, [x4, x5, lsl #1]")
TEST(4, "st1w {z2.s}, p1, [x4, #3, mul vl]")
TEST(4, "st1w {z2.d}, p7, [x4, x5, lsl #2]")
TEST(8, "st1d {z3.d}, p1, [x4]")
TEST(1, "stnt1b {z0.b}, p1, [x4, x5]")
TEST(2, "stnt1h {z1.h}, p3, [x4, #1, mul vl]")
TEST(1, "str z3, [x4, #2, mul vl]")
TEST(1, "str z3, [x4]")
TEST(1, "str p1, [x4]")
TEST(1, "str p7, [x4, #-1, mul vl]")
// Others must keep the predicates, and the vectors that they do not load.
TEST(16, "ldr q0, [x4]")
TEST(8, "ldp d1, d2, [x4, #16]")
TEST(2, "ld1r {v1.4h}, [x4]")
TEST(4, "ldr s3, [x4, #4]")
CODE(".pushsection .rodata.tests, \"a\"\n.globl tests_end\ntests_end:\n.popsection")

extern const struct test tests[], tests_end[];

struct registers {
	uint8_t z[4 * 256], p[16 * 32];
};

static void run_tests(int length) {
	static struct registers in, on_bar, on_memory;
	size_t from = MIDDLE - 8 * length, size = 17 * length + 1024;
	equalize(from, size);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < tests_end - tests; i++) {
			fill(&in, sizeof in);
			if (round == 0) // all elements
				memset(in.p, 0xff, sizeof in.p);
			on_bar = on_memory = in;
			size_t at = MIDDLE + (round == 2 ? (16 * i + 3) / tests[i].align * tests[i].align : 0);
			tests[i].run(in.z, in.p, on_memory.z, on_memory.p, memory + at, 24);
			tests[i].run(in.z, in.p, on_bar.z, on_bar.p, bar + at, 24);
			if (memcmp(&on_bar, &on_memory, sizeof on_bar))
				fail("test", i);
		}
		compare("round", round, from, size);
	}
}

typedef void *copier(void *, const void *, size_t);
static copier *volatile copies[] = {memcpy, memmove};
static void *(*volatile set)(void *, int, size_t) = memset;

// library has libc copy and set: on processors with SVE by LD1B and ST1B. Its
// accesses are not aligned, as only a BAR that is mapped for write combining takes.
static int library(void) {
	static uint8_t buffer[4096];
	const int length = 64;
	equalize(MIDDLE, 512);
	for (int n = 0; n <= 2 * length + 3; n = n < 20 ? n + 1 : n + n / 3) {
		for (int kind = 0; kind < 2; kind++) {
			fill(buffer, sizeof buffer);
			int at = MIDDLE + (n * 7 & 31);
			copies[kind](bar + at, buffer + 1, n);
			copies[kind](memory + at, buffer + 1, n);
			uint8_t back[4096];
			copies[kind](back, bar + at, n);
			if (memcmp(back, buffer + 1, n))
				fail("copy of", n);
		}
		set(bar + MIDDLE + 5, n, n);
		set(memory + MIDDLE + 5, n, n);
		compare("copy of", n, MIDDLE, 4 * length + 64);
	}
	return 0;
}

static int sve(void) {
	for (int length = 16; length <= 256; length *= 4) {
		if ((prctl(PR_SVE_SET_VL, length) & PR_SVE_VL_LEN_MASK) != length)
			fail("vector length", length);
		run_tests(length);
	}
	return 0;
}

struct operands {
	uint8_t *to;
	const uint8_t *from;
	uint64_t size, flags;
};

#define MOPS_FUNCTION(name, p, m, e, operands_text) \
	static void name(struct operands *o) { \
		asm volatile(".arch_extension mops\n" \
			p " " operands_text "\n" m " " operands_text "\n" e " " operands_text "\nmrs %3, nzcv" \
			: "+r"(o->to), "+r"(o->from), "+r"(o->size), "=r"(o->flags) : : "memory", "cc"); \
	}
#define COPY(name, p, m, e) MOPS_FUNCTION(name, p, m, e, "[%0]!, [%1]!, %2!")
COPY(copy, "cpyp", "cpym", "cpye")
COPY(copy_forward, "cpyfp", "cpyfm", "cpyfe")
COPY(copy_streaming, "cpyfpwtrn", "cpyfmwtrn", "cpyfewtrn")
MOPS_FUNCTION(set_bytes, "setp", "setm", "sete", "[%0]!, %2!, %1")
MOPS_FUNCTION(set_streaming, "setptn", "setmtn", "setetn", "[%0]!, %2!, %1")

// both makes a copy on the BAR and on memory, between the offsets `from` and `to`;
// -1: a buffer outside of both.
static void both(const char *what, void (*run)(struct operands *), long to, long from,
	size_t size) {
	static uint8_t buffer[2][MOST + 64];
	fill(buffer[0], size);
	memcpy(buffer[1], buffer[0], size);
	struct operands on[2];
	for (int i = 0; i < 2; i++) {
		uint8_t *base = i ? memory : bar;
		on[i] = (struct operands){to < 0 ? buffer[i] + 3 : base + to,
			from < 0 ? buffer[i] : base + from, size, ~0};
		struct operands before = on[i];
		run(on + i);
		on[i].to -= (uintptr_t)before.to;
		on[i].from -= (uintptr_t)before.from;
	}
	if (memcmp(on, on + 1, sizeof *on) || memcmp(buffer[0], buffer[1], sizeof *buffer))
		fail(what, size);
	if (to >= 0)
		compare(what, size, to, size);
}

static int mops(void) {
	static const int sizes[] = {0, 1, 3, 8, 15, 17, 64, 257, 5001};
	equalize(MIDDLE, 0x1800);
	equalize(MIDDLE + 0x4000, 0x1800);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		int n = sizes[i];
		both("CPYF to the BAR", copy_forward, MIDDLE + 5, -1, n);
		both("CPYF from the BAR", copy_forward, -1, MIDDLE + 1, n);
		both("CPYFWTRN within the BAR", copy_streaming, MIDDLE, MIDDLE + 0x4000 + 2, n);
		both("CPY to the BAR", copy, MIDDLE, -1, n);
		both("CPY backward", copy, MIDDLE + 9, MIDDLE, n);
		both("CPY forward", copy, MIDDLE, MIDDLE + 24, n);
		both("SET", set_bytes, MIDDLE + 3, 0, n);
		both("SETTN", set_streaming, MIDDLE, 0, n);
	}
	// Pages of memory before and after the BAR: the CPU itself executes the first
	// stage, or the first and second, and others reach the BAR.
	for (int before = 1; before <= 3; before += 2) {
		uint8_t *area = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
		bar = map_at(area + before * PAGE, PAGE, 0) - before * PAGE;
		static uint8_t zeros[8 * PAGE];
		memset(memory, 0, 8 * PAGE);
		copy_forward(&(struct operands){area, zeros, 8 * PAGE, 0});
		for (int n = before * PAGE + 100; n <= 7 * PAGE; n += 3 * PAGE - 33) {
			both("CPYF across", copy_forward, 11, -1, n);
			both("CPYF from across", copy_forward, -1, 200, n);
			both("CPY backward across", copy, 300, 33, n);
			both("CPY forward across", copy, 33, 300, n);
			both("SET across", set_bytes, 3000, 0, n);
		}
	}
	return 0;
}

int main(int count, char **arguments) {
	setvbuf(stdout, 0, _IONBF, 0);
	if (count != 3 || (fd = open(arguments[1], O_RDWR)) < 0)
		return 64;
	bar = map_at(0, SIZE, 0);
	memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!strcmp(arguments[2], "sve"))
		return sve();
	if (!strcmp(arguments[2], "library"))
		return library();
	return !strcmp(arguments[2], "mops") ? mops() : 64;
}
