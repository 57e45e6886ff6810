// A libttsim.so for tests where the vendor's is not at hand: windows, the L1
// of tiles and one reset register, as in a Wormhole (or, with -DBLACKHOLE, a
// Blackhole), and nothing else. There are no cores: 2000 clocks after a
// release the first word of L1 says which kernel's result appears. A store to
// BAR 2 + 16 and a load from BAR 2 + 20 make the device touch host memory. The
// registers of the iATU hold what is stored to them.

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

#define BAR0 0x100000000ull
#define BAR2 0x120000000ull
#define CONFIG 0x1fc00000
#define SOFT_RESET_0 0xffb121b0
#define KERNEL_CLOCKS 2000

#ifndef IDS // PCI device and vendor
#ifdef BLACKHOLE
#define IDS 0xb1401e52
#else
#define IDS 0x401e1e52
#endif
#endif

static struct tile {
	uint8_t *l1;
	uint32_t reset;
	uint64_t doneAt;
} tiles[64][64];

static uint32_t config[3 * 210]; // Wormhole: 2 words a window
static uint32_t bar2[64];
static uint32_t command;
static uint64_t now;
static int running;
static void (*hostRead)(uint64_t, void *, uint32_t);
static void (*hostWrite)(uint64_t, const void *, uint32_t);

static void refuse(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("[%" PRIu64 "] ERROR: Fake: ", now);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	fflush(stdout);
	_Exit(1);
}

// ---- windows

struct target {
	uint32_t x, y, xStart, yStart, multicast;
	uint64_t address;
};

#ifdef BLACKHOLE
static struct target translate(uint64_t offset, uint32_t size)
{
	uint32_t *c = config + 3 * (offset >> 21), inside = offset & 0x1fffff;
	if (inside + (uint64_t)size > 1 << 21)
		refuse("TLB region overrun: offset=0x%x size=%u", inside, size);
	return (struct target){
		c[1] >> 11 & 63, c[1] >> 17 & 63, c[1] >> 23 & 63, c[1] >> 29 | (c[2] & 7) << 3,
		c[2] >> 5 & 1,
		((uint64_t)(c[1] & 0x7ff) << 32 | c[0]) << 21 | inside,
	};
}
#else
static struct target translate(uint64_t offset, uint32_t size)
{
	int shift = offset < 0x9c00000 ? 20 : offset < 0xb000000 ? 21 : 24, n = 36 - shift;
	uint64_t slot = offset >> 20;
	if (shift == 21)
		slot = 156 + ((offset - 0x9c00000) >> 21);
	else if (shift != 20)
		slot = 166 + ((offset - 0xb000000) >> 24);
	uint64_t c = config[2 * slot] | (uint64_t)config[2 * slot + 1] << 32;
	uint64_t inside = offset & ((1u << shift) - 1);
	if (inside + size > 1u << shift)
		refuse("TLB region overrun: offset=0x%" PRIx64 " size=%u", inside, size);
	uint64_t address = (c & ((1ull << n) - 1)) << shift | inside;
	c >>= n;
	return (struct target){c & 63, c >> 6 & 63, c >> 12 & 63, c >> 18 & 63, c >> 25 & 1, address};
}
#endif

// ---- tiles

static struct tile *tile(uint32_t x, uint32_t y)
{
	struct tile *t = &tiles[x][y];
	if (!t->l1) {
		t->l1 = calloc(1, L1_SIZE);
		t->reset = 0x47800;
	}
	return t;
}

static void tile_write(struct tile *t, uint64_t address, const void *p, uint32_t size)
{
	if (address == SOFT_RESET_0 && size == 4) {
		memcpy(&t->reset, p, 4);
		t->doneAt = t->reset & 0x800 ? 0 : now + KERNEL_CLOCKS;
	} else if (address < L1_SIZE && size <= L1_SIZE - address) {
		memcpy(t->l1 + address, p, size);
	} else {
		refuse("write of %u bytes at 0x%" PRIx64 " of a tile", size, address);
	}
}

static void tile_read(struct tile *t, uint64_t address, void *p, uint32_t size)
{
	if (address == SOFT_RESET_0 && size == 4)
		memcpy(p, &t->reset, 4);
	else if (address < L1_SIZE && size <= L1_SIZE - address)
		memcpy(p, t->l1 + address, size);
	else
		refuse("read of %u bytes at 0x%" PRIx64 " of a tile", size, address);
}

static void finish(struct tile *t)
{
	uint32_t kernel, done = DONE;
	memcpy(&kernel, t->l1, 4);
	if (kernel == FAKE_TWOOP)
		twoop(t->l1);
	else if (kernel == FAKE_MLP)
		mlp(t->l1);
	else
		refuse("illegal instruction 0x%08x", kernel);
	memcpy(t->l1 + FLAG, &done, 4);
	t->doneAt = 0;
}

// ---- the ten entry points

void libttsim_init(void) { running = 1; }

void libttsim_exit(void)
{
	if (!running)
		refuse("sim is not running");
	running = 0;
	printf("[%" PRIu64 "] 0.0 seconds\n", now);
}

void libttsim_set_pci_dma_mem_callbacks(void (*rd)(uint64_t, void *, uint32_t),
	void (*wr)(uint64_t, const void *, uint32_t))
{
	hostRead = rd;
	hostWrite = wr;
}

uint32_t libttsim_pci_config_rd32(uint32_t bdf, uint32_t offset)
{
	if (bdf)
		return UINT32_MAX;
	switch (offset) {
	case 0x00: return IDS;
	case 0x04: return command;
	case 0x10: return 4;
	case 0x14: return 1;
	case 0x18: return 0x20000004;
	case 0x1c: return 1;
	case 0x20: return 4;
	case 0x24: return 8;
	}
	refuse("config offset=0x%x", offset);
	return 0;
}

void libttsim_pci_config_wr32(uint32_t bdf, uint32_t offset, uint32_t value)
{
	if (bdf || offset != 4)
		refuse("config offset=0x%x", offset);
	command = value & 0xffff;
}

// The device reads 16 bytes at the host address in words 0 and 1 of BAR 2, and
// writes them 16 bytes further on.
static void dma(void)
{
	uint8_t data[16];
	uint64_t address = bar2[0] | (uint64_t)bar2[1] << 32;
	if (!hostRead || !hostWrite)
		refuse("DMA callback not installed");
	hostRead(address, data, sizeof data);
	hostWrite(address + sizeof data, data, sizeof data);
}

static uint32_t iatu[0x2200 / 4]; // BAR 2 + 0x1000 and on

static int inIATU(uint64_t address, uint32_t size)
{
	return address - BAR2 - 0x1000 < sizeof iatu && !(address & 3) && size == 4;
}

void libttsim_pci_mem_rd_bytes(uint64_t address, void *p, uint32_t size)
{
	if (inIATU(address, size)) {
		memcpy(p, &iatu[(address - BAR2 - 0x1000) / 4], 4);
		return;
	}
	if (address - BAR2 < sizeof bar2 && size == 4) {
		memcpy(p, &bar2[(address - BAR2) / 4], 4);
		if (address - BAR2 == 20)
			dma();
		return;
	}
	if (address - BAR0 >= 0x19400000)
		refuse("read of %u bytes at 0x%" PRIx64, size, address);
	struct target t = translate(address - BAR0, size);
	if (t.multicast)
		refuse("multicast read");
	tile_read(tile(t.x, t.y), t.address, p, size);
}

void libttsim_pci_mem_wr_bytes(uint64_t address, const void *p, uint32_t size)
{
	if (inIATU(address, size)) {
		memcpy(&iatu[(address - BAR2 - 0x1000) / 4], p, 4);
		return;
	}
	if (address - BAR2 < sizeof bar2 && size == 4) {
		memcpy(&bar2[(address - BAR2) / 4], p, 4);
		if (address - BAR2 == 16)
			dma();
		return;
	}
	uint64_t word = (address - BAR0 - CONFIG) / 4;
	if (address - BAR0 >= CONFIG && word < 3 * 210 && !(address & 3) && (size == 4 || size == 8)) {
		memcpy(&config[word], p, size);
		return;
	}
	if (address - BAR0 >= 0x1f000000)
		refuse("write of %u bytes at 0x%" PRIx64, size, address);
	struct target t = translate(address - BAR0, size);
	if (!t.multicast)
		t.xStart = t.x, t.yStart = t.y;
	for (uint32_t y = t.yStart; y <= t.y; y++)
		for (uint32_t x = t.xStart; x <= t.x; x++)
			tile_write(tile(x, y), t.address, p, size);
}

void libttsim_clock(uint32_t n)
{
	now += n;
	for (int i = 0; i < 64 * 64; i++) {
		struct tile *t = &tiles[i / 64][i % 64];
		if (t->doneAt && now >= t->doneAt)
			finish(t);
	}
}

void libttsim_tile_rd_bytes(uint32_t x, uint32_t y, uint64_t address, void *p, uint32_t size)
{
	refuse("libttsim_tile_rd_bytes");
}

void libttsim_tile_wr_bytes(uint32_t x, uint32_t y, uint64_t address, const void *p, uint32_t size)
{
	refuse("libttsim_tile_wr_bytes");
}
