// Has VFIO map memory for QEMU's edu, and closes all files without unmapping;
// and once more, other memory at another bus address.
//
//	closes DDDD:BB:DD.F
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 2 << 20, PAGE = 4096 };

// session has the device copy eight bytes from the first page to the second.
static int session(const char *name, int group_number, uint64_t bus, const char *text) {
	char path[64];
	snprintf(path, sizeof path, "/dev/vfio/%d", group_number);
	int container = open("/dev/vfio/vfio", O_RDWR), group = open(path, O_RDWR);
	if (ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) ||
		ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		return perror("container"), 1;
	int device = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, name);
	char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vfio_iommu_type1_dma_map map = {
		sizeof map, VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE, (uintptr_t)memory, bus, SIZE};
	if (ioctl(container, VFIO_IOMMU_MAP_DMA, &map))
		return perror("memory"), 1;
	uint16_t command = 6;
	pwrite(device, &command, 2, ((off_t)VFIO_PCI_CONFIG_REGION_INDEX << 40) + 4);
	volatile char *bar = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
	if (bar == MAP_FAILED)
		return perror("BAR"), 1;
	memcpy(memory, text, 8);
	const uint64_t moves[][3] = {{bus, 0x40000, 1}, {0x40000, bus + PAGE, 3}};
	for (int i = 0; i < 2; i++) {
		*(volatile uint64_t *)(bar + 0x80) = moves[i][0];
		*(volatile uint64_t *)(bar + 0x88) = moves[i][1];
		*(volatile uint32_t *)(bar + 0x90) = 8;
		*(volatile uint32_t *)(bar + 0x98) = moves[i][2];
		while (*(volatile uint32_t *)(bar + 0x98) & 1)
			;
	}
	*(volatile uint32_t *)(bar + 4) = 0; // the record has all changes before this store
	munmap((void *)bar, PAGE);
	return close(device) || close(group) || close(container) || memcmp(memory + PAGE, text, 8);
}

int main(int count, char **arguments) {
	char path[128], link[128] = {0};
	if (count != 2)
		return 64;
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group", arguments[1]);
	if (readlink(path, link, sizeof link - 1) < 0)
		return perror(path), 1;
	int group = atoi(strrchr(link, '/') + 1);
	return session(arguments[1], group, 0x100000, "first 8") ||
		session(arguments[1], group, 0x800000, "other 8");
}
