// The freestanding player of runtime/c on plain memory, with the smallest possible port.
#include "format.h"
#include "side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REGISTERS = 1 << 16 }; // bytes of registers of a device

struct replay {
	struct lmplay_replay replay;
	struct lmplay_hooks hooks;
	const struct lmplay_image *image;
	uint8_t *device, *registers, *arena;
	uint64_t *places; // of windows in the device's memory
};

// map_registers returns the address of registers that the player itself programs, of which half
// are in BAR 0. The bench has no use for what they contain.
static uint8_t *map_registers(const struct replay *r, const struct lmplay_range *range) {
	uint8_t *registers = r->registers + (size_t)range->device * REGISTERS;
	return registers + (range->bar == 0 ? 0 : REGISTERS / 2);
}

static enum lmplay_code map(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping) {
	struct replay *r = context;
	if (range->window == LMPLAY_NONE) {
		mapping->address = (uintptr_t)map_registers(r, range);
		return range->size <= REGISTERS / 2 ? LMPLAY_OK : LMPLAY_NO_DEVICE;
	}
	mapping->address = (uintptr_t)(r->device + r->places[range->window]);
	mapping->bus = BUS_BASE + r->places[range->window];
	// A TLB window that is larger than the window of the image would need more memory.
	return range->size <= windows_of(r->image)[range->window].size ? LMPLAY_OK : LMPLAY_NO_DEVICE;
}

static enum lmplay_code query(void *context, uint32_t device) {
	(void)context, (void)device;
	return LMPLAY_OK;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on) {
	(void)context, (void)device, (void)on;
	return LMPLAY_OK;
}

static uint64_t read_clock(void *context) {
	(void)context;
	return (uint64_t)monotonic_ns();
}

static void wait_for(void *context, uint64_t nanoseconds) {
	struct timespec t = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
	(void)context;
	nanosleep(&t, NULL);
}

struct replay *replay_load(const struct lmplay_image *image, uint8_t *device) {
	struct replay *r = calloc(1, sizeof *r);
	struct lmplay_device devices[LMPLAY_DEVICES_MAX];
	struct lmplay_plan plan;
	lmplay_plan(image, &plan);
	r->image = image;
	r->device = device;
	r->places = calloc(plan.windows, sizeof *r->places);
	lay_out_windows(image, r->places);
	r->registers = aligned_alloc(4096, LMPLAY_DEVICES_MAX * REGISTERS);
	r->arena = aligned_alloc(plan.align, align_up(plan.arena_bytes, plan.align));
	r->hooks = (struct lmplay_hooks){.context = r, .map = map, .query = query,
		.set_bus_master = set_bus_master, .now = read_clock, .wait = wait_for};
	for (uint32_t i = 0; i < plan.devices; i++) {
		const struct image_device *d = &devices_of(image)[i];
		devices[i] = (struct lmplay_device){d->vendor, d->device, d->subsystem, {0}};
		for (int bar = 0; bar < LMPLAY_BARS; bar++)
			devices[i].bars[bar] = UINT64_C(1) << 40; // no image needs more
	}
	struct lmplay_error error;
	enum lmplay_code code = lmplay_load(&r->replay, image, &r->hooks, devices, plan.devices,
		r->arena, plan.arena_bytes, &error);
	if (code != LMPLAY_OK)
		fprintf(stderr, "bench: %s %u: %s\n", error.place, error.index, error.reason);
	return code == LMPLAY_OK ? r : NULL;
}

struct outcome replay_run(struct replay *r, uint32_t sequence, unsigned way) {
	struct lmplay_result result;
	(void)way;
	enum lmplay_code code = lmplay_run(&r->replay, sequence, 0, &result);
	return (struct outcome){lmplay_exit_status(code),
		code == LMPLAY_OK ? 0 : (int32_t)result.command, result.ignored};
}

const uint8_t *replay_output(const struct replay *r, uint32_t tensor) {
	return lmplay_output(&r->replay, tensor);
}

void replay_close(struct replay *r) {
	lmplay_unload(&r->replay);
	free(r->places);
	free(r->registers);
	free(r->arena);
	free(r);
}
