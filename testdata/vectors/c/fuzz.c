/*
 * Runs the C player on images and devices at random, for the fuzzer in tools/check/vectors, which
 * lets the Go runtime do the same and compares the reports.
 *
 * A case on standard input: u32 size, u32 accesses, u64 seed, then the image. After so many
 * accesses, all later accesses fail. The seed determines what the device answers, and which
 * sequences run. The report on standard output: u32 size, then an entry of 24 bytes for each
 * access, then text.
 */
#include "port.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MEMORY = 4096, /* bytes of memory that all devices share */
	REPORT_MOST = 1 << 20
};

/* A machine whose devices answer at random. tools/check/vectors/chance_test.go has the same one. */
struct chance {
	uint64_t state; /* of the generator */
	uint64_t now, access_ns;
	uint64_t accesses, fail_at, gone_at, gone_device, style, odd_at, bus;
	uint8_t memory[MEMORY];
};

static uint8_t report[REPORT_MOST];
static size_t reported;

/* SplitMix64, Steele, Lea and Flood, 2014. */
static uint64_t next(struct chance *c) {
	c->state += 0x9e3779b97f4a7c15u;
	uint64_t z = c->state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void begin(struct chance *c, uint64_t seed, uint64_t accesses) {
	static const uint64_t times[4] = {0, 100, 5000, 1000000};
	memset(c, 0, sizeof *c);
	c->state = seed;
	c->access_ns = times[next(c) % 4];
	uint64_t r = next(c);
	c->fail_at = r % 8 == 0 ? 1 + (r >> 8) % 100 : accesses;
	r = next(c);
	c->gone_at = r % 6 == 0 ? 1 + (r >> 8) % 60 : 0;
	c->gone_device = (r >> 32) % 2;
	r = next(c);
	c->style = r % 4;
	c->odd_at = (r >> 2) % 2 == 0 ? (r >> 8) % 60 : 0;
	c->bus = next(c) % 8;
}

static bool is_gone(const struct chance *c, uint64_t device) {
	return c->gone_at != 0 && c->accesses > c->gone_at && device == c->gone_device;
}

static uint8_t *byte_at(struct chance *c, unsigned kind, unsigned device, unsigned number,
	uint64_t offset) {
	return &c->memory[(offset + kind * 1031u + device * 977u + number * 131u) % MEMORY];
}

static void put(const void *data, size_t size) {
	if (reported + size > REPORT_MOST)
		abort();
	memcpy(&report[reported], data, size);
	reported += size;
}

static void put_access(uint8_t what, unsigned width, unsigned kind, unsigned device,
	unsigned number, uint64_t offset, uint64_t value) {
	uint8_t head[8] = {what, (uint8_t)width, (uint8_t)kind, (uint8_t)device, (uint8_t)number,
		(uint8_t)(number >> 8)};
	put(head, sizeof head);
	put(&offset, sizeof offset);
	put(&value, sizeof value);
}

static void put_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put_text(const char *format, ...) {
	char line[300];
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	put(line, (size_t)n);
}

/* Counts an access. Returns false if it fails. */
static bool count(struct chance *c) {
	c->accesses++;
	c->now += c->access_ns;
	return c->accesses < c->fail_at;
}

static enum lmplay_code load_at(struct chance *c, unsigned kind, unsigned device, unsigned number,
	uint64_t offset, uint32_t width, uint64_t *value) {
	uint64_t mask = UINT64_MAX >> (64 - 8 * width);
	bool ok = count(c);
	uint64_t r = next(c), loaded = 0;
	for (uint32_t i = 0; i < width; i++)
		loaded |= (uint64_t)*byte_at(c, kind, device, number, offset + i) << (8 * i);
	if (c->style != 0 && c->accesses > c->odd_at) {
		switch (r % 8) {
		case 4:
			loaded = 0;
			break;
		case 5:
			loaded = UINT64_MAX;
			break;
		case 6:
			loaded = r;
			break;
		case 7:
			loaded = (r >> 8) & 3;
			break;
		default:
			break;
		}
	}
	if (kind != 3 && is_gone(c, device))
		loaded = UINT64_MAX;
	*value = ok ? loaded & mask : 0;
	put_access(ok ? 'L' : 'l', width, kind, device, number, offset, *value);
	return ok ? LMPLAY_OK : LMPLAY_BUS_FAULT;
}

static enum lmplay_code store_at(struct chance *c, unsigned kind, unsigned device,
	unsigned number, uint64_t offset, uint32_t width, uint64_t value) {
	bool ok = count(c);
	put_access(ok ? 'S' : 's', width, kind, device, number, offset, value);
	for (uint32_t i = 0; i < width && ok && !(kind != 3 && is_gone(c, device)); i++)
		*byte_at(c, kind, device, number, offset + i) = (uint8_t)(value >> (8 * i));
	return ok ? LMPLAY_OK : LMPLAY_BUS_FAULT;
}

/* The numbers of kinds in entries: 1 BAR, 2 configuration space, 3 host memory. */
static enum lmplay_code load(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t *value) {
	const struct lmplay_range *r = range_of(address);
	if (r->kind == LMPLAY_RANGE_HOST)
		return load_at(context, 3, 0, r->window, offset, width, value);
	return load_at(context, 1, r->device, r->bar, r->offset + offset, width, value);
}

static enum lmplay_code store(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t value) {
	const struct lmplay_range *r = range_of(address);
	if (r->kind == LMPLAY_RANGE_HOST)
		return store_at(context, 3, 0, r->window, offset, width, value);
	return store_at(context, 1, r->device, r->bar, r->offset + offset, width, value);
}

static enum lmplay_code load_config(void *context, uint32_t device, uint32_t offset,
	uint32_t width, uint32_t *value) {
	uint64_t loaded;
	enum lmplay_code code = load_at(context, 2, device, 0, offset, width, &loaded);
	*value = (uint32_t)loaded;
	return code;
}

static enum lmplay_code query(void *context, uint32_t device) {
	return is_gone(context, device) ? LMPLAY_DEVICE_GONE : LMPLAY_OK;
}

static enum lmplay_code set_vectors(void *context, uint32_t device, uint32_t kind,
	uint32_t count) {
	(void)context, (void)device, (void)kind, (void)count;
	return LMPLAY_OK;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on) {
	(void)context;
	if (on)
		put_access('M', 0, 0, device, 0, 0, 0);
	return LMPLAY_OK;
}

static uint64_t now(void *context) { return ((const struct chance *)context)->now; }

static void wait(void *context, uint64_t ns) { ((struct chance *)context)->now += ns; }

uint64_t bus_address(void *context, uint32_t window) {
	const struct chance *c = context;
	uint64_t page = ((uint64_t)window + 1) << 12;
	switch (c->bus) {
	case 0:
		return (UINT64_C(1) << 32) + page;
	case 1:
		return window % 3 == 0 ? 0 : page;
	case 2:
		return UINT64_MAX - page;
	default:
		return page;
	}
}

/* Reports a result and all outputs. */
static void put_result(struct port *port, const struct chance *c, const struct lmplay_result *r) {
	int command = r->code == LMPLAY_OK || r->command == LMPLAY_NONE ? -1 : (int)r->command;
	put_text("end %s %d now %" PRIu64 " ignored %" PRIu32, port_code(r->code), command, c->now,
		r->ignored);
	if (port_has_seen(r))
		put_text(" seen");
	if (r->safe_ran)
		put_text(" safe %s", port_code(r->safe));
	put_text("\nvalues %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIu64 "\n", r->got, r->want, r->mask,
		r->element);
	for (uint32_t i = 0; i < port->plan.tensors; i++) {
		struct lmplay_tensor t;
		(void)lmplay_tensor(&port->image, i, &t);
		const uint8_t *bytes = lmplay_output(&port->replay, i);
		uint32_t sum = 2166136261u; /* FNV-1a */
		for (uint64_t n = 0; bytes && n < t.size; n++)
			sum = (sum ^ bytes[n]) * 16777619u;
		if (bytes)
			put_text("output %" PRIu32 " %" PRIx32 "\n", i, sum);
	}
}

/* Sets the inputs that have no data, and the others for some seeds. */
static void set_inputs(struct port *port, uint64_t seed) {
	for (uint32_t i = 0; i < port->plan.tensors; i++) {
		struct lmplay_tensor t;
		(void)lmplay_tensor(&port->image, i, &t);
		if (t.role != LMPLAY_INPUT || (t.data && seed % 4 != 0))
			continue;
		uint8_t *bytes = lmplay_input(&port->replay, i);
		for (uint64_t n = 0; n < t.size; n++)
			bytes[n] = (uint8_t)(seed + 7 * n);
	}
}

static void run(struct port *port, struct chance *c, uint32_t sequence, uint64_t seed) {
	struct lmplay_result result;
	if (seed % 3 != 0) {
		(void)lmplay_run(&port->replay, sequence, 0, &result);
		put_result(port, c, &result);
		return;
	}
	enum lmplay_code code = lmplay_start(&port->replay, sequence, 0);
	if (code != LMPLAY_OK) {
		memset(&result, 0, sizeof result);
		result.code = code;
		result.command = LMPLAY_NONE;
		put_result(port, c, &result);
		return;
	}
	while (lmplay_step(&port->replay, 1 + (uint32_t)(seed >> 16) % 50) == LMPLAY_BUSY) {
		uint64_t at = lmplay_next_ns(&port->replay);
		if (at > c->now)
			c->now = at;
	}
	lmplay_result(&port->replay, &result);
	put_result(port, c, &result);
}

/* Makes the BARs of Tenstorrent's devices as large as they usually are. */
static void enlarge(struct lmplay_device *d) {
	uint64_t usual[6] = {512 << 20, 0, 1 << 20, 0, 32 << 20, 0};
	if (d->vendor != 0x1e52 || (d->device != 0x401e && d->device != 0xb140))
		return;
	if (d->device == 0xb140)
		usual[4] = UINT64_C(32) << 30;
	for (int i = 0; i < 6; i++)
		if (d->bars[i] < usual[i])
			d->bars[i] = usual[i];
}

static void play(const void *file, size_t size, uint64_t seed, uint64_t accesses) {
	static struct port port;
	static struct chance c;
	struct lmplay_hooks hooks = {.context = &c, .load = load, .store = store,
		.load_config = load_config, .query = query, .set_bus_master = set_bus_master, .now = now,
		.set_vectors = set_vectors,
		.wait = wait, .barrier = NULL};
	char place[64] = "";
	uint64_t limit_us = seed % 16 == 5 ? 1 + (seed >> 20) % 5000 : 0;
	enum lmplay_code code = port_verify(&port, file, size, limit_us, place);
	begin(&c, seed, accesses);
	if (code == LMPLAY_OK &&
		port.plan.tensor_bytes + port.plan.host_bytes > MEMORY_MOST) {
		put_text("reject memory\n");
		return;
	}
	if (code == LMPLAY_OK) {
		for (uint32_t i = 0; i < port.plan.devices; i++)
			enlarge(&port.devices[i]);
		code = port_load(&port, &hooks, place);
	}
	if (code != LMPLAY_OK) {
		put_text("reject %s %s\n", port_code(code), place);
		port_close(&port);
		return;
	}
	if (limit_us != 0) { /* when a run notices the limit is not specified */
		put_text("loaded\n");
		(void)lmplay_unload(&port.replay);
		port_close(&port);
		return;
	}
	set_inputs(&port, seed);
	run(&port, &c, (uint32_t)((seed >> 8) % port.plan.sequences), seed);
	run(&port, &c, (uint32_t)((seed >> 40) % port.plan.sequences), seed);
	(void)lmplay_unload(&port.replay);
	port_close(&port);
}

int main(void) {
	struct {
		uint32_t size, accesses;
		uint64_t seed;
	} head;
	while (fread(&head, sizeof head, 1, stdin) == 1) {
		/* Memory of exactly this size, so that the sanitizer sees every access outside it. */
		void *file = malloc(head.size ? head.size : 1);
		if (head.size && fread(file, head.size, 1, stdin) != 1)
			return 65;
		reported = 0;
		play(file, head.size, head.seed, head.accesses);
		free(file);
		uint32_t size = (uint32_t)reported;
		fwrite(&size, sizeof size, 1, stdout);
		fwrite(report, 1, reported, stdout);
		fflush(stdout);
	}
	return 0;
}
