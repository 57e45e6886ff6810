// A host program that drives a libttsim.so through its BARs, as a user's does.
//
//     client LIBRARY twoop PROGRAM    run a program on one tile
//     client LIBRARY mlp4 PROGRAM     the same network on four tiles, weights by multicast
//     client LIBRARY dma              let a fake device touch host memory
//     client LIBRARY refused          make an access that the library rejects
//     client LIBRARY crash            end without libttsim_exit
//     client LIBRARY leave            return from main without libttsim_exit
//     client LIBRARY fork             let a forked copy use the library and end
//     client LIBRARY never            load the library and unload it, without libttsim_init
//     client LIBRARY probe            the same, and then one session of a copy, as tt-umd does
//
// PROGRAM is a raw image for address 0. What the kernels compute is compared
// with kernels.h; the exit status is 1 where it differs.

#define _GNU_SOURCE // memfd_create
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"

#define BAR0 0x100000000ull
#define BAR2 0x120000000ull
#define CONFIG 0x1fc00000ull
#define SOFT_RESET_0 0xffb121b0ull
#define ALL_HELD 0x47800u
#define BRISC_RUNS 0x47000u

static void (*initialise)(void);
static void (*shutdown)(void);
static void (*set_dma)(
	void (*)(uint64_t, void *, uint32_t), void (*)(uint64_t, const void *, uint32_t));
static uint32_t (*config_read)(uint32_t, uint32_t);
static void (*mem_read)(uint64_t, void *, uint32_t);
static void (*mem_write)(uint64_t, const void *, uint32_t);
static void (*clock_step)(uint32_t);

static bool blackhole;

static void fail(const char *what)
{
	fprintf(stderr, "client: %s\n", what);
	exit(1);
}

static void *symbol(void *library, const char *name)
{
	void *p = dlsym(library, name);
	if (!p)
		fail(dlerror());
	return p;
}

static void *loaded;

static void open_library(const char *path)
{
	void *library = loaded = dlopen(path, RTLD_NOW);
	if (!library)
		fail(dlerror());
	initialise = symbol(library, "libttsim_init");
	shutdown = symbol(library, "libttsim_exit");
	set_dma = symbol(library, "libttsim_set_pci_dma_mem_callbacks");
	config_read = symbol(library, "libttsim_pci_config_rd32");
	mem_read = symbol(library, "libttsim_pci_mem_rd_bytes");
	mem_write = symbol(library, "libttsim_pci_mem_wr_bytes");
	clock_step = symbol(library, "libttsim_clock");
}

// ---- one window: Wormhole's first of 16 MiB (166), Blackhole's first of 2 MiB

struct rectangle {
	uint32_t x0, y0, x1, y1; // one tile where both corners are the same
};

static uint64_t window, window_size;

static void point(struct rectangle r, uint64_t address)
{
	bool multicast = r.x0 != r.x1 || r.y0 != r.y1;
	uint64_t start = multicast ? r.x0 | r.y0 << 6 : 0, end = r.x1 | r.y1 << 6;
	uint64_t corners = end | start << 12 | (uint64_t)multicast << (blackhole ? 26 : 25);
	if (blackhole) {
		uint64_t page = address >> 21;
		unsigned __int128 c = page | (unsigned __int128)corners << 43;
		for (int i = 0; i < 3; i++) {
			uint32_t word = c >> 32 * i;
			mem_write(BAR0 + CONFIG + 4 * i, &word, 4);
		}
	} else {
		uint64_t c = address >> 24 | corners << 12;
		mem_write(BAR0 + CONFIG + 8 * 166, &c, 8);
	}
}

static uint64_t through(uint64_t address) { return BAR0 + window + (address & (window_size - 1)); }

static void point_at(struct rectangle r, uint64_t address) {
	point(r, address & ~(window_size - 1));
}

static void put(uint64_t address, const void *p, uint32_t size) {
	mem_write(through(address), p, size);
}

static void put_word(uint64_t address, uint32_t value) { put(address, &value, 4); }

static void set_reset(struct rectangle r, uint32_t value)
{
	point_at(r, SOFT_RESET_0);
	put_word(SOFT_RESET_0, value);
}

static void wait_done(void)
{
	for (int i = 0; i < 1000; i++) {
		uint32_t flag;
		mem_read(through(FLAG), &flag, 4);
		clock_step(1000);
		if (flag == DONE)
			return;
	}
	fail("the kernel does not end");
}

// ---- data

static uint8_t l1[L1_SIZE]; // what a tile is given
static uint8_t program[1 << 16];
static uint32_t program_size;

static void load_program(const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f || !(program_size = fread(program, 1, sizeof program, f)))
		fail("PROGRAM cannot be read");
	fclose(f);
}

// some returns small pseudo-random numbers, the same in every run.
static int some(int bound)
{
	static uint32_t state = 1;
	state = state * 1664525 + 1013904223;
	return (int)(state >> 8) % bound;
}

static void some_bytes(uint32_t address, uint32_t n, int low, int high)
{
	for (uint32_t i = 0; i < n; i++)
		((int8_t *)l1)[address + i] = low + some(high - low + 1);
}

static void some_words(uint32_t address, uint32_t n, int low, int high)
{
	for (uint32_t i = 0; i < n; i++)
		((int32_t *)(l1 + address))[i] = low + some(high - low + 1);
}

static void give(uint32_t address, uint32_t size) { put(address, l1 + address, size); }

static void take_and_compare(uint32_t address, uint32_t size)
{
	uint8_t got[4096];
	mem_read(through(address), got, size);
	if (memcmp(got, l1 + address, size))
		fail("the device's result is not the one expected");
}

// ---- the runs

static void run_twoop(void)
{
	enum { n = 256, a = 0x20000, b = 0x21000, c = 0x22000, d = 0x23000 };
	uint32_t arguments[] = {n, a, b, c, d};
	struct rectangle tile = blackhole ? (struct rectangle){1, 2, 1, 2}
									  : (struct rectangle){1, 1, 1, 1};
	memcpy(l1 + ARGUMENTS, arguments, sizeof arguments);
	some_words(a, n, -500, 500);
	some_words(b, n, -500, 500);

	set_reset(tile, ALL_HELD);
	point_at(tile, 0);
	put(0, program, program_size);
	put_word(FLAG, 0);
	give(ARGUMENTS, sizeof arguments);
	give(a, 4 * n);
	give(b, 4 * n);
	set_reset(tile, BRISC_RUNS);
	point_at(tile, 0);
	wait_done();
	twoop(l1);
	take_and_compare(d, 4 * n);
	set_reset(tile, ALL_HELD);
}

static void run_mlp4(void)
{
	enum { x = 0x20000, w1 = 0x21000, b1 = 0x22000, w2 = 0x23000, b2 = 0x24000, y = 0x25000 };
	uint32_t arguments[] = {x, w1, b1, w2, b2, y};
	struct rectangle all = blackhole ? (struct rectangle){1, 2, 2, 3}
									 : (struct rectangle){1, 1, 2, 2};
	struct rectangle tile[4];
	static int8_t inputs[4][64];
	for (int i = 0; i < 4; i++) {
		uint32_t tx = all.x0 + i % 2, ty = all.y0 + i / 2;
		tile[i] = (struct rectangle){tx, ty, tx, ty};
	}
	memcpy(l1 + ARGUMENTS, arguments, sizeof arguments);
	some_bytes(w1, 32 * 64, -128, 127);
	some_words(b1, 32, -2000, 2000);
	some_bytes(w2, 10 * 32, -128, 127);
	some_words(b2, 10, -2000, 2000);

	set_reset(all, ALL_HELD);
	point_at(all, 0);
	put(0, program, program_size);
	put_word(FLAG, 0);
	give(ARGUMENTS, sizeof arguments);
	give(w1, 32 * 64);
	give(b1, 4 * 32);
	give(w2, 10 * 32);
	give(b2, 4 * 10);
	for (int i = 0; i < 4; i++) {
		some_bytes(x, 64, -128, 127);
		memcpy(inputs[i], l1 + x, 64);
		point_at(tile[i], 0);
		give(x, 64);
	}
	set_reset(all, BRISC_RUNS);
	for (int i = 0; i < 4; i++) {
		point_at(tile[i], 0);
		wait_done();
		memcpy(l1 + x, inputs[i], 64);
		mlp(l1);
		take_and_compare(y, 4 * 10);
	}
	set_reset(all, ALL_HELD);
}

static uint8_t host[64];

static void host_read(uint64_t address, void *p, uint32_t size) {
	memcpy(p, host + (address & 31), size);
}
static void host_write(uint64_t address, const void *p, uint32_t size) {
	memcpy(host + (address & 31), p, size);
}

static void run_dma(void)
{
	uint32_t low = 0x1000, high = 0x7, go = 1;
	mem_write(BAR2 + 0, &low, 4);
	mem_write(BAR2 + 4, &high, 4);
	mem_write(BAR2 + 16, &go, 4);
	if (memcmp(host, host + 16, 16))
		fail("the device did not copy");
	mem_read(BAR2 + 20, &low, 4);
}

static void run_refused(void)
{
	uint8_t data[16] = {0};
	point_at((struct rectangle){1, 2, 1, 2}, 0);
	put(0, data, sizeof data);
	mem_read(BAR0 + window + window_size - 8, data, sizeof data);
	fail("the library accepts an access across the end of a window");
}

static void run_crash(void)
{
	clock_step(5);
	abort();
}

static void run_fork(void)
{
	if (fork() == 0) {
		clock_step(77);
		exit(0);
	}
	wait(NULL);
	clock_step(1);
}

// Runs one session after the other, of one library, or (reload) of the library loaded
// again. Each session stores its number to DRAM, and writes a mark.
static void run_sessions(const char *path, bool reload)
{
	for (uint32_t i = 2; i <= 3; i++) {
		uint32_t word = 0;
		shutdown();
		if (reload) {
			dlclose(loaded);
			open_library(path);
		}
		initialise();
		void (*mark)(const char *) = dlsym(loaded, "lm_record_mark");
		if (mark)
			mark(i == 2 ? "second session" : "third\nsession");
		point((struct rectangle){1, 2, 1, 2}, 0);
		put_word(0x100, i);
		mem_read(through(0x100), &word, 4);
	}
}

static void unload(void)
{
	dlclose(loaded);
	loaded = NULL;
}

// open_copy loads a copy of the library that has no name.
static void open_copy(const char *path)
{
	static char data[1 << 20];
	char name[64];
	FILE *f = fopen(path, "rb");
	size_t size = f ? fread(data, 1, sizeof data, f) : 0;
	int copy = memfd_create("copy", MFD_CLOEXEC);
	if (!size || copy < 0 || write(copy, data, size) != (ssize_t)size)
		fail("the library cannot be copied");
	fclose(f);
	snprintf(name, sizeof name, "/proc/self/fd/%d", copy);
	open_library(name);
	close(copy);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		fail("usage: client LIBRARY RUN [PROGRAM]");
	const char *run = argv[2];
	open_library(argv[1]);
	if (!strcmp(run, "never")) {
		unload();
		return 0;
	}
	if (!strcmp(run, "probe")) {
		unload();
		open_copy(argv[1]);
	}
	for (int i = 0; i < 16; i++)
		host[i] = 0xa0 + i;
	set_dma(host_read, host_write);
	initialise();
	blackhole = config_read(0, 0) >> 16 == 0xb140;
	window = blackhole ? 0 : 0x0b000000;
	window_size = blackhole ? 2 << 20 : 16 << 20;
	if (argc > 3)
		load_program(argv[3]);
	if (!strcmp(run, "twoop"))
		run_twoop();
	else if (!strcmp(run, "mlp4"))
		run_mlp4();
	else if (!strcmp(run, "dma"))
		run_dma();
	else if (!strcmp(run, "refused"))
		run_refused();
	else if (!strcmp(run, "crash"))
		run_crash();
	else if (!strcmp(run, "fork"))
		run_fork();
	else if (!strcmp(run, "sessions") || !strcmp(run, "reload"))
		run_sessions(argv[1], !strcmp(run, "reload"));
	else if (!strcmp(run, "probe"))
		run_dma();
	else if (!strcmp(run, "leave"))
		return 0;
	else
		fail("unknown RUN");
	shutdown();
	return 0;
}
