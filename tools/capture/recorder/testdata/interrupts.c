// Has QEMU's edu compute 5! through VFIO or UIO, and sleeps until its interrupt.
//
//	interrupts DDDD:BB:DD.F [/dev/uioN]
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

// open_vfio opens edu by VFIO, and returns an eventfd for MSI 0.
static int open_vfio(const char *name, int *device) {
	char path[128], link[128] = {0};
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group", name);
	if (readlink(path, link, sizeof link - 1) < 0)
		return perror(path), -1;
	snprintf(path, sizeof path, "/dev/vfio/%s", strrchr(link, '/') + 1);
	int container = open("/dev/vfio/vfio", O_RDWR), group = open(path, O_RDWR);
	if (ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) ||
		ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		return perror("container"), -1;
	int event = eventfd(0, 0);
	*device = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, name);
	struct {
		struct vfio_irq_set head;
		int32_t event;
	} set = {{sizeof set, VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
				 VFIO_PCI_MSI_IRQ_INDEX, 0, 1},
		event};
	uint16_t command = 6;
	pwrite(*device, &command, 2, ((off_t)VFIO_PCI_CONFIG_REGION_INDEX << 40) + 4);
	return ioctl(*device, VFIO_DEVICE_SET_IRQS, &set) ? perror("SET_IRQS"), -1 : event;
}

int main(int count, char **arguments) {
	if (count < 2)
		return 64;
	int device, size = count > 2 ? 4 : 8, event;
	if (count > 2) {
		char path[128];
		snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/resource0", arguments[1]);
		device = open(path, O_RDWR);
		event = open(arguments[2], O_RDWR);
	} else
		event = open_vfio(arguments[1], &device);
	volatile uint32_t *bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
	if (event < 0 || bar == MAP_FAILED)
		return perror("BAR"), 1;
	uint64_t interrupts = 0;
	bar[0x20 / 4] = 0x80; // an interrupt at the end
	bar[0x08 / 4] = 5;
	if (read(event, &interrupts, size) != size || interrupts != 1)
		return perror("interrupt"), 1;
	uint32_t status = bar[0x24 / 4];
	bar[0x64 / 4] = status;
	return bar[0x08 / 4] != 120;
}
