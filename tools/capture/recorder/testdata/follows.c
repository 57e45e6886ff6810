// Accesses to a BAR with few instructions in between: what the recorder follows without a stop
// for each access. Prints each access as the record has it, in lines that begin with "= ".
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 1 << 20, MOST = 20000 };
static volatile uint8_t *bar;

// The accesses are printed at the end, because a call of the library in between is not followed.
static struct access { uint32_t offset, width; uint64_t value; char kind; } list[MOST];
static int count;

static void note(char kind, uint32_t offset, uint32_t width, uint64_t value) {
	if (count < MOST)
		list[count++] = (struct access){offset, width, value, kind};
}

static void print(void) {
	for (int n = 0; n < count; n++) {
		printf("= %c %x %d ", list[n].kind, list[n].offset, (int)list[n].width);
		for (uint32_t byte = 0; byte < list[n].width; byte++)
			printf("%02x", (unsigned)(list[n].value >> 8 * byte & 0xff));
		printf("\n");
	}
}

static void store32(uint32_t offset, uint32_t value) {
	*(volatile uint32_t *)(bar + offset) = value;
	note('W', offset, 4, value);
}

static uint32_t load32(uint32_t offset) {
	uint32_t value = *(volatile uint32_t *)(bar + offset);
	note('R', offset, 4, value);
	return value;
}

static void store8(uint32_t offset, uint8_t value) {
	bar[offset] = value;
	note('W', offset, 1, value);
}

static void store64(uint32_t offset, uint64_t value) {
	*(volatile uint64_t *)(bar + offset) = value;
	note('W', offset, 8, value);
}

static void loops(void) {
	static uint32_t words[600];
	int16_t small = -3;
	for (uint32_t n = 0; n < 600; n++)
		words[n] = n * 2654435761u ^ (uint32_t)(small * (int)n);
	for (uint32_t n = 0; n < 600; n++)
		store32(4 * n, words[n]);
	for (uint32_t n = 600; n-- > 0;)
		words[599 - n] = load32(4 * n) + 1;
	for (uint32_t n = 0; n < 300; n++)
		store64(0x4000 + 8 * n, (uint64_t)words[2 * n] << 32 | words[2 * n + 1]);
	for (uint32_t n = 0; n < 300; n++)
		store8(0x8000 + 3 * n, n % 7 == 0 ? 0xff : n >> (n & 7));
	uint32_t sum = 0;
	for (uint32_t n = 0; n < 300; n++) {
		uint32_t v = load32(0x4000 + 8 * n);
		sum = v > sum ? sum * 33 + v : sum - v / 3;
		if ((v & 5) == 5)
			store32(0x9000 + 4 * n, sum);
		else if ((int32_t)v < -1000)
			store32(0xa000 + 4 * n, sum << (v & 15));
	}
	printf("sum %x\n", sum);
}

static uint64_t recurse(uint32_t depth) {
	if (depth == 0)
		return 1;
	uint32_t n = depth * 4;
	store32(n, depth);
	uint64_t below = recurse(depth - 1) * 3 + load32(n);
	store64(0x8000 + 8 * depth, below);
	return below;
}

// edge copies from the last bytes of a mapping, and calls functions by pointers.
static void edge(void) {
	uint8_t *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(pages + 4096, 4096);
	for (int n = 0; n < 4096; n++)
		pages[n] = n * 7;
	static void (*const kinds[])(uint32_t, uint32_t) = {store32, store32};
	for (uint32_t n = 0; n < 1024; n++) {
		uint32_t v;
		memcpy(&v, pages + 4 * n, 4);
		kinds[v & 1](4 * n, v);
	}
	for (uint32_t n = 0; n < 256; n++)
		pages[4095 - n] = load32(4 * n);
	uint32_t sum = 0;
	for (int n = 0; n < 4096; n++)
		sum = sum * 31 + pages[n];
	printf("sum %x\n", sum);
}

// code is a function that changes its next instruction, between two stores to the BAR.
static void code(void) {
	uint8_t *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	const uint8_t function[] = {
		0x89, 0x37,                   // mov %esi, (%rdi)
		0x88, 0x15, 3, 0, 0, 0,       // mov %dl, 3(%rip): the number of the next
		0xc7, 0x47, 4, 0, 0, 0, 0,    // movl $0, 4(%rdi)
		0xc3,                         // ret
	};
	memcpy(page, function, sizeof function);
	for (uint32_t n = 0; n < 100; n++) {
		uint8_t changed = n * 7;
		((void (*)(volatile uint8_t *, uint32_t, uint8_t))page)(bar + 8 * n, n, changed);
		note('W', 8 * n, 4, n);
		note('W', 8 * n + 4, 4, changed);
	}
}

// order loads ordinary memory before and after a word of the BAR, and compares it with the word.
// The device writes the memory before the word, and in the memory a word before the last one.
static int order(const char *path) {
	int fd = open(path, O_RDWR);
	volatile uint32_t *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	uint32_t bad = 0, sum = 0;
	if (memory == MAP_FAILED)
		return 1;
	*(volatile uint32_t *)(bar + 4096) = 1;
	for (int round = 0; round < 2000; round++)
		for (int n = 0; n < 16; n++) {
			sum += memory[0];
			uint32_t told = *(volatile uint32_t *)(bar + 4 * n);
			if (memory[0] - told > 1u << 31)
				bad++;
			sum += memory[15] + memory[16]; // one after the other: what follows is read with them
			uint32_t last = memory[1023];
			if (memory[17] - last > 1u << 31)
				bad++;
		}
	*(volatile uint32_t *)(bar + 4100) = 1;
	printf("%u bad, %d\n", bad, sum > 0);
	return 0;
}

// steps adds to words, each by one instruction that loads and stores.
static void steps(void) {
	for (int n = 0; n < 50000; n++)
		__asm__ volatile("incl %0" : "+m"(((volatile uint32_t *)bar)[n % 256]));
}

// rings stores many words to memory that a device reads, between two stores to the BAR.
static int rings(const char *path) {
	int fd = open(path, O_RDWR);
	volatile uint64_t *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return 1;
	*(volatile uint32_t *)bar = 1;
	for (int pass = 1; pass <= 10; pass++)
		for (int n = 0; n < 512; n++)
			memory[n] = memory[n] * 3 + n + pass;
	*(volatile uint32_t *)bar = 2;
	return 0;
}

// poll waits until the device, which is another process, changes a word.
static void poll(void) {
	store32(8, 1);
	while (*(volatile uint32_t *)(bar + 4) == 0)
		;
}

static volatile uint64_t theirs, ours;
static volatile int ended;
static uint64_t torn;

static void *other(void *unused) {
	(void)unused;
	while (!ended) {
		theirs = ~theirs;
		uint64_t v = ours;
		if (v != 0 && v != ~0ull)
			torn++;
	}
	return 0;
}

// shared loads and stores words that another thread stores and loads, between stores to the BAR.
static void shared(void) {
	pthread_t thread;
	uint64_t seen = 0;
	pthread_create(&thread, 0, other, 0);
	for (uint32_t n = 0; n < 40000; n++) {
		*(volatile uint32_t *)(bar + n % 1024 * 4) = n;
		uint64_t v = theirs;
		if (v != 0 && v != ~0ull)
			seen++;
		ours = ~ours;
	}
	ended = 1;
	pthread_join(thread, 0);
	printf("%d torn\n", (int)(torn + seen));
}

int main(int arguments, char **argument) {
	int fd = arguments >= 3 ? open(argument[1], O_RDWR) : -1;
	bar = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bar == MAP_FAILED)
		return 1;
	const char *what = argument[2];
	if (strcmp(what, "loops") == 0)
		loops();
	else if (strcmp(what, "recursion") == 0)
		printf("%x\n", (unsigned)recurse(400));
	else if (strcmp(what, "edge") == 0)
		edge();
	else if (strcmp(what, "code") == 0)
		code();
	else if (strcmp(what, "rings") == 0)
		return rings(argument[3]);
	else if (strcmp(what, "steps") == 0)
		return steps(), 0;
	else if (strcmp(what, "poll") == 0)
		return poll(), 0;
	else if (strcmp(what, "shared") == 0)
		return shared(), 0;
	else if (strcmp(what, "order") == 0)
		return order(argument[3]);
	print();
	return 0;
}
