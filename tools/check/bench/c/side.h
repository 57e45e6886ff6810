// The C program of the bench: serve.c has main and answers requests; tuned.c replays. It runs on
// plain memory instead of devices, which tools/check/bench/plain lays out, and lets
// runtime/c/lmplay.c verify the image.
#ifndef SIDE_H
#define SIDE_H

#include "lmplay.h"

#include <time.h>

// Bus address of the first byte of device memory.
#define BUS_BASE 0x10000000

// How the tuned loops run: block writes by memcpy, or by stores that bypass the cache; commands
// by a switch, or by threaded code.
enum way { MEMCPY = 0, STREAM = 1, SWITCH = 0, THREADED = 2 };

struct outcome {
	int status;      // exit status of lightmetal's programs
	int32_t command; // that failed
	uint32_t ignored; // failures after which the run continued
};

struct replay;

// replay_load places the windows of a verified image in device memory. It returns NULL if it
// cannot.
struct replay *replay_load(const struct lmplay_image *image, uint8_t *device);

struct outcome replay_run(struct replay *r, uint32_t sequence, unsigned way);

// replay_output returns the bytes of an output.
const uint8_t *replay_output(const struct replay *r, uint32_t tensor);

void replay_close(struct replay *r);

// monotonic_ns returns the time of the monotonic clock in nanoseconds.
static inline int64_t monotonic_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

#endif
