#include "verify.h"

#include <stdio.h>
#include <string.h>

char image_place[32];

enum { KNOWN_MAX = 4096, CLOSED_MAX = 64 };
static const uint64_t window_max = 1ull << 32, bytes_max = 1ull << 46;

static struct known known[KNOWN_MAX];
static int known_count;
static struct closed closed[CLOSED_MAX];
static int closed_count;
static unsigned long long schema;

int known_read(const char *path) {
	FILE *file = fopen(path, "r");
	struct known k;
	struct closed c;
	unsigned long long first, last, x, y;
	int rules;
	if (!file)
		return 0;
	if (fscanf(file, "schema %llx rules %x", &schema, &rules) != 2 || rules > KNOWN_MAX)
		return 0;
	while (known_count < rules &&
		fscanf(file, "%hx %hx %hhx %llx %llx %hhx %hhx %hhx", &k.vendor, &k.device, &k.bar,
			&first, &last, &k.widths, &k.memory, &k.load_only) == 8) {
		k.first = first, k.last = last;
		known[known_count++] = k;
	}
	while (closed_count < CLOSED_MAX &&
		fscanf(file, "%hx %hx %hhx %llx %llx %llx %llx", &c.vendor, &c.device, &c.ways,
			&x, &y, &first, &last) == 7) {
		c.x = x, c.y = y, c.first = first, c.last = last;
		closed[closed_count++] = c;
	}
	fclose(file);
	return known_count;
}

static const char *at(const char *what, uint64_t number, const char *reason) {
	snprintf(image_place, sizeof image_place, "%s %llu", what, (unsigned long long)number);
	return reason;
}

static const char *in(const char *what, const char *reason) {
	snprintf(image_place, sizeof image_place, "%s", what);
	return reason;
}

static int power_of_two(uint64_t n) { return n && !(n & (n - 1)); }

// plain_text reports whether text is UTF-8 without control characters (section 1.2).
static int plain_text(const uint8_t *text, unsigned size) {
	while (size) {
		uint32_t c = *text;
		unsigned more = c < 0x80 ? 0 : c < 0xc2 ? 4 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
		if (c >= 0xf5)
			more = 4;
		if (more > 3 || more >= size)
			return 0;
		c &= more ? 0x3f >> more : 0x7f;
		for (unsigned n = 1; n <= more; n++) {
			if ((text[n] & 0xc0) != 0x80)
				return 0;
			c = c << 6 | (text[n] & 0x3f);
		}
		if ((more == 2 && c < 0x800) || (more == 3 && c < 0x10000) || c > 0x10ffff ||
			(c >= 0xd800 && c < 0xe000))
			return 0;
		if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f)
			return 0;
		if ((c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
			return 0;
		text += more + 1, size -= more + 1;
	}
	return 1;
}

static int named(const struct image *i, uint32_t name) {
	uint32_t first = name >> 8, size = name & 0xff;
	return size && (uint64_t)first + size <= i->text_size && plain_text(i->text + first, size);
}

static int is_known(const struct device *t) {
	for (int k = 0; k < known_count; k++)
		if (known[k].vendor == t->vendor && known[k].device == t->device)
			return 1;
	return 0;
}

// Section 3.

static const char *check_device(const struct image *i, uint32_t n) {
	const struct device *t = &i->devices[n];
	return t->reserved || !named(i, t->board)
		? at("device", n, "a name is missing, or a reserved field is not zero")
		: NULL;
}

static const char *check_rule(const struct image *i, uint32_t n) {
	const struct rule *r = &i->rules[n], *b = n ? r - 1 : NULL;
	uint64_t least = r->widths & -r->widths;
	if (r->device >= i->reservation.devices || r->bar > 5)
		return at("rule", n, "no such device or BAR");
	const struct device *t = &i->devices[r->device];
	if (is_known(t) || r->first > r->last || r->last >= t->bars[r->bar])
		return at("rule", n, "the board is known, or the range is outside");
	if (!r->widths || r->widths > 15 || r->memory > 1 || r->first % least || (r->last + 1) % least)
		return at("rule", n, "widths");
	if (b &&
		(r->device < b->device ||
			(r->device == b->device &&
				(r->bar < b->bar || (r->bar == b->bar && r->first <= b->last)))))
		return at("rule", n, "order");
	return named(i, r->name) ? NULL : at("rule", n, "name");
}

// fixed_bus tells whether a window with a fixed bus address may have it, after the windows before.
static int fixed_bus(const struct image *i, const struct window *w) {
	uint64_t end = w->offset + round_up(w->size, 4096);
	if (w->kind != HOST || !w->offset || w->offset % 4096 || end <= w->offset)
		return 0;
	for (const struct window *before = i->windows; before < w; before++)
		if (before->flags & FIXED_BUS && before->device == w->device &&
			w->offset < before->offset + round_up(before->size, 4096))
			return 0;
	return 1;
}

static const char *check_window(const struct image *i, uint32_t n) {
	const struct window *w = &i->windows[n];
	if (w->kind < BAR || w->kind > CONFIG || w->device >= i->reservation.devices || w->flags > 3 ||
		w->reserved)
		return at("window", n, "kind, device, flags or reserved field");
	if (!w->size || w->size > window_max || (w->kind != TLB && w->slot != 0xffff) ||
		(w->kind != BAR && (w->bar || (w->offset && !(w->flags & FIXED_BUS)))))
		return at("window", n, "size, slot, BAR or offset");
	if (w->flags & FIXED_BUS && !fixed_bus(i, w))
		return at("window", n, "fixed bus address");
	if ((w->kind == TLB && !power_of_two(w->size)) ||
		(w->kind == CONFIG && w->size != 256 && w->size != 4096))
		return at("window", n, "size");
	if (w->kind == BAR) {
		uint64_t bar = w->bar > 5 ? 0 : i->devices[w->device].bars[w->bar];
		if (w->bar > 5 || w->offset > bar || w->size > bar - w->offset)
			return at("window", n, "outside the BAR");
	}
	return NULL;
}

// Sections 1.3, 4 and 5.

static const char *check_sequence(const struct image *i, uint32_t n) {
	const struct sequence *s = &i->sequences[n];
	uint64_t first = n ? (uint64_t)s[-1].first + s[-1].count : 0;
	if (s->first != first || !s->count || first + s->count > i->reservation.commands)
		return at("sequence", n, "no commands, or not those that follow");
	if (i->commands[first + s->count - 1].opcode != END)
		return at("sequence", n, "its last command is no End");
	return named(i, s->name) ? NULL : at("sequence", n, "name");
}

static const char *check_place(const struct image *i, uint32_t n) {
	const struct segment *s = &i->segments[n];
	uint64_t start = n ? s[-1].offset + s[-1].size : round_up(i->envelope, 4096);
	int odd = n + 1 < i->reservation.segments && s->size % 4096;
	if (odd || !s->size || s->size > bytes_max || s->reserved)
		return at("segment", n, "size or reserved field");
	return s->offset > bytes_max || s->offset != start ? at("segment", n, "offset") : NULL;
}

static uint64_t element(unsigned dtype) {
	static const uint8_t sizes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
	return dtype < sizeof sizes ? sizes[dtype] : 0;
}

// payload_bytes is the size of the payload area.
static uint64_t payload_bytes(const struct image *i) {
	uint64_t sum = 0;
	for (uint32_t n = 0; n < i->reservation.segments; n++)
		sum += i->segments[n].size;
	return sum;
}

static int in_payload(const struct image *i, uint64_t offset, uint64_t size) {
	uint64_t end = payload_bytes(i);
	return offset <= end && size <= end - offset;
}

static const char *check_tensor(const struct image *i, uint32_t n) {
	const struct tensor *t = &i->tensors[n];
	uint64_t start = n ? round_up(t[-1].arena_offset + t[-1].size, 64) : 0,
			 size = element(t->dtype);
	if (!named(i, t->name) || (t->role != INPUT && t->role != OUTPUT) || t->has_data > 1 ||
		t->dims > 8)
		return at("tensor", n, "name, role, has_data or dimensions");
	for (unsigned d = 0; d < 8; d++) {
		if ((d < t->dims) != (t->shape[d] != 0))
			return at("tensor", n, "shape");
		if (d < t->dims && size && t->shape[d] > bytes_max / size)
			return at("tensor", n, "larger than anything");
		size *= d < t->dims ? t->shape[d] : 1;
	}
	if (!size || t->size != size || t->arena_offset != start || start > bytes_max)
		return at("tensor", n, "size or place");
	if (t->has_data ? !in_payload(i, t->data_offset, size) : t->data_offset != 0)
		return at("tensor", n, "default or golden data");
	return NULL;
}

// Section 6. What each opcode takes: widths, modes, options and kinds of window
// as bits, and which fields may be other than zero.

enum { NOTHING, MEMORY_IN, MEMORY_OUT, BUS, INTERVAL, SEQUENCE };

static const struct form {
	uint8_t widths, modes, options, kinds, index, bytes, stores;
} forms[OPCODES] = {
	[WRITE] = {15, 1, 1, 14, NOTHING, 0, 1},
	[MODIFY] = {15, 1, 1, 14, NOTHING, 0, 1},
	[RELOCATE] = {12, 1, 1, 14, BUS, 0, 1},
	[COPY_IN] = {15, 14, 1, 14, MEMORY_IN, 1, 1},
	[FILL] = {15, 6, 1, 14, NOTHING, 1, 1},
	[COPY_OUT] = {15, 14, 1, 14, MEMORY_OUT, 1, 0},
	[EXPECT] = {15, 14, 6, 30, INTERVAL, 0, 0},
	[COMPARE] = {15, 1, 6, 14, MEMORY_IN, 1, 0},
	[POINT] = {0, 1, 1, 4, NOTHING, 0, 0},
	[FENCE] = {0, 1, 1, 0, NOTHING, 0, 0},
	[DELAY] = {0, 1, 1, 0, NOTHING, 0, 0},
	[CALL] = {0, 1, 1, 0, SEQUENCE, 0, 0},
	[END] = {0, 1, 1, 0, NOTHING, 0, 0},
};

static uint64_t bits(unsigned width) { return width ? ~0ull >> (64 - 8 * width) : 0; }

// fields looks at value, mask and amount.
static const char *fields(const struct command *c) {
	uint64_t value = 0, mask = 0, of = bits(c->width);
	switch (c->opcode) {
	case WRITE:
	case FILL:
		value = of;
		break;
	case MODIFY:
	case EXPECT:
		value = c->mask, mask = of;
		break;
	case RELOCATE:
	case COPY_IN:
	case COPY_OUT:
	case COMPARE:
		value = ~0ull;
		break;
	case POINT:
		value = mask = ~0ull;
	}
	if (c->value & ~value || c->mask & ~mask || (c->opcode == MODIFY && !c->mask))
		return "value or mask";
	if (c->opcode == EXPECT && c->mode == REACHED && (!c->mask || c->mask & (c->mask + 1)))
		return "the mask of a counter";
	if (c->amount && !forms[c->opcode].bytes && c->opcode != EXPECT && c->opcode != DELAY)
		return "amount";
	if (c->opcode == DELAY && (!c->amount || c->amount > 10000000))
		return "delay";
	if (c->opcode == EXPECT && c->index && !c->amount)
		return "an interval without a deadline";
	return forms[c->opcode].bytes && !c->amount ? "no bytes" : NULL;
}

// rule_of finds the rule for a byte of a BAR, in the image or of a board.
static int rule_of(
	const struct image *i, const struct window *w, uint64_t offset, struct known *out) {
	const struct device *t = &i->devices[w->device];
	for (int k = 0; k < known_count; k++)
		if (known[k].vendor == t->vendor && known[k].device == t->device &&
			known[k].bar == w->bar && offset >= known[k].first && offset <= known[k].last) {
			*out = known[k];
			return 1;
		}
	for (uint32_t n = 0; n < i->rule_count && !is_known(t); n++) {
		const struct rule *r = &i->rules[n];
		if (r->device == w->device && r->bar == w->bar && offset >= r->first && offset <= r->last) {
			*out = (struct known){
				.first = r->first, .last = r->last, .widths = r->widths, .memory = r->memory};
			return 1;
		}
	}
	return 0;
}

// access is section 6.1.
static const char *access_of(const struct image *i, const struct command *c) {
	const struct window *w = &i->windows[c->window];
	int bulk = c->mode == BULK && c->opcode != COMPARE && forms[c->opcode].bytes;
	int fixed = c->mode == FIXED && c->opcode != COMPARE && c->opcode != EXPECT;
	uint64_t size = forms[c->opcode].bytes && !fixed ? c->amount : c->width;
	if (c->offset > w->size || size > w->size - c->offset)
		return "outside the window";
	if (!bulk &&
		(c->offset % c->width || (forms[c->opcode].bytes && c->amount % c->width) ||
			w->offset % c->width))
		return "alignment";
	if (w->kind == CONFIG && c->width == 8)
		return "width of configuration space";
	if (w->kind == BAR) {
		struct known r;
		uint64_t first = w->offset + c->offset;
		if (!rule_of(i, w, first, &r) || size - 1 > r.last - first)
			return "no rule covers all of it";
		if (!(r.widths & c->width) || ((bulk || w->flags & 1) && !r.memory) ||
			(forms[c->opcode].stores && r.load_only))
			return "the rule does not accept it";
		if (bulk && r.widths != 15)
			return "bulk where not every width is taken";
	}
	return NULL;
}

// storable reports whether a BAR window has no byte under a rule that allows loads only.
static int storable(const struct image *i, const struct window *w) {
	const struct device *t = &i->devices[w->device];
	for (int n = 0; n < known_count; n++) {
		const struct known *k = &known[n];
		if (k->load_only && k->vendor == t->vendor && k->device == t->device && k->bar == w->bar &&
			k->first < w->offset + w->size && k->last >= w->offset)
			return 0;
	}
	return w->kind == BAR;
}

static const char *index_of(const struct image *i, const struct command *c) {
	const struct tensor *t = &i->tensors[c->index - 1];
	switch (forms[c->opcode].index) {
	case NOTHING:
		return c->index ? "index" : NULL;
	case SEQUENCE:
		return c->index < i->reservation.sequences ? NULL : "sequence";
	case BUS:
		if (c->index >= i->reservation.windows || c->value > i->windows[c->index].size)
			return "bus address";
		if (i->windows[c->index].kind != HOST && !storable(i, &i->windows[c->index]))
			return "bus address of such a window";
		return NULL;
	case MEMORY_IN:
		if (c->index == 0)
			return in_payload(i, c->value, c->amount) ? NULL : "payload";
		__attribute__((fallthrough));
	case MEMORY_OUT:
		if (c->index == 0 || c->index > i->reservation.tensors ||
			t->role != (forms[c->opcode].index == MEMORY_IN ? INPUT : OUTPUT))
			return "memory";
		return c->value <= t->size && c->amount <= t->size - c->value ? NULL : "outside the tensor";
	}
	return NULL;
}

// side returns the coordinates of one side of a rectangle, one bit each.
static uint64_t side(unsigned start, unsigned end) {
	uint64_t bits = 0;
	for (unsigned n = 0; n < 64; n++)
		if (start > end || (n >= start && n <= end))
			bits |= 1ull << n;
	return bits;
}

// is_closed reports whether a range of tiles, from an address on, may include a place that its
// board closes.
static int is_closed(const struct image *i, const struct window *w, const uint8_t *t,
	uint64_t address) {
	const struct device *of = &i->devices[w->device];
	uint64_t x = t[0] < 64 ? 1ull << t[0] : 0, y = t[1] < 64 ? 1ull << t[1] : 0;
	if (t[7])
		x = side(t[2], t[0]), y = side(t[3], t[1]);
	for (int n = 0; n < closed_count; n++) {
		const struct closed *c = &closed[n];
		if (c->vendor == of->vendor && c->device == of->device &&
			(c->ways >> (t[4] + 2 * t[7]) & 1) && (c->x & x) && (c->y & y) &&
			address <= c->last && address + (w->size - 1) >= c->first)
			return 1;
	}
	return 0;
}

static const char *point_of(const struct image *i, const struct command *c) {
	// x, y, x_start, y_start, noc, ordering, static_vc, multicast
	const uint8_t *t = (const uint8_t *)&c->mask;
	if (c->value % i->windows[c->window].size)
		return "address of a point";
	if (t[4] > 1 || t[5] < 1 || t[5] > 3 || t[6] > 8 || t[7] > 1 || (!t[7] && (t[2] || t[3])))
		return "tiles of a point";
	return is_closed(i, &i->windows[c->window], t, c->value) ? "closed to images" : NULL;
}

// check_command looks at one command; pointed has a byte a window.
static const char *check_command(const struct image *i, const struct command *c, int last,
	uint8_t *pointed) {
	if (c->opcode < WRITE || c->opcode >= OPCODES || last != (c->opcode == END))
		return "opcode";
	const struct form *f = &forms[c->opcode];
	if (c->mode > 7 || !(f->modes >> c->mode & 1) || c->option > 7 ||
		!(f->options >> c->option & 1))
		return "mode or option";
	if (f->widths ? !power_of_two(c->width) || !(f->widths & c->width) : c->width || c->offset)
		return "width";
	const char *bad = NULL;
	if (!f->kinds) {
		bad = c->window ? "window" : NULL;
	} else if (c->window >= i->reservation.windows ||
		!(f->kinds >> i->windows[c->window].kind & 1)) {
		bad = "window";
	} else if (c->opcode == POINT) {
		bad = point_of(i, c);
		pointed[c->window] = 1;
	} else {
		int unset = i->windows[c->window].kind == TLB && !pointed[c->window];
		bad = unset ? "not pointed" : access_of(i, c);
	}
	if (!bad)
		bad = fields(c);
	return bad ? bad : index_of(i, c);
}

static const char *check_commands(const struct image *i) {
	static uint8_t pointed[4096], calls[4096], called[4096];
	memset(calls, 0, sizeof calls), memset(called, 0, sizeof called);
	for (uint32_t s = 0; s < i->reservation.sequences; s++) {
		const struct sequence *q = &i->sequences[s];
		memset(pointed, 0, sizeof pointed);
		for (uint32_t n = q->first; n < q->first + q->count; n++) {
			const struct command *c = &i->commands[n];
			const char *bad = check_command(i, c, n + 1 == q->first + q->count, pointed);
			if (bad)
				return at("command", n, bad);
			if (c->opcode == CALL) {
				memset(pointed, 0, sizeof pointed);
				calls[s] = called[c->index] = 1;
			}
		}
	}
	for (uint32_t s = 0; s < i->reservation.sequences; s++) {
		if (calls[s] && called[s])
			return at("sequence", s, "calls and is called");
	}
	return NULL;
}

static const char *check_sums(const struct image *i) {
	uint64_t host = 0, arena = 0, commands = 0;
	for (uint32_t n = 0; n < i->reservation.windows; n++)
		host += i->windows[n].kind == HOST ? round_up(i->windows[n].size, 4096) : 0;
	for (uint32_t n = 0; n < i->reservation.tensors; n++)
		arena = round_up(arena + i->tensors[n].size, 64);
	for (uint32_t n = 0; n < i->reservation.sequences; n++)
		commands += i->sequences[n].count;
	if (commands != i->reservation.commands)
		return in("sequences", "do not cover the commands");
	if (host != i->reservation.host_bytes || payload_bytes(i) != i->reservation.payload_bytes ||
		arena != i->reservation.arena_bytes)
		return in("reservation", "is not the sum");
	return NULL;
}

static const char *check_all(const struct image *i) {
	static const char *(*const elements[])(const struct image *, uint32_t) = {
		check_device, check_rule, check_window, check_sequence, check_place, check_tensor};
	const struct reservation *r = &i->reservation;
	const uint32_t counts[] = {
		r->devices, i->rule_count, r->windows, r->sequences, r->segments, r->tensors};
	const char *bad = image_counts(i);
	if (bad)
		return in(strstr(bad, "reservation") ? "reservation" : "image", bad);
	for (unsigned k = 0; k < sizeof counts / sizeof *counts; k++)
		for (uint32_t n = 0; n < counts[k] && !bad; n++)
			bad = elements[k](i, n);
	if (!bad)
		bad = check_sums(i);
	return bad ? bad : check_commands(i);
}

const char *image_verify(struct image *image, const char *path) {
	const char *bad = image_read(image, path);
	if (bad && !image->sized)
		return in("preamble", bad);
	uint64_t hash;
	memcpy(&hash, image->data + 16, sizeof hash);
	if (hash != schema)
		return in("preamble", "another schema");
	if (bad)
		in("envelope", bad);
	else
		bad = check_all(image);
	const char *sum = image_sum(image);
	if (sum)
		return in("preamble", sum);
	if (bad)
		return bad;
	uint32_t segment;
	bad = image_segments(image, &segment);
	if (!bad)
		return NULL;
	if (segment < image->reservation.segments)
		return at("segment", segment, bad);
	return in("segments", bad);
}
