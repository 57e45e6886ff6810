// A program for a card that adds vectors, as a vendor would write one: BAR 0 has
// registers, BAR 2 memory for two vectors and their sum. It maps both, and is told
// nothing of lightmetal.
//
//	adder BAR0 BAR2        on a card, /sys/bus/pci/devices/.../resource0 and resource2
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ID = 0x0 / 4, LENGTH = 0x8 / 4, STATUS = 0x10 / 4 }; // 32-bit registers of BAR 0
enum { DOORBELL = 0x18 / 8 };                               // a register of 64 bits
enum { A = 0x0 / 4, B = 0x40 / 4, SUM = 0x80 / 4, N = 4 };  // vectors in BAR 2

static void *map(const char *path, size_t size) {
	int file = open(path, O_RDWR | O_SYNC);
	void *bar = MAP_FAILED;
	if (file >= 0)
		bar = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (bar == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	return bar;
}

int main(int argc, char **argv) {
	if (argc != 3)
		return fprintf(stderr, "usage: adder BAR0 BAR2\n"), 64;
	volatile uint32_t *registers = map(argv[1], 4096), *memory = map(argv[2], 4096);
	volatile uint64_t *doorbell = (volatile uint64_t *)registers + DOORBELL;
	if (registers[ID] != 0xadde4001)
		return fprintf(stderr, "no adder\n"), 1;
	for (uint32_t i = 0; i < N; i++) {
		memory[A + i] = i + 1;
		memory[B + i] = 10 * (i + 1);
	}
	registers[LENGTH] = N;
	*doorbell = 1;
	while (!(registers[STATUS] & 1))
		;
	for (int i = 0; i < N; i++)
		printf("%u\n", memory[SUM + i]);
	return 0;
}
