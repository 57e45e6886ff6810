// Runs the freestanding player of runtime/c on the host, for the tests in tools/check/cplayer.
//
//	harness verify LIST                      one line for each image in a list of paths: a verdict
//	harness play IMAGE FAULT AFTER BUDGET    every access of sequence 0, and how it ended
//
// play makes a device of zeros, with a clock of its own: each access takes 100 ns. After AFTER
// stores the device has a fault: 1 every access is an error, 2 loads return all ones, 3 the lowest
// bit of each load is wrong, 4 loads return 0 for 5050 ns; 0: no fault. BUDGET is that of
// lmplay_step; 0: lmplay_run.
#include "lmplay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCESS_NS = 100, LATE_NS = 5050, BUS_BASE = 0x10000000, PAGE = 4096 };
enum fault { NO_FAULT, ERRORS, ALL_ONES, WRONG, LATE };

// Handles of registers that the player itself maps: REGISTERS + device.
enum { REGISTERS = 0x100000 };

// A window of the image, as image.fbs declares it.
struct window {
	uint8_t kind, device, bar, flags;
	uint16_t slot, reserved;
	uint64_t offset, size;
};

struct machine {
	struct lmplay_image image;
	struct lmplay_plan plan;
	uint8_t *memory;
	uint64_t places[4096]; // of windows in memory
	enum fault fault;
	uint64_t after, stores; // the device fails after so many stores
	uint64_t now, failed;   // nanoseconds
	int talks;              // accesses are printed
};

// read_file returns the bytes of a file at an address that is a multiple of 64, or exits.
static uint8_t *read_file(const char *path, size_t *size) {
	FILE *file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) != 0) {
		perror(path);
		exit(66);
	}
	*size = (size_t)ftell(file);
	rewind(file);
	uint8_t *bytes = aligned_alloc(64, (*size + 64) / 64 * 64);
	if (!bytes || fread(bytes, 1, *size, file) != *size) {
		perror(path);
		exit(74);
	}
	fclose(file);
	return bytes;
}

static void print_error(const struct lmplay_error *error) {
	if (error->index == LMPLAY_NONE)
		printf("%s: %s\n", error->place, error->reason);
	else
		printf("%s %u: %s\n", error->place, error->index, error->reason);
}

// allocate returns memory for the arena, of which nothing is zero.
static void *allocate(uint64_t size) {
	void *memory = aligned_alloc(64, (size + 64) / 64 * 64);
	if (memory)
		memset(memory, 0xa5, size);
	return memory;
}

// verify_file opens and verifies a file, if the player can verify.
static enum lmplay_code verify_file(struct lmplay_image *image, const uint8_t *bytes, size_t size,
	struct lmplay_error *error) {
	enum lmplay_code code = lmplay_open(image, bytes, size, error);
	if (code != LMPLAY_OK)
		return code;
#if !defined LMPLAY_VERIFY || LMPLAY_VERIFY
	struct lmplay_plan plan;
	lmplay_plan(image, &plan);
	void *work = allocate(plan.verify_bytes);
	code = lmplay_verify(image, work, plan.verify_bytes, 0, error);
	free(work);
#endif
	return code;
}

static int verify(const char *list) {
	char path[4096];
	FILE *file = fopen(list, "r");
	if (!file)
		return 66;
	while (fgets(path, sizeof path, file)) {
		struct lmplay_image image;
		struct lmplay_error error;
		size_t size;
		path[strcspn(path, "\n")] = 0;
		uint8_t *bytes = read_file(path, &size);
		if (verify_file(&image, bytes, size, &error) == LMPLAY_OK)
			printf("good: \n");
		else
			print_error(&error);
		free(bytes);
	}
	fclose(file);
	return 0;
}

static int fails(const struct machine *m) { return m->fault && m->stores >= m->after; }

static int is_dead(const struct machine *m) { return fails(m) && m->fault <= ALL_ONES; }

static const struct window *window_of(const struct machine *m, uint32_t index) {
	enum { WINDOWS = 2 }; // number of the field in image.fbs
	return &((const struct window *)m->image.vectors[WINDOWS].elements)[index];
}

static enum lmplay_code map(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping) {
	struct machine *m = context;
	mapping->by_hooks = 1;
	mapping->address = range->window == LMPLAY_NONE ? REGISTERS + range->device : range->window;
	if (range->window != LMPLAY_NONE)
		mapping->bus = BUS_BASE + m->places[range->window];
	if (range->fixed_bus != 0)
		mapping->bus = range->fixed_bus;
	return LMPLAY_OK;
}

// print_place prints where an access goes: to registers, or to the memory of a window. What a Tlb
// window shows is the same memory wherever it points.
static uint64_t print_place(const struct machine *m, char what, uint32_t width, uintptr_t address,
	uint64_t offset) {
	if (address >= REGISTERS) {
		if (m->talks)
			printf("%c %u r%u+%llx ", what, width, (unsigned)(address - REGISTERS),
				(unsigned long long)offset);
		return UINT64_MAX;
	}
	const struct window *w = window_of(m, (uint32_t)address);
	uint64_t at = m->places[address] + offset % w->size;
	if (m->talks)
		printf("%c %u %llx ", what, width, (unsigned long long)at);
	return at;
}

static enum lmplay_code load(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t *value) {
	struct machine *m = context;
	*value = 0;
	if (address >= REGISTERS) {
		print_place(m, 'L', width, address, offset);
		printf("0\n");
		return LMPLAY_OK;
	}
	m->now += ACCESS_NS;
	if (fails(m) && m->fault == ERRORS)
		return LMPLAY_DEVICE_GONE;
	uint64_t at = print_place(m, 'L', width, address, offset);
	memcpy(value, m->memory + at, width);
	if (fails(m) && m->fault == ALL_ONES)
		*value = UINT64_MAX >> (64 - 8 * width);
	else if (fails(m) && m->fault == WRONG)
		*value ^= 1;
	else if (fails(m) && m->fault == LATE && m->now < m->failed + LATE_NS)
		*value = 0;
	printf("%llx\n", (unsigned long long)*value);
	return LMPLAY_OK;
}

static enum lmplay_code store(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t value) {
	struct machine *m = context;
	if (address >= REGISTERS) {
		print_place(m, 'S', width, address, offset);
		printf("%llx\n", (unsigned long long)value);
		return LMPLAY_OK;
	}
	m->now += ACCESS_NS;
	if (fails(m) && m->fault == ERRORS)
		return LMPLAY_DEVICE_GONE;
	uint64_t at = print_place(m, 'S', width, address, offset);
	printf("%llx\n", (unsigned long long)value);
	if (!is_dead(m))
		memcpy(m->memory + at, &value, width);
	if (++m->stores == m->after)
		m->failed = m->now;
	return LMPLAY_OK;
}

static enum lmplay_code load_config(void *context, uint32_t device, uint32_t offset,
	uint32_t width, uint32_t *value) {
	struct machine *m = context;
	uint64_t loaded;
	for (uint32_t i = 0; i < m->plan.windows; i++)
		if (window_of(m, i)->kind == 4 && window_of(m, i)->device == device) {
			enum lmplay_code code = load(context, i, offset, width, &loaded);
			*value = (uint32_t)loaded;
			return code;
		}
	return LMPLAY_INTERNAL;
}

static enum lmplay_code query(void *context, uint32_t device) {
	(void)device;
	return is_dead(context) ? LMPLAY_DEVICE_GONE : LMPLAY_OK;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on) {
	(void)context;
	printf("M %u %u\n", device, on);
	return LMPLAY_OK;
}

static uint64_t now(void *context) { return ((struct machine *)context)->now; }

static void wait_for(void *context, uint64_t nanoseconds) {
	((struct machine *)context)->now += nanoseconds;
}

static void barrier(void *context) {
	(void)context;
	printf("F\n");
}

static uint64_t round_up(uint64_t n) { return (n + PAGE - 1) / PAGE * PAGE; }

// lay_out places windows in memory: the BARs of each device in turn, then Host windows, Tlb windows
// and Config windows. It sets the devices, and returns the size of the memory.
static uint64_t lay_out(struct machine *m, struct lmplay_device *devices) {
	uint64_t bars[LMPLAY_DEVICES_MAX][LMPLAY_BARS], next = 0;
	for (uint32_t d = 0; d < m->plan.devices; d++) {
		struct lmplay_need need;
		lmplay_need(&m->image, d, &need);
		devices[d].vendor = need.vendor, devices[d].device = need.device;
		devices[d].subsystem = need.subsystem;
		for (int b = 0; b < LMPLAY_BARS; b++) {
			bars[d][b] = next;
			next += round_up(need.bars[b]);
			devices[d].bars[b] = (uint64_t)1 << 40;
		}
	}
	static const int order[] = {1, 3, 2, 4};
	for (int k = 0; k < 4; k++)
		for (uint32_t i = 0; i < m->plan.windows; i++) {
			const struct window *w = window_of(m, i);
			if (w->kind != order[k])
				continue;
			m->places[i] = w->kind == 1 ? bars[w->device][w->bar] + w->offset : next;
			next += w->kind == 1 ? 0 : round_up(w->size);
		}
	return next;
}

// run executes sequence 0 with lmplay_run, or in steps, and prints how it ended.
static void run(struct machine *m, struct lmplay_replay *replay, uint32_t budget) {
	struct lmplay_result r;
	if (budget == 0) {
		lmplay_run(replay, 0, 0, &r);
	} else {
		lmplay_start(replay, 0, 0);
		while (lmplay_step(replay, budget) == LMPLAY_BUSY)
			if (lmplay_next_ns(replay) > m->now)
				m->now = lmplay_next_ns(replay);
		lmplay_result(replay, &r);
	}
	printf("end %d %d %llx %llx %llx %llx %u %u %d\n", r.code, r.code ? (int)r.command : 0,
		(unsigned long long)r.got, (unsigned long long)r.want, (unsigned long long)r.mask,
		(unsigned long long)r.element, r.ignored, r.safe_ran, r.safe);
}

// give_inputs lets runs read zeros as the inputs without default data.
static void give_inputs(struct machine *m, struct lmplay_replay *replay) {
	for (uint32_t i = 0; i < m->plan.tensors; i++) {
		struct lmplay_tensor tensor;
		lmplay_tensor(&m->image, i, &tensor);
		if (tensor.role == LMPLAY_INPUT && !tensor.data)
			lmplay_input(replay, i);
	}
}

static void print_outputs(struct machine *m, const struct lmplay_replay *replay) {
	for (uint32_t i = 0; i < m->plan.tensors; i++) {
		struct lmplay_tensor tensor;
		lmplay_tensor(&m->image, i, &tensor);
		const uint8_t *output = lmplay_output(replay, i);
		for (uint64_t n = 0; output && n < tensor.size; n++)
			printf("%s%02x", n ? "" : "output ", output[n]);
		if (output)
			printf("\n");
	}
}

static int play(struct machine *m, const char *path, uint32_t budget) {
	struct lmplay_hooks hooks = {m, map, load, store, load_config, query, set_bus_master, now,
		wait_for, barrier, NULL, NULL};
	struct lmplay_device devices[LMPLAY_DEVICES_MAX];
	struct lmplay_replay replay;
	struct lmplay_error error;
	size_t size;
	uint8_t *bytes = read_file(path, &size);
	if (verify_file(&m->image, bytes, size, &error) != LMPLAY_OK) {
		print_error(&error);
		return 65;
	}
	lmplay_plan(&m->image, &m->plan);
	m->memory = calloc(1, lay_out(m, devices) + 8);
	m->talks = 1;
	void *arena = allocate(m->plan.arena_bytes);
	enum lmplay_code code = lmplay_load(&replay, &m->image, &hooks, devices,
		m->plan.devices, arena, m->plan.arena_bytes, &error);
	if (code == LMPLAY_OK) {
		give_inputs(m, &replay);
		run(m, &replay, budget);
		print_outputs(m, &replay);
		lmplay_unload(&replay);
	} else {
		printf("load %d ", code);
		print_error(&error);
	}
	free(arena), free(m->memory), free(bytes);
	return 0;
}

int main(int argc, char **argv) {
	static struct machine machine;
	if (argc == 3 && strcmp(argv[1], "verify") == 0)
		return verify(argv[2]);
	if (argc == 6 && strcmp(argv[1], "play") == 0) {
		machine.fault = (enum fault)atoi(argv[3]);
		machine.after = (uint64_t)atoll(argv[4]);
		return play(&machine, argv[2], (uint32_t)atoll(argv[5]));
	}
	fprintf(stderr, "usage: harness verify LIST, or harness play IMAGE FAULT AFTER BUDGET\n");
	return 64;
}
