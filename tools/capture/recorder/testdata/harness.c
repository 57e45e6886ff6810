// Runs each instruction of a generated file (tests.S) on a mapped file, with
// known registers, and prints all registers afterwards.
//
//	harness FILE
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct state {
	uint64_t r[16], flags, k[8];
	uint8_t z[32][64];
};

struct test {
	void (*run)(void);
	const char *name;
	uint64_t flags; // mask of the flags that are defined afterwards
	uint64_t shown; // mask of the general registers that are printed
};

extern const struct test tests[];
extern const int test_count;
struct state in, out;
uint64_t saved;

static uint64_t seed;
static uint64_t next(void) {
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed;
}

static void print(const char *name, int n, const void *data, int size) {
	const uint8_t *b = data;
	printf(" %s%d=", name, n);
	for (int i = size; i-- > 0;)
		printf("%02x", b[i]);
}

enum { BAR_AT = 0x10000000, MEMORY_AT = 0x20000000, SIZE = 4096, MIDDLE = 1024 };

int main(int count, char **arguments) {
	int fd = open(arguments[1], O_RDWR);
	uint8_t *bar = mmap((void *)BAR_AT, SIZE, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	uint8_t *memory = mmap((void *)MEMORY_AT, SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	static uint8_t copy[SIZE];
	if (count != 2 || bar != (void *)BAR_AT || memory != (void *)MEMORY_AT)
		return 64;
	for (int t = 0; t < test_count; t++)
		for (int round = 0; round < 5; round++) {
			seed = 88172645463325252ull + 1000 * t + round;
			for (size_t i = 0; i < sizeof in / 8; i++)
				((uint64_t *)&in)[i] = next();
			for (size_t i = 0; i < sizeof copy / 8; i++)
				((uint64_t *)copy)[i] = round == 3 && i % 3 ? 0 : next();
			if (round == 2) // equal elements, for comparisons
				for (int i = 0; i < 32; i++)
					memcpy(in.z[i], copy + MIDDLE, 64), in.z[i][9] ^= 1;
			if (round == 4) { // equal numbers, and a carry
				memset(copy, 0xff, SIZE);
				memset(in.r, 0xff, sizeof in.r);
				in.flags |= 1;
			}
			if (lseek(fd, 0, SEEK_SET) || write(fd, copy, SIZE) != SIZE)
				return 1;
			memcpy(memory, copy, SIZE);
			in.flags = (in.flags & 0x8d5) | 0x202 | (round & 1) << 10;
			in.r[1] = 5 + round;         // RCX: how often
			in.r[2] = 3;                 // RDX: an index
			in.r[6] = MEMORY_AT + MIDDLE; // RSI
			in.r[7] = BAR_AT + MIDDLE;   // RDI
			tests[t].run();
			out.r[4] -= saved;
			printf("%s / %d:", tests[t].name, round);
			for (int i = 0; i < 16; i++)
				if (tests[t].shown >> i & 1)
					print("r", i, &out.r[i], 8);
			printf(" flags=%03x", (unsigned)(out.flags & tests[t].flags));
			for (int i = 0; i < 8; i++)
				print("k", i, &out.k[i], 8);
			for (int i = 0; i < 32; i++)
				if (memcmp(in.z[i], out.z[i], 64))
					print("z", i, out.z[i], 64);
			static uint8_t after[SIZE];
			if (pread(fd, after, SIZE, 0) != SIZE)
				return 1;
			for (int i = 0; i < SIZE; i++)
				if (after[i] != copy[i])
					printf(" bar+%d=%02x", i - MIDDLE, after[i]);
			for (int i = 0; i < SIZE; i++)
				if (memory[i] != copy[i])
					printf(" memory+%d=%02x", i - MIDDLE, memory[i]);
			printf("\n");
		}
	return 0;
}
