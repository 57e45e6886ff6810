// Runs of the player on images that tools/check/vectors/c_runs_test.go makes:
//
//	runs budget IMAGE	the player looks at the clock and the stop flag in time
//	runs safe IMAGE		nothing but its own failure ends "safe"
//	runs changed IMAGE	an image that changes after lmplay_load: for the address sanitizer
//
// It ends with exit status 1 and a line for each result that is not the expected one.
#include "lmplay.h"
#include "replay_task.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define EXPECT(condition, ...)                              \
	do {                                                    \
		if (!(condition)) {                                 \
			printf("line %d: %s: ", __LINE__, #condition);  \
			printf(__VA_ARGS__);                            \
			printf("\n");                                   \
			failures++;                                     \
		}                                                   \
	} while (0)

enum { US = 1000, MS = 1000 * US, BAR_BYTES = 256 << 10, RANGES = 64 };

// What happens in a run: each call of a hook is an event.
enum kind { STORE, LOAD, QUERY, BARRIER, NOW, WAIT };

static struct machine {
	uint8_t bar[BAR_BYTES];
	uint64_t time, access_ns, tick_ns; // clock; what an access and a look at the clock take
	uint64_t late_ns;                  // `late` counts accesses after this time, and after stop_at
	uint32_t accesses, late, events, stores_of_safe, longest_wait;
	uint32_t stop_at, fault_at; // number of the event with a call of lmplay_stop, lmplay_fault
	bool in_safe;               // only events of "safe" count
	enum kind last;             // kind of the event at which this was
	bool ones;                  // loads return all ones, so that the player queries the device
	struct lmplay_replay *replay;
	uint32_t range_count; // ranges that map_memory has mapped
} m;

static void happens(enum kind kind) {
	if (m.in_safe && m.replay->sequence != m.replay->safe_sequence &&
		!m.replay->result.safe_ran)
		return;
	m.events++;
	if (m.events == m.stop_at)
		lmplay_stop(m.replay);
	if (m.events == m.fault_at)
		lmplay_fault(m.replay);
	if (m.events == m.stop_at || m.events == m.fault_at)
		m.last = kind;
}

static void access_device(enum kind kind) {
	happens(kind);
	m.time += m.access_ns;
	m.accesses++;
	m.late += m.time > m.late_ns || (m.stop_at != 0 && m.events > m.stop_at);
}

static enum lmplay_code map(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping) {
	(void)context;
	mapping->by_hooks = 1;
	mapping->address = range->kind == LMPLAY_RANGE_HOST ? BAR_BYTES : range->offset;
	mapping->bus = 0x10000;
	return LMPLAY_OK;
}

static enum lmplay_code load(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t *value) {
	(void)context;
	access_device(LOAD);
	*value = m.ones ? UINT64_MAX >> (64 - 8 * width) : 0;
	if (!m.ones && address + offset + width <= BAR_BYTES)
		memcpy(value, &m.bar[address + offset], width);
	return LMPLAY_OK;
}

static enum lmplay_code store(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t value) {
	(void)context;
	m.stores_of_safe += value >> 16 == 0xdead;
	access_device(STORE);
	if (address + offset + width <= BAR_BYTES)
		memcpy(&m.bar[address + offset], &value, width);
	return LMPLAY_OK;
}

static enum lmplay_code load_config(void *context, uint32_t device, uint32_t offset,
	uint32_t width, uint32_t *value) {
	(void)context, (void)device, (void)offset, (void)width;
	access_device(LOAD);
	*value = 0;
	return LMPLAY_OK;
}

static enum lmplay_code query(void *context, uint32_t device) {
	(void)context, (void)device;
	happens(QUERY);
	m.time += 10 * m.access_ns;
	return LMPLAY_OK;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on) {
	(void)context, (void)device, (void)on;
	return LMPLAY_OK;
}

static uint64_t now(void *context) {
	(void)context;
	happens(NOW);
	return m.time += m.tick_ns;
}

static void wait_for(void *context, uint64_t ns) {
	(void)context;
	happens(WAIT);
	m.time += ns * (m.access_ns > US ? 100 : 1);
	if (ns > m.longest_wait)
		m.longest_wait = (uint32_t)ns;
}

static void barrier(void *context) {
	(void)context;
	happens(BARRIER);
	m.time += m.access_ns;
}

static const struct lmplay_hooks hooks = {.map = map, .load = load, .store = store,
	.load_config = load_config, .query = query, .set_bus_master = set_bus_master, .now = now,
	.wait = wait_for, .barrier = barrier};

// An image in memory of exactly its size, so that the sanitizer sees every access outside.
struct file {
	uint8_t *bytes, *arena;
	size_t size;
	struct lmplay_image image;
	struct lmplay_plan plan;
	struct lmplay_replay replay;
};

static void *exact(size_t size) {
	void *bytes;
	if (posix_memalign(&bytes, 4096, size ? size : 1) != 0)
		exit(71);
	return bytes;
}

static void open_file(struct file *f, const char *path, uint64_t limit_us) {
	FILE *file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) != 0) {
		perror(path);
		exit(66);
	}
	f->size = (size_t)ftell(file);
	rewind(file);
	f->bytes = exact(f->size);
	if (fread(f->bytes, 1, f->size, file) != f->size)
		exit(66);
	fclose(file);
	struct lmplay_error error;
	EXPECT(lmplay_open(&f->image, f->bytes, f->size, &error) == LMPLAY_OK, "%s", error.reason);
	EXPECT(lmplay_plan(&f->image, &f->plan) == LMPLAY_OK, "plan");
	f->arena = exact(f->plan.arena_bytes);
	EXPECT(lmplay_verify(&f->image, f->arena, f->plan.arena_bytes, limit_us, &error) == LMPLAY_OK,
		"%s", error.reason);
}

// Loads the image and sets all inputs.
static void load_image(struct file *f, const struct lmplay_hooks *port) {
	struct lmplay_device devices[LMPLAY_DEVICES_MAX];
	struct lmplay_error error;
	memset(devices, 0, sizeof devices);
	for (uint32_t i = 0; i < f->plan.devices; i++) {
		struct lmplay_need need;
		(void)lmplay_need(&f->image, i, &need);
		devices[i].vendor = need.vendor;
		devices[i].device = need.device;
		devices[i].subsystem = need.subsystem;
		for (int b = 0; b < LMPLAY_BARS; b++)
			devices[i].bars[b] = (uint64_t)1 << 36;
	}
	m.replay = &f->replay;
	EXPECT(lmplay_load(&f->replay, &f->image, port, devices, f->plan.devices, f->arena,
		f->plan.arena_bytes, &error) == LMPLAY_OK, "%s", error.reason);
	for (uint32_t i = 0; i < f->plan.tensors; i++) {
		struct lmplay_tensor tensor;
		(void)lmplay_tensor(&f->image, i, &tensor);
		uint8_t *input = lmplay_input(&f->replay, i);
		for (uint64_t n = 0; input && n < tensor.size; n++)
			input[n] = (uint8_t)(n * 7 + n / 256);
	}
}

// Restores the machine before a run.
static void reset(uint64_t access_ns) {
	struct lmplay_replay *replay = m.replay;
	memset(&m, 0, sizeof m);
	m.access_ns = access_ns;
	m.late_ns = UINT64_MAX;
	m.replay = replay;
}

static uint32_t find(const struct file *f, const char *name) {
	uint32_t index = 0;
	EXPECT(lmplay_find_sequence(&f->image, name, strlen(name), &index) == LMPLAY_OK, "%s", name);
	return index;
}

// ---- budget ----

enum { LIMIT_US = 300000 }; // above the longest time of every sequence

// Runs a sequence with a limit, and then without one on a machine that is 100 times slower than
// charged. Both runs end in time.
static void keep_limit(struct file *f, uint32_t sequence) {
	struct lmplay_result result;
	reset(US);
	load_image(f, &hooks);
	(void)lmplay_run(&f->replay, sequence, 300 * US, &result);
	EXPECT(result.code == LMPLAY_RUN_LATE, "sequence %u: code %d", sequence, result.code);
	uint64_t diagnosis = m.longest_wait ? 5 * MS : 0; // a poll that fails looks for DMA faults
	EXPECT(m.time <= 300 * US + MS + US + diagnosis, "sequence %u: %lu ns", sequence,
		(unsigned long)m.time);

	reset(100 * US);
	load_image(f, &hooks);
	m.late_ns = (uint64_t)LIMIT_US * US;
	(void)lmplay_run(&f->replay, sequence, 0, &result);
	EXPECT(result.code == LMPLAY_RUN_LATE, "sequence %u: code %d", sequence, result.code);
	EXPECT(m.late <= 8000 + 1, "sequence %u: %u late accesses", sequence, m.late);
	EXPECT(m.longest_wait <= 10 * MS, "sequence %u: waited %u ns", sequence, m.longest_wait);
}

// Stops a run with and without a limit: it ends within a budget.
static void obey_stop(struct file *f, uint32_t sequence) {
	for (uint64_t limit_ns = 0; limit_ns <= 1000 * MS; limit_ns += 1000 * MS) {
		struct lmplay_result result;
		reset(US);
		load_image(f, &hooks);
		m.stop_at = 50;
		(void)lmplay_run(&f->replay, sequence, limit_ns, &result);
		EXPECT(result.code == LMPLAY_RUN_LATE, "sequence %u: code %d", sequence, result.code);
		EXPECT(m.late <= (limit_ns ? 1000 : 8000) + 1, "sequence %u: %u accesses", sequence,
			m.late);
	}
}

// Executes a sequence in units. No unit exceeds the budget, and the effect is that of one run.
static void step_units(struct file *f, uint32_t sequence, uint64_t limit_ns) {
	enum lmplay_code code;
	static uint8_t bar[BAR_BYTES];
	reset(0);
	load_image(f, &hooks);
	(void)lmplay_run(&f->replay, sequence, 0, NULL);
	uint8_t *tensors = exact(f->plan.tensor_bytes);
	memcpy(tensors, f->arena, f->plan.tensor_bytes);
	memcpy(bar, m.bar, BAR_BYTES);
	uint32_t accesses = m.accesses;

	reset(0);
	load_image(f, &hooks);
	EXPECT(lmplay_start(&f->replay, sequence, limit_ns) == LMPLAY_OK, "start");
	do {
		uint32_t before = m.accesses;
		code = lmplay_step(&f->replay, 1);
		EXPECT(m.accesses - before <= (limit_ns ? 1000 : 1024), "sequence %u: %u accesses",
			sequence, m.accesses - before);
		uint64_t next = lmplay_next_ns(&f->replay);
		m.time = next > m.time ? next : m.time;
	} while (code == LMPLAY_BUSY);
	EXPECT(m.accesses == accesses && memcmp(bar, m.bar, BAR_BYTES) == 0 &&
		memcmp(tensors, f->arena, f->plan.tensor_bytes) == 0, "sequence %u: not that of one run",
		sequence);
	free(tensors);
}

static void check_budget(struct file *f) {
	for (uint32_t i = 0; i < f->plan.sequences; i++) {
		const char *name;
		uint32_t size;
		(void)lmplay_sequence_name(&f->image, i, &name, &size);
		if (size >= 6 && memcmp(name, "called", 6) == 0)
			continue;
		keep_limit(f, i);
		obey_stop(f, i);
		step_units(f, i, 0);
		step_units(f, i, 1000 * MS);
	}
}

// ---- safe ----

// Lets "main" fail, or runs "safe" itself, and calls lmplay_stop or lmplay_fault at the event
// number `at` of "safe". Returns false if "safe" has no such event. The first event is the look at
// the clock with which a sequence begins: then earlier calls are forgotten.
static bool disturb_safe(struct file *f, bool direct, bool fault, uint32_t at, uint32_t stores) {
	struct lmplay_result result;
	reset(US);
	load_image(f, &hooks);
	*(fault ? &m.fault_at : &m.stop_at) = at;
	m.ones = m.in_safe = true;
	(void)lmplay_run(&f->replay, find(f, direct ? "safe" : "main"), 0, &result);
	bool happened = m.events >= at;
	enum lmplay_code code = direct ? result.code : result.safe;
	bool own = fault && (m.last == LOAD || m.last == QUERY);
	EXPECT(direct || result.safe_ran, "\"safe\" has not run");
	EXPECT((m.stores_of_safe == stores) == !(happened && own), "event %u of kind %d: %u stores", at,
		m.last, m.stores_of_safe);
	EXPECT(code == (happened && fault ? LMPLAY_BUS_FAULT : LMPLAY_OK),
		"event %u of kind %d: code %d", at, m.last, code);
	return happened;
}

static void check_safe(struct file *f) {
	const uint32_t stores = 4; // of the sequence "safe"
	for (int i = 0; i < 4; i++) {
		bool direct = i / 2, fault = i % 2;
		uint32_t at = direct ? 1 : 2;
		while (disturb_safe(f, direct, fault, at, stores))
			at++;
		EXPECT(at > 20, "\"safe\" has only %u events", at);
	}
	// The cyclic task is cancelled while it runs "main", and in each later period.
	ReplayTask task;
	reset(US);
	load_image(f, &hooks);
	m.ones = true;
	ReplayTask_Init(&task, &f->replay, 1);
	EXPECT(ReplayTask_Request(&task, find(f, "long")) == LMPLAY_OK, "request");
	for (int period = 0; period < 100; period++) {
		if (period >= 2)
			ReplayTask_Cancel(&task);
		ReplayTask_MainFunction(&task);
		m.time += 20 * MS;
	}
	EXPECT(task.state == REPLAY_TASK_FAILED && task.result.code == LMPLAY_RUN_LATE &&
		task.result.safe == LMPLAY_OK && m.stores_of_safe == stores, "state %d, safe %d, stores %u",
		task.state, task.result.safe, m.stores_of_safe);
}

// ---- changed ----

static void *ranges[RANGES]; // every load maps the same ranges, in the same order

// Maps ranges to memory of exactly their size.
static enum lmplay_code map_memory(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping) {
	(void)context;
	if (m.range_count == RANGES)
		exit(71);
	uint64_t low = range->offset % 8;
	if (!ranges[m.range_count])
		ranges[m.range_count] = exact(range->size + low);
	mapping->address = (uintptr_t)ranges[m.range_count++] + low;
	mapping->bus = 0x10000;
	return LMPLAY_OK;
}

// The cache hooks touch the first and the last byte that they are given.
static void touch(void *context, uintptr_t address, uint64_t size) {
	volatile uint8_t *bytes = (uint8_t *)address;
	(void)context;
	bytes[0] = bytes[0];
	bytes[size - 1] = bytes[size - 1];
}

static uint64_t state;

static uint64_t next(void) { // SplitMix64
	uint64_t z = state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

// Changes a command, an element of the sequences or one of the tensors.
static void change(struct file *f) {
	enum { SEQUENCES = 3, TENSORS = 4, COMMANDS = 6 };
	static const uint8_t sizes[8] = {[SEQUENCES] = 12, [TENSORS] = 64, [COMMANDS] = 32};
	static const uint8_t offsets[8] = {0, 1, 2, 4, 6, 8, 12, 16};
	uint32_t table = next() % 4 == 0 ? SEQUENCES + next() % 2 : COMMANDS;
	const struct lmplay_vector *v = &f->image.vectors[table];
	if (v->count == 0)
		return;
	uint8_t *element = f->bytes + ((const uint8_t *)v->elements - f->bytes) +
		next() % v->count * sizes[table];
	uint64_t value = next() >> (next() % 64);
	uint32_t offset = table == COMMANDS ? offsets[next() % 8] : next() % (sizes[table] / 4) * 4;
	uint32_t bytes = table != COMMANDS ? 4 : offset < 4 ? 1 : offset < 8 ? 2 : offset < 16 ? 4 : 8;
	if (offset == 0 && table == COMMANDS)
		value %= 15;
	memcpy(element + offset, &value, bytes);
	if (table == COMMANDS && (element[0] == 3 || element[0] == 12)) // they read at `index`
		element[6] = element[7] = 0;
}

static void check_changed(struct file *f) {
	struct lmplay_hooks port = hooks;
	uint8_t *original = exact(f->size);
	uint32_t codes = 0;
	port.map = map_memory;
	port.clean = port.invalidate = touch;
	port.load = NULL;
	port.store = NULL;
	memcpy(original, f->bytes, f->size);
	for (state = 0; state < 400; state = state % 1000000 + 1) {
		uint64_t seed = state;
		reset(0);
		m.tick_ns = 2 * US;
		load_image(f, &port);
		uint64_t tables = f->plan.arena_bytes - f->plan.tensor_bytes;
		uint8_t *before = exact(tables);
		memcpy(before, f->arena + f->plan.tensor_bytes, tables);
		for (uint64_t n = 1 + next() % 40; n > 0; n--)
			change(f);
		for (uint32_t i = 0; i < f->plan.sequences; i++) {
			enum lmplay_code code;
			f->replay.flags = 1; // not disabled: the next sequence runs, too
			(void)lmplay_start(&f->replay, i, MS);
			while ((code = lmplay_step(&f->replay, 1 + next() % 4)) == LMPLAY_BUSY) {
				uint64_t at = lmplay_next_ns(&f->replay);
				m.time = at > m.time ? at : m.time;
				if (next() % 8 == 0)
					change(f);
			}
			codes |= 1u << code;
		}
		for (uint32_t i = 0; i < f->plan.tensors; i++)
			(void)lmplay_input(&f->replay, i);
		if (m.range_count == f->plan.windows - 1) // no TLB windows, which Points change
			EXPECT(memcmp(before, f->arena + f->plan.tensor_bytes, tables) == 0,
				"seed %lu: a table has changed", (unsigned long)seed);
		memcpy(f->bytes, original, f->size);
		(void)lmplay_unload(&f->replay);
		free(before);
		state = seed;
	}
	EXPECT((codes & 1u << LMPLAY_INTERNAL) && (codes & 1u << LMPLAY_OK), "codes 0x%x", codes);
	for (uint32_t i = 0; i < RANGES; i++)
		free(ranges[i]);
	free(original);
}

int main(int argc, char **argv) {
	static struct file f;
	if (argc != 3)
		return 64;
	open_file(&f, argv[2], strcmp(argv[1], "budget") == 0 ? LIMIT_US : 0);
	if (strcmp(argv[1], "budget") == 0)
		check_budget(&f);
	else if (strcmp(argv[1], "safe") == 0)
		check_safe(&f);
	else if (strcmp(argv[1], "changed") == 0)
		check_changed(&f);
	free(f.bytes);
	free(f.arena);
	return failures > 0;
}
