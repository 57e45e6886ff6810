// An example of a driver in user space, for QEMU's edu device: it enables the PCI function, maps
// BAR 0, and lets the device compute a factorial.

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUNCTION "/sys/bus/pci/devices/0000:00:01.0/"

int main(void)
{
	int enable = open(FUNCTION "enable", O_WRONLY);
	if (enable < 0 || write(enable, "1", 1) != 1) {
		perror(FUNCTION "enable");
		return 1;
	}
	int bar = open(FUNCTION "resource0", O_RDWR | O_SYNC);
	volatile uint32_t *registers =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, bar, 0);
	if (registers == MAP_FAILED) {
		perror(FUNCTION "resource0");
		return 1;
	}
	if (registers[0] != 0x010000ed) { // offset 0x00: the id
		fprintf(stderr, "the device is not edu\n");
		return 1;
	}
	registers[2] = 10;         // offset 0x08: compute the factorial of 10
	while (registers[8] & 1) { // offset 0x20: the device is computing
	}
	printf("factorial: %u\n", registers[2]);
	return registers[2] != 3628800;
}
