// Appends marks to a file between stores to a BAR.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int card = open(argv[1], O_RDWR), marks = -1;
	volatile uint32_t *bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
	if (bar == MAP_FAILED || argc < 3)
		return 1;
	for (int i = 1; i < 4; i++) {
		bar[0] = i;
		if (i == 1) // as QEMU opens it
			marks = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0666);
		else
			dprintf(marks, " %d", i); // a line in two parts
		dprintf(marks, "\nframe\x1b");
	}
	dprintf(marks, " 4\n\n");
	return 0;
}
