// A replay of an image on plain memory, in plain C: what the runtime's ratios
// are measured against. Nothing is checked here; image_check has done so.
#ifndef REPLAY_H
#define REPLAY_H

#include "image.h"

// How block writes to memory are made: by memcpy, or by a loop of stores that
// pass the cache by. How commands are: by a switch, or by threaded code.
enum way { MEMCPY = 0, STREAM = 1, SWITCH = 0, THREADED = 2 };

// Exit statuses of lightmetal's programs.
enum status {
	DONE = 0,
	USAGE = 64,
	BAD_IMAGE = 65,
	INTERNAL = 70,
	DEADLINE_PASSED = 75,
	EXPECT_FAILED = 76,
	COMPARE_FAILED = 76,
	WRONG_DEVICE = 78,
};

struct result {
	enum status status;
	int32_t command; // that failed
};

struct replay {
	const struct image *image;
	struct command *commands; // completed
	uint8_t **windows;        // address of each window's first byte
	uint8_t **memories;       // payload, then each tensor: its data in the payload, or the arena
	uint8_t *registers;       // that aim windows
	uint8_t *arena;
	unsigned way;
	int disabled;
	uint32_t ignored; // failures of policy Ignore in this run
	int32_t at;
};

// device_size returns the size of the memory that replaces the devices and all that the
// image reaches: the BARs of each device in turn, then host memory, each window of it
// at a multiple of 4096, then what Tlb windows show, one place each wherever it
// points, and a page with 16 bytes of registers for each of those. Configuration
// space is no memory: 0.
uint64_t device_size(const struct image *image);

// replay_load places the windows of a checked image in device memory. Bus
// addresses count from BUS_BASE.
#define BUS_BASE 0x10000000
enum status replay_load(struct replay *r, const struct image *image, uint8_t *device);

struct result replay_run(struct replay *r, uint32_t sequence);

void replay_close(struct replay *r);

int64_t now(void); // nanoseconds, monotonic

#endif
