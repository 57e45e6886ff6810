// cref: reads, checks and replays images on plain memory.
//
//	cref check IMAGE   the checksums; 0, or 65 with a reason on standard error
//	cref serve IMAGE   device memory is file descriptor 3; answers requests
//	cref once IMAGE    device memory as above; loads, runs sequence 0, ends
//	cref spin          loads and stores 32 MiB for ever: a busy neighbour
//
// Requests to serve, one a line, numbers in decimal, times in nanoseconds:
//
//	pin CPU                      -> 0
//	run SEQUENCE COUNT WAY       -> TIME STATUS COMMAND CRC IGNORED
//	                                of all runs; WAY 0: memcpy, 1: streaming stores;
//	                                2 more: threaded code; CRC of all outputs;
//	                                failures ignored in the last run
//	load COUNT                   -> TIME                       open, check, load, close
//	hash COUNT                   -> TIME                       open, CRC-32C of the whole file,
//close 	frames SEQUENCE COUNT PERIOD -> COUNT, then COUNT times as 8-byte integers
#define _GNU_SOURCE
#include "replay.h"
#include "player.h"
#include "verify.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int fail(enum status status, const char *reason) {
	fprintf(stderr, "cref: %s\n", reason);
	return status;
}

static uint8_t *map_device(const struct image *image) {
	struct stat status;
	uint64_t size = device_size(image);
	if (size == 0 || fstat(3, &status) != 0 || (uint64_t)status.st_size < size)
		return NULL;
	uint8_t *device = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
	return device == MAP_FAILED ? NULL : device;
}

// outputs_crc is the checksum of all outputs one after another.
static uint32_t outputs_crc(const struct replay *r) {
	uint32_t crc = 0;
	for (uint32_t i = 0; i < r->image->reservation.tensors; i++)
		if (r->image->tensors[i].role == OUTPUT)
			crc = crc32c(
				crc, r->arena + r->image->tensors[i].arena_offset, r->image->tensors[i].size);
	return crc;
}

static void run(struct replay *r, uint32_t sequence, uint64_t count, unsigned way) {
	struct result result = {DONE, 0};
	r->way = way;
	int64_t began = now();
	while (count-- && result.status == DONE)
		result = replay_run(r, sequence);
	int64_t took = now() - began;
	printf("%lld %d %d %u %u\n", (long long)took, result.status, result.command, outputs_crc(r),
		r->ignored);
}

static void load(const char *path, uint8_t *device, uint64_t count) {
	int64_t began = now();
	while (count--) {
		struct image image;
		struct replay r;
		if (image_open(&image, path) || image_check(&image) ||
			replay_load(&r, &image, device) != DONE)
			exit(fail(BAD_IMAGE, path));
		replay_close(&r);
		image_close(&image);
	}
	printf("%lld\n", (long long)(now() - began));
}

static void hash(const char *path, uint64_t count) {
	volatile uint32_t crc;
	int64_t began = now();
	while (count--) {
		struct image image;
		if (image_open(&image, path))
			exit(fail(BAD_IMAGE, path));
		crc = crc32c(0, image.data, image.size);
		image_close(&image);
	}
	(void)crc;
	printf("%lld\n", (long long)(now() - began));
}

static void frames(struct replay *r, uint32_t sequence, uint64_t count, int64_t period) {
	int64_t *took = calloc(count, sizeof *took);
	memset(took, 0xff, count * sizeof *took); // every page present
	int64_t next = now();
	for (uint64_t i = 0; i < count; i++) {
		next += period;
		struct timespec t = {next / 1000000000, next % 1000000000};
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
		int64_t began = now();
		if (replay_run(r, sequence).status != DONE)
			exit(fail(INTERNAL, "a frame failed"));
		took[i] = now() - began;
	}
	printf("%llu\n", (unsigned long long)count);
	fwrite(took, sizeof *took, count, stdout);
	free(took);
}

static int serve(const struct image *image, const char *path) {
	char line[128];
	unsigned long long a, b, c;
	struct replay r;
	uint8_t *device = map_device(image);
	if (!device || replay_load(&r, image, device) != DONE)
		return fail(
			WRONG_DEVICE, "the image needs more than plain memory, or more memory than there is");
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "run %llu %llu %llu", &a, &b, &c) == 3 &&
			a < image->reservation.sequences) {
			run(&r, a, b, c);
		} else if (sscanf(line, "load %llu", &a) == 1) {
			load(path, device, a);
		} else if (sscanf(line, "hash %llu", &a) == 1) {
			hash(path, a);
		} else if (sscanf(line, "frames %llu %llu %llu", &a, &b, &c) == 3 &&
			a < image->reservation.sequences) {
			frames(&r, a, b, c);
		} else if (sscanf(line, "pin %llu", &a) == 1) {
			cpu_set_t set;
			CPU_ZERO(&set);
			CPU_SET(a, &set);
			sched_setaffinity(0, sizeof set, &set);
			printf("0\n");
		} else {
			return fail(USAGE, line);
		}
		fflush(stdout);
	}
	replay_close(&r);
	return DONE;
}

static int once(const struct image *image) {
	struct replay r;
	const char *bad = image_check(image);
	if (bad)
		return fail(BAD_IMAGE, bad);
	uint8_t *device = map_device(image);
	if (!device || replay_load(&r, image, device) != DONE)
		return fail(
			WRONG_DEVICE, "the image needs more than plain memory, or more memory than there is");
	return replay_run(&r, 0).status;
}

_Noreturn static void spin(void) {
	enum { SIZE = 32 << 20 };
	volatile uint64_t *memory = malloc(SIZE);
	for (uint64_t n = 0;; n++)
		for (size_t i = 0; i < SIZE / sizeof *memory; i += 8)
			memory[i] += n;
}

// verify prints for each image of a list what is wrong with it, and where.
static int verify(const char *boards, const char *list) {
	char path[4096];
	FILE *file = fopen(list, "r");
	if (!file || !known_read(boards))
		return fail(USAGE, "no list of images, or no rules of boards");
	while (fgets(path, sizeof path, file)) {
		struct image image;
		path[strcspn(path, "\n")] = 0;
		const char *bad = image_verify(&image, path);
		printf("%s: %s\n", bad ? image_place : "good", bad ? bad : "");
		if (image.data)
			image_close(&image);
	}
	fclose(file);
	return DONE;
}

int main(int argc, char **argv) {
	struct image image;
	if (argc == 2 && strcmp(argv[1], "spin") == 0)
		spin();
	if (argc == 5 && strcmp(argv[1], "play") == 0) {
		const char *wrong = image_open(&image, argv[2]);
		return wrong ? fail(BAD_IMAGE, wrong) : player_run(&image, atoi(argv[3]), atoll(argv[4]));
	}
	if (argc != 3)
		return fail(USAGE,
			"usage: cref check|serve|once IMAGE, cref BOARDS LIST, "
			"cref play IMAGE FAULT AFTER, or cref spin");
	const char *bad;
	if (strcmp(argv[1], "serve") != 0 && strcmp(argv[1], "once") != 0 &&
		strcmp(argv[1], "check") != 0)
		return verify(argv[1], argv[2]);
	bad = image_open(&image, argv[2]);
	if (bad)
		return fail(BAD_IMAGE, bad);
	if (strcmp(argv[1], "serve") == 0)
		return serve(&image, argv[2]);
	if (strcmp(argv[1], "once") == 0)
		return once(&image);
	bad = image_check(&image);
	return bad ? fail(BAD_IMAGE, bad) : DONE;
}
