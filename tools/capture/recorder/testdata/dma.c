// A program, and a device that reaches its memory: another process that has the
// memory too, and is told by a pipe what the program stored to the BAR.
//
//	dma CARD MEMORY
//
// It prints what the record is to have, in order.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUS = 0x10000, PAGE = 4096, ROUNDS = 4 };

static void line(const char *kind, unsigned at, const void *data, int size) {
	printf("= %s %x %d ", kind, at, size);
	for (int i = 0; i < size; i++)
		printf("%02x", ((const uint8_t *)data)[i]);
	printf("\n");
}

static void device(uint8_t *memory, int asked, int answer) {
	char bell;
	for (uint64_t i = 0; read(asked, &bell, 1) == 1; i++) {
		memset(memory + PAGE + 64 * i, 0xa0 + (int)i, 16);
		*(volatile uint64_t *)(memory + 2 * PAGE + 16 * i) = i | 1ull << 32;
		if (write(answer, &bell, 1) != 1)
			_exit(9);
	}
	_exit(0);
}

int main(int count, char **arguments) {
	uint64_t before = 0x1122334455667788, odd = 0;
	int card = open(arguments[1], O_RDWR), fd = open(arguments[2], O_RDWR), asked[2], answer[2];
	if (count < 3 || pwrite(fd, &before, 8, 4 * PAGE) != 8 || pipe(asked) || pipe(answer))
		return 1;
	volatile uint32_t *bar = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
	uint8_t *memory = mmap(0, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	line("HR", BUS + 4 * PAGE, &before, 8);
	if (fork() == 0) {
		close(asked[1]);
		device(memory, asked[0], answer[1]);
	}
	for (uint64_t i = 0; i < ROUNDS; i++) {
		char bell = 1, pattern[16];
		uint64_t command = 0x5000 + i, done = i | 1ull << 32;
		*(volatile uint64_t *)(memory + 32 * i) = command;
		line("HR", BUS + 32 * i, &command, 8);
		if (i == 1) { // a part of a word
			memcpy(memory + 0x801, "abc", 3);
			memcpy((char *)&odd + 1, "abc", 3);
			line("HR", BUS + 0x800, &odd, 8);
		}
		bar[0] = i + 1;
		uint32_t stored = i + 1;
		line("W", 0, &stored, 4);
		if (write(asked[1], &bell, 1) != 1 || read(answer[0], &bell, 1) != 1)
			return 2;
		if (*(volatile uint64_t *)(memory + 2 * PAGE + 16 * i) != done)
			return 3;
		memset(pattern, 0xa0 + (int)i, 16);
		line("HW", BUS + PAGE + 64 * i, pattern, 16);
		line("HW", BUS + 2 * PAGE + 16 * i, &done, 8);
	}
	close(asked[1]);
	wait(0);
	printf("done\n");
	return 0;
}
