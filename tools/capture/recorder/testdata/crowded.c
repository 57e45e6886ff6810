// A program and a device that write to one page of memory, at the same time:
// the device is another process that has the memory too, and is told by a pipe
// what the program stored to the BAR.
//
//	crowded CARD MEMORY [huge]
//
// With huge MEMORY is the name of a memfd, in a huge page. It prints what the
// record is to have between two stores to the BAR.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUS = 0x200000, ROUNDS = 4, COMMAND = 0, LOCK = 0x200, STATISTICS = 0x400, FILLED = 0x600,
	RESULT = 0x800, FLAG = 0xe00 };

static void line(const char *kind, unsigned at, const void *data, int size) {
	printf("= %s %x %d ", kind, at, size);
	for (int i = 0; i < size; i++)
		printf("%02x", ((const uint8_t *)data)[i]);
	printf("\n");
}

static void device(volatile uint8_t *memory, int asked, int answer) {
	char bell;
	for (uint64_t i = 0; read(asked, &bell, 1) == 1; i++) {
		memset((uint8_t *)memory + RESULT + 64 * i, 0xa0 + (int)i, 16);
		*(volatile uint64_t *)(memory + FLAG) = i | 1ull << 32;
		if (write(answer, &bell, 1) != 1)
			_exit(9);
	}
	_exit(0);
}

static volatile uint8_t *memory;

static void *fetched(void *unused) {
	__sync_fetch_and_add((uint64_t *)(memory + LOCK), 1);
	return 0;
}

int main(int count, char **arguments) {
	int huge = count > 3, asked[2], answer[2], data[2];
	size_t size = huge ? 2 << 20 : 4096;
	int card = open(arguments[1], O_RDWR),
		fd = huge ? memfd_create(arguments[2], MFD_HUGETLB) : open(arguments[2], O_RDWR);
	if (fd < 0 || ftruncate(fd, size) || pipe(asked) || pipe(answer) || pipe(data))
		return 1;
	volatile uint32_t *bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
	memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return 77;
	if (fork() == 0) { // before the memory is protected
		close(asked[1]);
		device(memory, asked[0], answer[1]);
	}
	for (uint64_t i = 0; i < ROUNDS; i++) {
		char bell = 1, pattern[16], filled[8] = "abcdefg";
		uint64_t command = 0x5000 + i, lock = 2 * i + 2, done = i | 1ull << 32, zero = 0;
		pthread_t thread;
		*(volatile uint64_t *)(memory + COMMAND + 16 * i) = command;
		line("HR", BUS + COMMAND + 16 * i, &command, 8);
		pthread_create(&thread, 0, fetched, 0);
		fetched(0);
		pthread_join(thread, 0);
		line("HR", BUS + LOCK, &lock, 8);
		filled[7] = i;
		if (write(data[1], filled, 8) != 8 ||
			read(data[0], (void *)(memory + FILLED + 16 * i), 8) != 8)
			return 3;
		line("HR", BUS + FILLED + 16 * i, filled, 8);
		uint32_t stored = i + 1;
		bar[0] = stored;
		line("W", 0, &stored, 4);
		*(volatile uint64_t *)(memory + STATISTICS + 16 * i) = command;
		line("HR", BUS + STATISTICS + 16 * i, &command, 8);
		// Registers that a call does not use keep their contents, such as a pointer.
		if (write(asked[1], &bell, 1) != 1 ||
			syscall(SYS_read, answer[0], &bell, 1, memory, memory, memory) != 1)
			return 2;
		if (*(volatile uint64_t *)(memory + FLAG) != done)
			return 4;
		memset(pattern, 0xa0 + (int)i, 16);
		line("HW", BUS + RESULT + 64 * i, pattern, 16);
		line("HW", BUS + FLAG, &done, 8);
		*(volatile uint64_t *)(memory + FLAG) = 0;
		line("HR", BUS + FLAG, &zero, 8);
	}
	close(asked[1]);
	wait(0);
	printf("done\n");
	return 0;
}
