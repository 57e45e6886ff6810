/* See port.h. */
#include "port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lmplay_range ranges[RANGES];
uint32_t range_count;
bool by_hooks = true;

const struct lmplay_range *range_of(uintptr_t address) {
	return &ranges[(address >> ADDRESS_BITS) - 1];
}

uint64_t offset_of(uintptr_t address) {
	return address & ((UINT64_C(1) << ADDRESS_BITS) - 1);
}

static enum lmplay_code map(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping) {
	if (range_count == RANGES)
		return LMPLAY_INTERNAL;
	ranges[range_count] = *range;
	uint64_t bus = (range->window == LMPLAY_NONE) ? 0 : bus_address(context, range->window);
	if (range->fixed_bus != 0 && range->fixed_bus != bus)
		return LMPLAY_NO_DEVICE;
	range_count++;
	mapping->address = ((uintptr_t)range_count << ADDRESS_BITS) + range->offset;
	mapping->by_hooks = by_hooks;
	mapping->bus = bus;
	return LMPLAY_OK;
}

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

/* Writes the place of an error in the words of vectors. */
static void write_place(const struct lmplay_error *e, char place[64]) {
	static const char *const elements[] = {
		"device", "rule", "window", "sequence", "segment", "tensor", "ring",
		"command"};
	const char *name = "flatbuffer";
	bool is_preamble = strcmp(e->place, "preamble") == 0;
	if (is_preamble && has(e->reason, "checksum of the envelope"))
		name = "checksum";
	else if (is_preamble || strcmp(e->place, "signature") == 0)
		name = e->place;
	else if (has(e->reason, "has no device, no window") || has(e->reason, "a count differs"))
		name = "counts";
	else if (strcmp(e->place, "reservation") == 0)
		name = "sums";
	else if (strcmp(e->place, "payload") == 0 && has(e->reason, "file ends"))
		name = "payload";
	else if (has(e->reason, "padding bytes"))
		name = "payload";
	else if (strcmp(e->place, "image") == 0 && has(e->reason, "arena"))
		name = "memory";
	snprintf(place, 64, "%s", name);
	for (unsigned i = 0; i < sizeof elements / sizeof *elements; i++)
		if (strcmp(e->place, elements[i]) == 0 && e->index != LMPLAY_NONE &&
			strcmp(name, "payload") != 0)
			snprintf(place, 64, "%s %u", elements[i], e->index);
}

enum lmplay_code port_verify(struct port *port, const void *file, size_t size, uint64_t limit_us,
	char place[64]) {
	memset(port, 0, sizeof *port);
	range_count = 0;
	enum lmplay_code code = lmplay_open(&port->image, file, size, &port->error);
	if (code == LMPLAY_OK) {
		(void)lmplay_plan(&port->image, &port->plan);
#if !defined LMPLAY_VERIFY || LMPLAY_VERIFY
		void *work = aligned_alloc(64, (port->plan.verify_bytes + 64) / 64 * 64);
		code = lmplay_verify(&port->image, work, port->plan.verify_bytes, limit_us, &port->error);
		free(work);
#else
		(void)limit_us;
#endif
	}
	if (code != LMPLAY_OK) {
		write_place(&port->error, place);
		return code;
	}
	for (uint32_t i = 0; i < port->plan.devices; i++) {
		struct lmplay_need need;
		struct lmplay_device *d = &port->devices[i];
		(void)lmplay_need(&port->image, i, &need);
		d->vendor = need.vendor;
		d->device = need.device;
		d->subsystem = need.subsystem;
		memcpy(d->bars, need.bars, sizeof d->bars);
	}
	return LMPLAY_OK;
}

enum lmplay_code port_load(struct port *port, struct lmplay_hooks *hooks, char place[64]) {
	bool fits = port->plan.arena_bytes <= MEMORY_MOST;
	size_t size = fits ? port->plan.arena_bytes : 64;
	hooks->map = map;
	port->arena = aligned_alloc(64, (size + 63) / 64 * 64);
	enum lmplay_code code = lmplay_load(&port->replay, &port->image, hooks, port->devices,
		port->plan.devices, port->arena, size, &port->error);
	if (code != LMPLAY_OK)
		write_place(&port->error, place);
	/* A machine with too little memory rejects the image; the player says that a caller has not
	   given it enough. */
	return !fits && code == LMPLAY_USAGE ? LMPLAY_BAD_IMAGE : code;
}

void port_close(struct port *port) {
	free(port->arena);
	port->arena = NULL;
}

const char *port_code(enum lmplay_code code) {
	switch (code) {
	case LMPLAY_OK:
		return "done";
	case LMPLAY_BAD_IMAGE:
		return "bad-image";
	case LMPLAY_NO_DEVICE:
		return "no-device";
	case LMPLAY_DEVICE_GONE:
		return "device-gone";
	case LMPLAY_BUS_FAULT:
		return "bus-fault";
	case LMPLAY_DEADLINE_PASSED:
		return "deadline-passed";
	case LMPLAY_EXPECT_FAILED:
		return "expect-failed";
	case LMPLAY_COMPARE_FAILED:
		return "compare-failed";
	case LMPLAY_WRONG_DEVICE:
		return "wrong-device";
	case LMPLAY_REFUSED:
		return "refused";
	case LMPLAY_INPUT_MISSING:
		return "input-missing";
	case LMPLAY_DISABLED:
		return "disabled";
	case LMPLAY_RUN_LATE:
		return "frame-late";
	case LMPLAY_RING_UNSET:
		return "ring-unset";
	case LMPLAY_USAGE:
		return "usage";
	default:
		return "internal";
	}
}

bool port_has_seen(const struct lmplay_result *r) {
	switch (r->code) {
	case LMPLAY_EXPECT_FAILED:
	case LMPLAY_DEADLINE_PASSED:
	case LMPLAY_COMPARE_FAILED:
		return true;
	case LMPLAY_RUN_LATE:
		return (r->mask | r->got) != 0;
	default:
		return false;
	}
}
