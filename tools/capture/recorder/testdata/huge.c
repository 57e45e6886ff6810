// Gives a device the physical addresses of huge pages, which it finds as
// drivers without an IOMMU do.
//
//	huge FILE
//
// FILE is a BAR of registers: of QEMU's edu, whose DMA copies eight bytes from
// the first page to the second.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE = 2 << 20 };

static volatile char *huge(void) {
	char *p = mmap(0, HUGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		perror("huge page");
	return p;
}

static uint64_t physical(volatile void *p) {
	uint64_t entry = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	if (pread(fd, &entry, 8, (uintptr_t)p / 4096 * 8) != 8 || entry >> 63 == 0)
		return 0;
	close(fd);
	return (entry & ((1ull << 55) - 1)) * 4096 + (uintptr_t)p % 4096;
}

// master makes the device a bus master, by the file `config` beside its resource.
static int master(const char *resource) {
	char path[256];
	uint16_t command = 0;
	snprintf(path, sizeof path, "%.*s/config", (int)(strrchr(resource, '/') - resource), resource);
	int fd = open(path, O_RDWR);
	return pread(fd, &command, 2, 4) == 2 && (command |= 4, pwrite(fd, &command, 2, 4)) == 2;
}

// transfer has edu move eight bytes, to its buffer (1) or from it (3).
static void transfer(volatile char *bar, uint64_t from, uint64_t to, unsigned how) {
	*(volatile uint64_t *)(bar + 0x80) = from;
	*(volatile uint64_t *)(bar + 0x88) = to;
	*(volatile uint32_t *)(bar + 0x90) = 8;
	*(volatile uint32_t *)(bar + 0x98) = how;
	while (*(volatile uint32_t *)(bar + 0x98) & 1)
		;
}

int main(int count, char **arguments) {
	if (count != 2)
		return 64;
	int fd = open(arguments[1], O_RDWR);
	volatile char *bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	volatile char *from = huge(), *to = huge();
	if (bar == MAP_FAILED || from == MAP_FAILED || to == MAP_FAILED)
		return 1;
	if (!physical(from) || !physical(to) || !master(arguments[1]))
		return 2;
	strcpy((char *)from + 0x1000, "by page");
	transfer(bar, physical(from + 0x1000), 0x40000, 1);
	transfer(bar, 0x40000, physical(to + 0x2000), 3);
	*(volatile uint32_t *)(bar + 4) = 1; // edu inverts the bits
	printf("%s\n", (char *)to + 0x2000);
	munmap((void *)from, HUGE);
	*(volatile uint32_t *)(bar + 4) = 2;
	return strcmp((char *)to + 0x2000, "by page") ? 3 : 0;
}
