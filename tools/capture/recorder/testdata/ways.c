// Reaches QEMU's edu by ways to BAR 0 that are neither VFIO nor its resource,
// and by files that act on it and on a device that can be reset. With `hangs`
// it uses the resource, and the first start on a machine never ends.
//
//	ways mem|uio|files|hangs DDDD:BB:DD.F DDDD:BB:DD.F
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int opened(const char *device, const char *file, int flags) {
	char path[256];
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", device, file);
	return open(path, flags);
}

static uint64_t address(const char *device) {
	char text[64] = {0};
	unsigned long long first = 0;
	int fd = opened(device, "resource", O_RDONLY);
	if (read(fd, text, sizeof text - 1) > 0)
		sscanf(text, "0x%llx", &first);
	close(fd);
	return first;
}

int main(int count, char **arguments) {
	int fd = -1;
	off_t offset = 0;
	if (count != 4)
		return 64;
	if (!strcmp(arguments[1], "mem"))
		fd = open("/dev/mem", O_RDWR | O_SYNC), offset = address(arguments[2]);
	else if (!strcmp(arguments[1], "uio"))
		fd = open("/dev/uio0", O_RDWR);
	else if (!strcmp(arguments[1], "hangs"))
		fd = opened(arguments[2], "resource0", O_RDWR);
	else {
		uint16_t command;
		int config = opened(arguments[2], "config", O_RDWR);
		int reset = opened(arguments[3], "reset", O_WRONLY);
		if (pread(config, &command, 2, 4) != 2 ||
			(command |= 4, pwrite(config, &command, 2, 4)) != 2)
			return 2;
		uint32_t bar;
		config = dup2(dup(config), 77);
		lseek(config, 0x10, SEEK_SET); // later reads continue there
		if (read(config, &bar, 4) != 4 || pread(fcntl(config, F_DUPFD, 90), &bar, 4, 0x14) != 4)
			return 3;
		if (write(reset, "1", 1) != 1)
			return 4;
		fd = opened(arguments[2], "resource0", O_RDWR);
	}
	volatile uint32_t *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (p == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	uint32_t id = p[0];
	p[2] = 5;
	while (p[8] & 1)
		;
	if (!strcmp(arguments[1], "hangs") && open("/tmp/hung", O_CREAT | O_EXCL, 0600) >= 0)
		pause();
	printf("%s: %x, 5! is %u\n", arguments[1], id, p[2]);
	return p[2] == 120 ? 0 : 5;
}
