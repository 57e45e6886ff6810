// The C program of the bench: it replays images on plain memory.
//
//	PROGRAM IMAGE   device memory is file descriptor 3; answers requests
//	PROGRAM spin    loads and stores 32 MiB for ever: a busy neighbour
//
// Requests, one a line, numbers in decimal, times in nanoseconds:
//
//	pin CPU                      -> 0
//	run SEQUENCE COUNT WAY       -> TIME STATUS COMMAND CRC IGNORED
//	                                of all runs; WAY as in side.h; CRC of all outputs;
//	                                failures ignored in the last run
//	frames SEQUENCE COUNT PERIOD -> COUNT, then COUNT times as 8-byte integers
#include "crc32c.h"
#include "format.h"
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum status { USAGE = 64, BAD_IMAGE = 65, WRONG_DEVICE = 78 };

_Noreturn static void fail(int status, const char *reason) {
	fprintf(stderr, "bench: %s\n", reason);
	exit(status);
}

// An image file, mapped into memory.
struct file {
	uint8_t *bytes;
	size_t size;
};

static struct file open_file(const char *path) {
	struct stat status;
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &status) != 0)
		fail(BAD_IMAGE, path);
	size_t size = (size_t)status.st_size;
	uint8_t *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (bytes == MAP_FAILED)
		fail(BAD_IMAGE, path);
	return (struct file){bytes, size};
}

// verify checks an image. It allows sequences of any duration.
static void verify(struct lmplay_image *image, struct file f) {
	struct lmplay_error error;
	struct lmplay_plan plan;
	if (lmplay_open(image, f.bytes, f.size, &error) != LMPLAY_OK)
		fail(BAD_IMAGE, error.reason);
	lmplay_plan(image, &plan);
	void *work = aligned_alloc(plan.align, align_up(plan.verify_bytes, plan.align));
	if (lmplay_verify(image, work, plan.verify_bytes, UINT64_MAX, &error) != LMPLAY_OK)
		fail(BAD_IMAGE, error.reason);
	free(work);
}

static uint8_t *map_device(const struct lmplay_image *image) {
	struct stat status;
	uint64_t size = device_size(image);
	if (size == 0 || fstat(3, &status) != 0 || (uint64_t)status.st_size < size)
		fail(WRONG_DEVICE, "the image needs more than plain memory, or more memory than there is");
	uint8_t *device = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
	if (device == MAP_FAILED)
		fail(WRONG_DEVICE, "the memory of the device cannot be mapped");
	return device;
}

static struct replay *open_replay(const struct lmplay_image *image, uint8_t *device) {
	struct replay *r = replay_load(image, device);
	if (!r)
		fail(WRONG_DEVICE, "the image cannot be loaded on plain memory");
	return r;
}

// outputs_crc returns the checksum of all outputs one after another.
static uint32_t outputs_crc(const struct lmplay_image *image, const struct replay *r) {
	uint32_t crc = 0;
	for (uint32_t i = 0; i < vector_count(image, VECTOR_TENSORS); i++)
		if (tensors_of(image)[i].role == OUTPUT)
			crc = crc32c(crc, replay_output(r, i), tensors_of(image)[i].size);
	return crc;
}

static void time_runs(const struct lmplay_image *image, struct replay *r, uint32_t sequence,
	uint64_t count, unsigned way) {
	struct outcome outcome = {0, 0, 0};
	int64_t began = monotonic_ns();
	while (count-- && outcome.status == 0)
		outcome = replay_run(r, sequence, way);
	int64_t took = monotonic_ns() - began;
	printf("%lld %d %d %u %u\n", (long long)took, outcome.status, outcome.command,
		outputs_crc(image, r), outcome.ignored);
}

static void time_frames(struct replay *r, uint32_t sequence, uint64_t count, int64_t period) {
	int64_t *took = calloc(count, sizeof *took);
	memset(took, 0xff, count * sizeof *took); // makes every page present
	int64_t next = monotonic_ns();
	for (uint64_t i = 0; i < count; i++) {
		next += period;
		struct timespec t = {next / 1000000000, next % 1000000000};
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
		int64_t began = monotonic_ns();
		if (replay_run(r, sequence, 0).status != 0)
			fail(70, "a frame failed");
		took[i] = monotonic_ns() - began;
	}
	printf("%llu\n", (unsigned long long)count);
	fwrite(took, sizeof *took, count, stdout);
	free(took);
}

static void pin(unsigned cpu) {
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
	printf("0\n");
}

static void serve(const struct lmplay_image *image, uint8_t *device) {
	char line[128];
	unsigned long long a, b, c;
	struct replay *r = open_replay(image, device);
	uint32_t sequences = vector_count(image, VECTOR_SEQUENCES);
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "run %llu %llu %llu", &a, &b, &c) == 3 && a < sequences)
			time_runs(image, r, (uint32_t)a, b, (unsigned)c);
		else if (sscanf(line, "frames %llu %llu %llu", &a, &b, &c) == 3 && a < sequences)
			time_frames(r, (uint32_t)a, b, (int64_t)c);
		else if (sscanf(line, "pin %llu", &a) == 1)
			pin((unsigned)a);
		else
			fail(USAGE, line);
		fflush(stdout);
	}
	replay_close(r);
}

_Noreturn static void spin(void) {
	enum { SIZE = 32 << 20 };
	volatile uint64_t *memory = malloc(SIZE);
	for (uint64_t n = 0;; n++)
		for (size_t i = 0; i < SIZE / sizeof *memory; i += 8)
			memory[i] += n;
}

int main(int argc, char **argv) {
	struct lmplay_image image;
	if (argc == 2 && strcmp(argv[1], "spin") == 0)
		spin();
	if (argc != 2)
		fail(USAGE, "usage: PROGRAM IMAGE, or PROGRAM spin");
	verify(&image, open_file(argv[1]));
	serve(&image, map_device(&image));
	return 0;
}
