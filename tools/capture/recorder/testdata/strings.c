// String instructions of amd64 that repeat, on a mapped file.
//
//	strings FILE SCENARIO
//
// It prints a sum of what it has read, which has to be the same without the recorder.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20, PAGE = 4096 };

static uint8_t *card, *memory;

static void stos(void *to, uint64_t value, size_t count) {
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory");
}

static void movs1(void *to, const void *from, size_t count) {
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
}

static void movs4(void *to, const void *from, size_t count) {
	__asm__ volatile("rep movsl" : "+D"(to), "+S"(from), "+c"(count)::"memory");
}

static void down(void *to, const void *from, size_t count) {
	__asm__ volatile("std; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(count)::"memory");
}

static void open_page(int signal, siginfo_t *info, void *context) {
	(void)signal, (void)context;
	uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1);
	mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
}

int main(int count, char **arguments) {
	int fd = open(arguments[1], O_RDWR);
	card = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (count != 3 || card == MAP_FAILED || memory == MAP_FAILED)
		return 1;
	for (int i = 0; i < SIZE; i++)
		memory[i] = (uint8_t)(i * 2654435761u >> 13);
	if (!strcmp(arguments[2], "fill"))
		stos(card, 0x5a, SIZE);
	if (!strcmp(arguments[2], "write"))
		movs1(card, memory, SIZE);
	if (!strcmp(arguments[2], "words"))
		movs4(card + 3, memory + 5, 5000);
	if (!strcmp(arguments[2], "read")) {
		movs1(card + 100, memory + 7, 10000);
		movs1(memory, card + 100, 10000);
	}
	if (!strcmp(arguments[2], "down"))
		down(card + 99, memory + 5099, 100);
	if (!strcmp(arguments[2], "within")) {
		movs1(card, memory, 1);
		movs1(card + 1, card, 20); // each element is what the one before has stored
	}
	if (!strcmp(arguments[2], "closed")) {
		struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
		sigaction(SIGSEGV, &action, 0);
		mprotect(memory + PAGE, PAGE, PROT_NONE);
		movs1(memory + 10, card, 2 * PAGE);
	}
	uint32_t sum = 0;
	for (int i = 0; i < SIZE; i++)
		sum = sum * 31 + memory[i];
	printf("%08x\n", (unsigned)sum);
	return 0;
}
