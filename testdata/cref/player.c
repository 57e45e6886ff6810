// A player of images on a device that fails: what FORMAT.md 6.2 says a run does,
// access by access, on a clock of its own. It prints every access and the end.
#include "player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GONE = 71, NONE_YET = -1 };
enum fault { NO_FAULT, ERRORS, ALL_ONES, WRONG, LATE };

struct player {
	const struct image *image;
	uint8_t *memory, *arena;
	uint64_t *places; // of windows in memory
	enum fault fault;
	uint64_t after, stores; // the device fails behind so many stores
	int64_t now, failed;    // nanoseconds
	int gone;               // an access failed
	uint64_t got, want, mask;
	int32_t at;
	uint32_t ignored;
};

enum { ACCESS_NS = 100, LATE_NS = 5050 };

static int fails(struct player *p) { return p->fault != NO_FAULT && p->stores >= p->after; }

static int dead(struct player *p) {
	return fails(p) && (p->fault == ERRORS || p->fault == ALL_ONES);
}

static uint64_t width_bits(unsigned width) { return ~0ull >> (64 - 8 * width); }

static uint64_t place(struct player *p, const struct command *c) { return p->places[c->window]; }

static uint64_t get(struct player *p, uint64_t at, unsigned width) {
	uint64_t v = 0;
	p->now += ACCESS_NS;
	memcpy(&v, p->memory + at, width);
	if (fails(p) && p->fault == ERRORS) {
		p->gone = 1;
		return 0;
	}
	if (fails(p) && p->fault == ALL_ONES)
		v = width_bits(width);
	else if (fails(p) && p->fault == WRONG)
		v ^= 1;
	else if (fails(p) && p->fault == LATE && p->now < p->failed + LATE_NS)
		v = 0;
	printf("L %u %llx %llx\n", width, (unsigned long long)at, (unsigned long long)v);
	return v;
}

static void put(struct player *p, uint64_t at, unsigned width, uint64_t v) {
	p->now += ACCESS_NS;
	if (fails(p) && p->fault == ERRORS) {
		p->gone = 1;
		return;
	}
	v &= width_bits(width);
	printf("S %u %llx %llx\n", width, (unsigned long long)at, (unsigned long long)v);
	if (!dead(p))
		memcpy(p->memory + at, &v, width);
	if (++p->stores == p->after)
		p->failed = p->now;
}

static uint8_t *memory_of(struct player *p, const struct command *c) {
	if (c->index == 0)
		return (uint8_t *)p->image->payload + c->value;
	return p->arena + p->image->tensors[c->index - 1].arena_offset + c->value;
}

// tlb_number returns how many Tlb windows are before a window.
static unsigned tlb_number(const struct image *image, unsigned window) {
	unsigned number = 0;
	for (unsigned n = 0; n < window; n++)
		number += image->windows[n].kind == TLB;
	return number;
}

static int holds(const struct command *c, uint64_t v) {
	if (c->mode == REACHED)
		return ((v - c->value) & c->mask) <= c->mask >> 1;
	return ((v & c->mask) == c->value) == (c->mode == EQUAL);
}

static int expect(struct player *p, const struct command *c) {
	uint64_t at = place(p, c) + c->offset, v = get(p, at, c->width);
	int64_t began = p->now, deadline = began + c->amount * 1000ll;
	if (p->gone || (v == width_bits(c->width) && dead(p)))
		return GONE;
	for (int late = 0; !holds(c, v); v = get(p, at, c->width)) {
		if (late || c->amount == 0) {
			p->got = v, p->want = c->value, p->mask = c->mask;
			return c->amount ? 75 : 76;
		}
		int64_t left = deadline - p->now;
		int64_t pause = c->index ? c->index * 1000ll : (p->now - began) / 32;
		p->now += left > 0 ? (pause < left ? pause : left) : 0;
		late = p->now >= deadline;
	}
	return 0;
}

static int compare(struct player *p, const struct command *c) {
	const uint8_t *want = memory_of(p, c);
	for (uint32_t n = 0; n < c->amount; n += c->width) {
		uint64_t w = 0, v = get(p, place(p, c) + c->offset + n, c->width);
		memcpy(&w, want + n, c->width);
		if (p->gone)
			return GONE;
		if (v != w) {
			p->got = v, p->want = w, p->mask = width_bits(c->width);
			return 76;
		}
	}
	return 0;
}

// all_ones reports whether the last access, of the width of a copy, loaded all ones.
static int all_ones(const uint8_t *end, uint32_t size) {
	while (size && end[-1] == 0xff)
		end--, size--;
	return size == 0;
}

// copy makes the accesses of a copy or a fill. Those of a bulk copy are a choice,
// here as in the runtime: the widest that are aligned and no wider than width.
static int copy(struct player *p, const struct command *c) {
	unsigned width;
	for (uint32_t n = 0; n < c->amount && !p->gone; n += width) {
		uint64_t at = place(p, c) + c->offset + (c->mode == FIXED ? 0 : n), v = c->value;
		for (width = c->width; c->mode == BULK && (at % width || width > c->amount - n);)
			width /= 2;
		if (c->opcode == COPY_OUT) {
			v = get(p, at, width);
			if (!p->gone)
				memcpy(memory_of(p, c) + n, &v, width);
		} else {
			if (c->opcode == COPY_IN)
				memcpy(&v, memory_of(p, c) + n, width);
			put(p, at, width, v);
		}
	}
	if (p->gone)
		return GONE;
	uint32_t last = c->amount < c->width ? c->amount : c->width;
	int check = c->opcode == COPY_OUT && dead(p);
	return check && all_ones(memory_of(p, c) + c->amount, last) ? GONE : 0;
}

static int modify(struct player *p, const struct command *c) {
	uint64_t v = get(p, place(p, c) + c->offset, c->width);
	if (p->gone || (dead(p) && v == width_bits(c->width)))
		return GONE;
	put(p, place(p, c) + c->offset, c->width, c->value | (v & ~c->mask));
	return p->gone ? GONE : 0;
}

static int write_of(struct player *p, const struct command *c, uint64_t value) {
	put(p, place(p, c) + c->offset, c->width, value);
	return p->gone ? GONE : 0;
}

static int apply_policy(struct player *p, const struct command *c, int status) {
	if (status == 0 || status == GONE)
		return status;
	if (dead(p))
		return GONE;
	if (c->option == FAIL)
		return status;
	p->ignored++;
	return 0;
}

static int execute(struct player *p, const struct sequence *s);

static int carry_out(struct player *p, const struct command *c) {
	switch (c->opcode) {
	case WRITE:
		return write_of(p, c, c->value);
	case RELOCATE:
		return write_of(p, c, 0x10000000 + p->places[c->index] + c->value);
	case MODIFY:
		return modify(p, c);
	case COPY_IN:
	case FILL:
	case COPY_OUT:
		return copy(p, c);
	case EXPECT:
		return apply_policy(p, c, expect(p, c));
	case COMPARE:
		return apply_policy(p, c, compare(p, c));
	case POINT:
		printf("P %u %llx %llx\n", tlb_number(p->image, c->window), (unsigned long long)c->value,
			(unsigned long long)c->mask);
		return 0;
	case DELAY:
		p->now += c->amount * 1000ll;
		return 0;
	case CALL:
		return execute(p, &p->image->sequences[c->index]);
	}
	return 0;
}

static int execute(struct player *p, const struct sequence *s) {
	for (uint32_t n = s->first; n < s->first + s->count; n++) {
		p->gone = 0;
		int status = carry_out(p, &p->image->commands[n]);
		if (status) {
			if (p->at == NONE_YET)
				p->at = n;
			return status;
		}
	}
	return 0;
}

#define FIXED_BUS 2 // flag of a Host window

// is_in_group reports whether a window is in a group: BARs, host memory at fixed bus addresses,
// other host memory, tiles, configuration space.
static int is_in_group(const struct window *w, int group) {
	switch (group) {
	case 0: return w->kind == BAR;
	case 1: return w->kind == HOST && w->flags & FIXED_BUS;
	case 2: return w->kind == HOST && !(w->flags & FIXED_BUS);
	case 3: return w->kind == TLB;
	default: return w->kind == CONFIG;
	}
}

// lay places windows as device_size has them, group by group: the runtime maps host memory at fixed
// bus addresses before other host memory.
static uint64_t lay(struct player *p) {
	const struct image *i = p->image;
	uint64_t bars[8][6], next = 0;
	for (uint32_t t = 0; t < i->reservation.devices; t++)
		for (int b = 0; b < 6; b++) {
			bars[t][b] = next;
			next += round_up(i->devices[t].bars[b], 4096);
		}
	for (int group = 0; group < 5; group++) {
		for (uint32_t n = 0; n < i->reservation.windows; n++) {
			const struct window *w = &i->windows[n];
			if (!is_in_group(w, group))
				continue;
			p->places[n] = w->kind == BAR ? bars[w->device][w->bar] + w->offset : next;
			next += w->kind == BAR ? 0 : round_up(w->size, 4096);
		}
	}
	return next;
}

int player_run(const struct image *image, unsigned fault, uint64_t after) {
	struct player p = {.image = image, .fault = fault, .after = after, .at = NONE_YET, .failed = 0};
	p.places = calloc(image->reservation.windows, sizeof *p.places);
	p.memory = calloc(1, lay(&p) + 8);
	p.arena = calloc(1, image->reservation.arena_bytes + 8);
	for (uint32_t n = 0; n < image->reservation.tensors; n++) {
		const struct tensor *t = &image->tensors[n];
		if (t->role == INPUT && t->has_data)
			memcpy(p.arena + t->arena_offset, image->payload + t->data_offset, t->size);
	}
	int status = execute(&p, &image->sequences[0]), safe = 0, ran = 0;
	uint64_t got = p.got, want = p.want, mask = p.mask;
	uint32_t ignored = p.ignored;
	for (uint32_t n = 1; status && n < image->reservation.sequences && !ran; n++)
		if (image_named(image, image->sequences[n].name, "safe")) {
			ran = 1;
			safe = execute(&p, &image->sequences[n]);
		}
	if (status != 75 && status != 76)
		got = want = mask = 0;
	printf("end %d %d %llx %llx %llx %u %d %d\n", status, status ? p.at : 0,
		(unsigned long long)got, (unsigned long long)want, (unsigned long long)mask, ignored, ran,
		safe);
	for (uint32_t n = 0; n < image->reservation.tensors; n++) {
		const struct tensor *t = &image->tensors[n];
		if (t->role == OUTPUT)
			printf("output %x\n", crc32c(0, p.arena + t->arena_offset, t->size));
	}
	free(p.places), free(p.memory), free(p.arena);
	return 0;
}
