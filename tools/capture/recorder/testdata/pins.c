// Has Tenstorrent's driver give memory of its own, pin a page, unpin it, pin it
// again after it has changed, and reset the card.
//
//	pins FILE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

// tt-kmd's ioctl.h
enum { MAPPINGS = 0xfa02, ALLOCATE = 0xfa03, RESET = 0xfa06, PIN = 0xfa07, UNPIN = 0xfa0a };
enum { PAGE = 4096 };

static int pin(int fd, char *page) {
	struct {
		uint32_t out, flags;
		uint64_t address, size, bus;
	} p = {8, 0, (uintptr_t)page, PAGE, 0};
	if (ioctl(fd, PIN, &p))
		return -1;
	printf("= MEM %llx %x\n", (unsigned long long)p.bus, PAGE);
	return 0;
}

static int reset(int fd, uint32_t flags) {
	uint32_t r[4] = {8, flags};
	return ioctl(fd, RESET, r) || r[3];
}

// The driver's memory, 16 pages, is no BAR.
static int memory(int fd) {
	struct {
		uint32_t size;
		uint8_t index, flags, reserved[18];
		uint64_t bus, offset;
		uint32_t given, reserved1;
		uint64_t noc, reserved2;
	} m = {.size = 16 * PAGE};
	if (ioctl(fd, ALLOCATE, &m))
		return -1;
	char *own = mmap(0, m.given, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m.offset);
	if (own == MAP_FAILED)
		return -1;
	own[16 * PAGE - 1] = 1;
	return own[0] != 0;
}

int main(int count, char **arguments) {
	struct {
		uint32_t count, reserved;
		struct {
			uint32_t id, reserved;
			uint64_t base, size;
		} list[6];
	} all = {.count = 6};
	uint64_t unpin[3];
	int fd = open(arguments[1], O_RDWR | O_APPEND);
	char *page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (count != 2 || fd < 0 || page == MAP_FAILED || ioctl(fd, MAPPINGS, &all))
		return 1;
	// A card is in the record only after something of it is mapped.
	if (mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, all.list[0].base) == MAP_FAILED)
		return 2;
	if (memory(fd))
		return 7;
	strcpy(page + 8, "pinned1");
	if (pin(fd, page))
		return 3;
	unpin[0] = (uintptr_t)page, unpin[1] = PAGE, unpin[2] = 0;
	if (ioctl(fd, UNPIN, unpin))
		return 4;
	strcpy(page + 16, "pinned2");
	if (pin(fd, page))
		return 5;
	return reset(fd, 3) ? 6 : 0; // USER_RESET
}
