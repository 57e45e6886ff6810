// Memory in which a device and a program write to one page, and memory that the device only reads.
// The device is another process. FIOCLEX stands for VFIO_IOMMU_MAP_DMA, FIONCLEX for
// VFIO_IOMMU_UNMAP_DMA.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *memory;
static int asked[2], answer[2];

// A request to the other process: the device writes this byte.
struct request {
	int at;
	char value;
};

static void device(void) {
	struct request r;
	close(asked[1]);
	while (read(asked[0], &r, sizeof r) == sizeof r) {
		memory[r.at] = r.value;
		if (write(answer[1], &r, 1) != 1)
			_exit(9);
	}
	_exit(0);
}

static void deviceWrites(int at, char value) {
	struct request r = {at, value};
	if (write(asked[1], &r, sizeof r) != sizeof r || read(answer[0], &r, 1) != 1)
		_exit(9);
}

static int map(int card, int page, uint64_t bus, int rights) {
	struct vfio_iommu_type1_dma_map map = {sizeof map, rights, (uintptr_t)memory + page * PAGE, bus,
		PAGE};
	return ioctl(card, FIOCLEX, &map);
}

int main(int argc, char **argv) {
	int card = open(argv[1], O_RDWR), fd = memfd_create("answers", 0);
	volatile uint32_t *bar = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
	if (bar == MAP_FAILED || fd < 0 || ftruncate(fd, 3 * PAGE))
		return 1;
	memory = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(memory, 1, 3 * PAGE);
	if (pipe(asked) || pipe(answer))
		return 1;
	if (fork() == 0)
		device();
	if (map(card, 0, 0x10000, 3) || map(card, 1, 0x20000, 3) || map(card, 2, 0x30000, 1))
		return 2;
	bar[0] = 1;
	memory[0] = memory[PAGE] = memory[2 * PAGE] = 2; // only the program
	bar[0] = 2;
	deviceWrites(8, 3); // only the device
	bar[0] = 3;
	memory[16] = memory[2 * PAGE + 16] = 4; // both
	deviceWrites(24, 5);
	bar[0] = 4;
	memory[PAGE + 16] = 6; // both, in a page that the device has not written before
	deviceWrites(PAGE + 24, 7);
	struct vfio_iommu_type1_dma_unmap unmap = {sizeof unmap, 0, 0x20000, PAGE};
	if (ioctl(card, FIONCLEX, &unmap))
		return 3;
	memory[2 * PAGE + 32] = 8;
	unmap.iova = 0x30000;
	if (ioctl(card, FIONCLEX, &unmap))
		return 3;
	bar[0] = 5;
	close(asked[1]);
	wait(0);
	return 0;
}
