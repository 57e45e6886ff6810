// Calls every function of the player on mapped memory, with right and wrong arguments, and ends
// with exit status 1 and a line for each result that is not the expected one.
//
//	calls EDU-FACTORIAL.lmb TWOOP.lmb EDU-DMA.lmb WORMHOLE-HOST.lmb FIXED.lmb CONFIG.lmb
#include "../../../runtime/c/lmplay.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define EXPECT(condition)                                            \
	do {                                                             \
		if (!(condition)) {                                          \
			printf("line %d: not true: %s\n", __LINE__, #condition); \
			failures++;                                              \
		}                                                            \
	} while (0)

enum { BAR_BYTES = 33 << 20, HOST_BYTES = 1 << 20, HOST_STRIDE = 8192 };
// a TLB window has up to 32 MiB

// The machine: a device of memory, in which the test puts what loads return.
struct machine {
	_Alignas(4096) uint8_t bar[BAR_BYTES];
	_Alignas(4096) uint8_t host[HOST_BYTES];
	uint64_t time;
	uint32_t maps, masters;
	enum lmplay_code map_code, query_code, master_code, unmaster_code;
	uint64_t tick;             // nanoseconds between two reads of the clock
	uint32_t failing_map;      // number of the call of map that fails, from 1 on; 0: none
	uint32_t failing_access;   // the same of load and store
	uint32_t accesses;         // calls of load and store
	uint32_t codes;            // one bit for each code with which a load or run has failed
	uint32_t cleaned, invalidated;
	bool by_hooks, is_unmapped; // what map returns: handles, or address 0
	bool is_edu;                // while the player waits, the device does DMA as edu does
	struct lmplay_replay *stopped; // lmplay_stop is called for it while the player waits
	int misaligned;
};

static enum lmplay_code map(void *context, const struct lmplay_range *range,
	struct lmplay_mapping *mapping) {
	struct machine *m = context;
	m->maps++;
	mapping->address = range->kind == LMPLAY_RANGE_HOST
		? (uintptr_t)m->host + range->window * HOST_STRIDE
		: (uintptr_t)m->bar + (range->offset & 4095);
	mapping->address += m->misaligned;
	if (m->is_unmapped)
		mapping->address = 0;
	mapping->by_hooks = m->by_hooks;
	mapping->bus = 0x10000;
	return m->maps == m->failing_map ? LMPLAY_NO_DEVICE : m->map_code;
}

static enum lmplay_code query(void *context, uint32_t device) {
	(void)device;
	return ((struct machine *)context)->query_code;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on) {
	struct machine *m = context;
	m->masters = on ? m->masters | 1u << device : m->masters & ~(1u << device);
	return on ? m->master_code : m->unmaster_code;
}

static uint64_t now(void *context) {
	struct machine *m = context;
	return m->time += m->tick;
}

// load_hook and store_hook access the memory that map returns. They fail with different codes, with
// which the run must fail.
static enum lmplay_code load_hook(void *context, uintptr_t address, uint64_t offset,
	uint32_t width, uint64_t *value) {
	struct machine *m = context;
	*value = 0;
	if (++m->accesses == m->failing_access)
		return LMPLAY_DEVICE_GONE;
	memcpy(value, (void *)(address + offset % BAR_BYTES), width);
	return LMPLAY_OK;
}

static enum lmplay_code store_hook(void *context, uintptr_t address, uint64_t offset,
	uint32_t width, uint64_t value) {
	struct machine *m = context;
	if (++m->accesses == m->failing_access)
		return LMPLAY_REFUSED;
	memcpy((void *)(address + offset % BAR_BYTES), &value, width);
	return LMPLAY_OK;
}

static void clean(void *context, uintptr_t address, uint64_t size) {
	EXPECT(address != 0 && size > 0);
	((struct machine *)context)->cleaned++;
}

static void invalidate(void *context, uintptr_t address, uint64_t size) {
	EXPECT(address != 0 && size > 0);
	((struct machine *)context)->invalidated++;
}

// finish_edu does the DMA that the registers of edu ask for: the image's windows are 0 (registers),
// 1 (source) and 2 (destination).
static void finish_edu(struct machine *m) {
	enum { COUNT = 0x90, COMMAND = 0x98, BUFFER = 0x40000 };
	uint64_t count;
	memcpy(&count, m->bar + COUNT, sizeof count);
	if (m->bar[COMMAND] == 1)
		memcpy(m->bar + BUFFER, m->host + HOST_STRIDE, count);
	else if (m->bar[COMMAND] == 3)
		memcpy(m->host + 2 * HOST_STRIDE, m->bar + BUFFER, count);
	m->bar[COMMAND] = 0;
}

static void wait_for(void *context, uint64_t nanoseconds) {
	struct machine *m = context;
	m->time += nanoseconds;
	if (m->is_edu)
		finish_edu(m);
	if (m->stopped)
		lmplay_stop(m->stopped);
}

static struct machine machine = {.tick = 50};
static const struct lmplay_hooks good_hooks = {.context = &machine, .map = map, .query = query,
	.set_bus_master = set_bus_master, .now = now, .wait = wait_for};

// An opened file with its memory.
struct file {
	void *bytes, *arena;
	size_t size;
	struct lmplay_image image;
	struct lmplay_plan plan;
};

static void open_file(struct file *f, const char *path) {
	FILE *file = fopen(path, "rb");
	if (!file) {
		perror(path);
		exit(66);
	}
	f->bytes = aligned_alloc(64, 1 << 20);
	f->size = fread(f->bytes, 1, 1 << 20, file);
	fclose(file);
	EXPECT(lmplay_open(&f->image, f->bytes, f->size, NULL) == LMPLAY_OK);
	EXPECT(lmplay_plan(&f->image, &f->plan) == LMPLAY_OK);
	f->arena = aligned_alloc(64, (f->plan.arena_bytes + 63) / 64 * 64);
	EXPECT(lmplay_verify(&f->image, f->arena, f->plan.arena_bytes, 0, NULL) == LMPLAY_OK);
}

static void close_file(struct file *f) {
	free(f->bytes);
	free(f->arena);
}

static enum lmplay_code load(struct file *f, struct lmplay_replay *replay,
	const struct lmplay_hooks *hooks, struct lmplay_error *error) {
	struct lmplay_device devices[LMPLAY_DEVICES_MAX];
	memset(devices, 0, sizeof devices);
	for (uint32_t i = 0; i < f->plan.devices; i++) {
		struct lmplay_need need;
		EXPECT(lmplay_need(&f->image, i, &need) == LMPLAY_OK);
		devices[i].vendor = need.vendor;
		devices[i].device = need.device;
		for (int b = 0; b < LMPLAY_BARS; b++)
			devices[i].bars[b] = (uint64_t)1 << 36;
	}
	return lmplay_load(replay, &f->image, hooks, devices, f->plan.devices, f->arena,
		f->plan.arena_bytes, error);
}

static void reject_wrong_arguments(struct file *f) {
	struct lmplay_image image;
	struct lmplay_plan plan;
	struct lmplay_need need;
	struct lmplay_tensor tensor;
	struct lmplay_error error;
	const char *name;
	uint32_t n;
	uint8_t *bytes = f->bytes;
	EXPECT(lmplay_open(NULL, bytes, f->size, &error) == LMPLAY_USAGE);
	EXPECT(lmplay_open(&image, NULL, f->size, &error) == LMPLAY_USAGE);
	EXPECT(lmplay_open(&image, bytes + 4, f->size, &error) == LMPLAY_USAGE);
	EXPECT(strcmp(error.place, "image") == 0 && error.index == LMPLAY_NONE && error.reason[0]);
	EXPECT(lmplay_open(&image, bytes, 0, &error) == LMPLAY_BAD_IMAGE);
	EXPECT(lmplay_plan(&image, &plan) == LMPLAY_USAGE && lmplay_plan(NULL, &plan) == LMPLAY_USAGE);
	EXPECT(lmplay_plan(&f->image, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_need(&image, 0, &need) == LMPLAY_USAGE);
	EXPECT(lmplay_open(&image, bytes, f->size, NULL) == LMPLAY_OK);
	EXPECT(lmplay_need(&image, 0, &need) == LMPLAY_USAGE); // not verified
	EXPECT(lmplay_verify(&image, NULL, 1 << 20, 0, &error) == LMPLAY_USAGE);
	EXPECT(lmplay_verify(&image, f->arena, 1, 0, &error) == LMPLAY_USAGE);
	EXPECT(lmplay_verify(&image, f->arena, f->plan.arena_bytes, 1, &error) == LMPLAY_BAD_IMAGE);
	EXPECT(strcmp(error.place, "sequence") == 0);
	EXPECT(lmplay_need(&f->image, f->plan.devices, &need) == LMPLAY_USAGE);
	EXPECT(lmplay_need(&f->image, 0, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_tensor(&f->image, f->plan.tensors, &tensor) == LMPLAY_USAGE);
	EXPECT(lmplay_sequence_name(&f->image, f->plan.sequences, &name, &n) == LMPLAY_USAGE);
	EXPECT(lmplay_sequence_name(&f->image, 0, &name, &n) == LMPLAY_OK && n > 0);
	EXPECT(lmplay_find_sequence(&f->image, name, n, &n) == LMPLAY_OK && n == 0);
	EXPECT(lmplay_find_sequence(&f->image, "none", 4, &n) == LMPLAY_USAGE && n == LMPLAY_NONE);
	EXPECT(lmplay_find_sequence(&f->image, NULL, 4, &n) == LMPLAY_USAGE);
	EXPECT(lmplay_find_tensor(&f->image, "none", 4, &n) == LMPLAY_USAGE && n == LMPLAY_NONE);
	EXPECT(lmplay_find_tensor(NULL, "none", 4, &n) == LMPLAY_USAGE);
	EXPECT(lmplay_find_tensor(&f->image, NULL, 4, &n) == LMPLAY_USAGE);
	EXPECT(lmplay_find_tensor(&f->image, "none", 4, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_find_sequence(NULL, "none", 4, &n) == LMPLAY_USAGE);
	EXPECT(lmplay_find_sequence(&f->image, "none", 4, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_tensor(NULL, 0, &tensor) == LMPLAY_USAGE);
	EXPECT(lmplay_tensor(&f->image, 0, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_sequence_name(NULL, 0, &name, &n) == LMPLAY_USAGE);
	EXPECT(lmplay_sequence_name(&f->image, 0, NULL, &n) == LMPLAY_USAGE);
	EXPECT(lmplay_sequence_name(&f->image, 0, &name, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_verify(NULL, f->arena, f->plan.arena_bytes, 0, &error) == LMPLAY_USAGE);
	EXPECT(lmplay_verify(&image, (char *)f->arena + 8, f->plan.arena_bytes, 0, &error) ==
		LMPLAY_USAGE);
	EXPECT(lmplay_exit_status(LMPLAY_OK) == 0 && lmplay_exit_status(LMPLAY_BUSY) == 70);
	EXPECT(lmplay_exit_status(LMPLAY_WRONG_DEVICE) == 78);
}

// reject_null loads with one argument or required hook NULL at a time.
static void reject_null(struct file *f) {
	struct lmplay_replay r;
	struct lmplay_device devices[LMPLAY_DEVICES_MAX];
	struct lmplay_hooks hooks = good_hooks;
	const struct lmplay_hooks *good = &good_hooks;
	char *arena = f->arena;
	uint64_t size = f->plan.arena_bytes;
	memset(devices, 0, sizeof devices);
	EXPECT(lmplay_load(NULL, &f->image, good, devices, 1, arena, size, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_load(&r, NULL, good, devices, 1, arena, size, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_load(&r, &f->image, NULL, devices, 1, arena, size, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_load(&r, &f->image, good, NULL, 1, arena, size, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_load(&r, &f->image, good, devices, 1, NULL, size, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_load(&r, &f->image, good, devices, 1, arena + 8, size, NULL) == LMPLAY_USAGE);
	hooks.query = NULL;
	EXPECT(load(f, &r, &hooks, NULL) == LMPLAY_USAGE);
	hooks = good_hooks;
	hooks.now = NULL;
	EXPECT(load(f, &r, &hooks, NULL) == LMPLAY_USAGE);
	EXPECT(lmplay_unload(NULL) == LMPLAY_USAGE && lmplay_step(NULL, 1) == LMPLAY_USAGE);
	EXPECT(lmplay_input(NULL, 0) == NULL && lmplay_output(NULL, 0) == NULL);
	struct lmplay_result result;
	lmplay_fault(NULL);
	lmplay_stop(NULL);
	lmplay_interrupt(NULL);
	EXPECT(lmplay_next_ns(NULL) == 0);
	lmplay_result(NULL, NULL);
	lmplay_result(NULL, &result);
	EXPECT(result.code == LMPLAY_USAGE && result.safe_ran == 0);
	memset(&r, 0, sizeof r);
	EXPECT(lmplay_start(&r, 0, 0) == LMPLAY_USAGE);
}

// hooks_for_accesses returns hooks that make all accesses.
static struct lmplay_hooks hooks_for_accesses(void) {
	struct lmplay_hooks hooks = good_hooks;
	hooks.load = load_hook;
	hooks.store = store_hook;
	machine.by_hooks = true;
	return hooks;
}

// reject_mappings has ports that map nothing, or handles without functions for accesses.
static void reject_mappings(struct file *f) {
	struct lmplay_replay r;
	struct lmplay_hooks hooks = hooks_for_accesses();
	hooks.store = NULL;
	EXPECT(load(f, &r, &hooks, NULL) == LMPLAY_NO_DEVICE);
	hooks = hooks_for_accesses();
	hooks.load = NULL;
	EXPECT(load(f, &r, &hooks, NULL) == LMPLAY_NO_DEVICE);
	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_NO_DEVICE);
	machine.by_hooks = false;
	machine.is_unmapped = true;
	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_NO_DEVICE);
	machine.is_unmapped = false;
}

// fail_each_map loads an image while one call of map after the other fails.
static void fail_each_map(struct file *f) {
	struct lmplay_replay r;
	uint32_t failed = 0;
	enum lmplay_code code;
	do {
		machine.maps = 0;
		machine.failing_map = failed + 1;
		code = load(f, &r, &good_hooks, NULL);
		EXPECT(code == LMPLAY_OK || code == LMPLAY_NO_DEVICE);
		failed += code != LMPLAY_OK;
	} while (code != LMPLAY_OK);
	EXPECT(failed == machine.maps && failed > 0);
	EXPECT(lmplay_unload(&r) == LMPLAY_OK);
	machine.failing_map = 0;
}

// fail_each_access loads and runs an image while one access after the other fails, up to `most`.
static void fail_each_access(struct file *f, uint32_t most) {
	struct lmplay_hooks hooks = hooks_for_accesses();
	for (uint32_t n = 1; n <= most; n++) {
		struct lmplay_replay r;
		machine.accesses = 0;
		machine.failing_access = n;
		enum lmplay_code code = load(f, &r, &hooks, NULL);
		if (code == LMPLAY_OK) {
			for (uint32_t i = 0; i < f->plan.tensors; i++)
				lmplay_input(&r, i);
			code = lmplay_run(&r, 0, 0, NULL);
			enum lmplay_code unloaded = lmplay_unload(&r);
			code = code == LMPLAY_OK ? unloaded : code;
		}
		EXPECT(machine.accesses < n || code != LMPLAY_OK);
		EXPECT(machine.masters == 0);
		machine.codes |= 1u << code;
	}
	EXPECT((machine.codes & 1u << LMPLAY_DEVICE_GONE) && (machine.codes & 1u << LMPLAY_REFUSED));
	machine.failing_access = 0;
	machine.by_hooks = false;
}

// move_by_dma runs edu-dma on memory, as a port does whose caches are not coherent with DMA.
static void move_by_dma(struct file *f) {
	struct lmplay_replay r;
	struct lmplay_result result;
	struct lmplay_hooks hooks = good_hooks;
	static const uint32_t identification = 0x010000ed;
	memset(machine.bar, 0, sizeof machine.bar);
	memcpy(machine.bar, &identification, sizeof identification);
	hooks.clean = clean;
	hooks.invalidate = invalidate;
	machine.is_edu = true;
	EXPECT(load(f, &r, &hooks, NULL) == LMPLAY_OK && machine.masters == 1);
	EXPECT(lmplay_input(&r, f->plan.tensors) == NULL);
	EXPECT(lmplay_output(&r, f->plan.tensors) == NULL);
	EXPECT(lmplay_run(&r, 0, 0, &result) == LMPLAY_OK);
	EXPECT(machine.cleaned > 0 && machine.invalidated > 0);
	EXPECT(lmplay_run(&r, 0, 1000000000, &result) == LMPLAY_OK);
	machine.is_edu = false;

	// An interrupt ends the pause of a poll before its time.
	EXPECT(lmplay_start(&r, 0, 0) == LMPLAY_OK);
	while (lmplay_next_ns(&r) == 0)
		EXPECT(lmplay_step(&r, 1) == LMPLAY_BUSY);
	uint64_t due = lmplay_next_ns(&r);
	EXPECT(lmplay_step(&r, 1) == LMPLAY_BUSY && lmplay_next_ns(&r) == due);
	finish_edu(&machine);
	lmplay_interrupt(&r);
	EXPECT(lmplay_next_ns(&r) == 0 && lmplay_step(&r, 2) == LMPLAY_BUSY && machine.time < due);
	EXPECT(lmplay_next_ns(&r) == 0 && lmplay_step(&r, 1) == LMPLAY_BUSY);

	EXPECT(load(f, &r, &hooks, NULL) == LMPLAY_OK);
	hooks.wait = NULL; // the player reads the clock again and again
	machine.tick = 1000000;
	EXPECT(lmplay_run(&r, 0, 0, &result) == LMPLAY_DEADLINE_PASSED);
	machine.tick = 50;
	machine.unmaster_code = LMPLAY_MASTER_OFF;
	EXPECT(lmplay_unload(&r) == LMPLAY_MASTER_OFF && machine.masters == 0);
	machine.unmaster_code = LMPLAY_OK;
}

// reject_masters loads while bus mastering cannot be enabled.
static void reject_masters(struct file *f) {
	struct lmplay_replay r;
	struct lmplay_hooks hooks = good_hooks;
	hooks.set_bus_master = NULL;
	EXPECT(load(f, &r, &hooks, NULL) == LMPLAY_NO_DEVICE);
	machine.master_code = LMPLAY_MASTER_OFF;
	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_MASTER_OFF && machine.masters == 0);
	machine.master_code = LMPLAY_OK;
	machine.unmaster_code = LMPLAY_DEVICE_GONE;
	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_OK);
	EXPECT(lmplay_unload(&r) == LMPLAY_DEVICE_GONE);
	machine.unmaster_code = LMPLAY_OK;
}

// reject_load loads with one thing wrong at a time.
static void reject_load(struct file *f) {
	struct lmplay_replay r;
	struct lmplay_error error;
	struct lmplay_hooks hooks = good_hooks;
	struct lmplay_device other[LMPLAY_DEVICES_MAX];
	memset(other, 0, sizeof other);
	uint64_t size = f->plan.arena_bytes;
	hooks.map = NULL;
	EXPECT(load(f, &r, &hooks, &error) == LMPLAY_USAGE);
	EXPECT(lmplay_load(&r, &f->image, &good_hooks, other, 1, f->arena, size, &error) ==
		LMPLAY_WRONG_DEVICE);
	EXPECT(lmplay_load(&r, &f->image, &good_hooks, other, 2, f->arena, size, &error) ==
		LMPLAY_USAGE);
	EXPECT(lmplay_load(&r, &f->image, &good_hooks, other, 1, f->arena, size - 1, &error) ==
		LMPLAY_USAGE); // too little memory, as for lmplay_verify
	machine.map_code = LMPLAY_NO_DEVICE;
	EXPECT(load(f, &r, &good_hooks, &error) == LMPLAY_NO_DEVICE);
	machine.map_code = LMPLAY_OK;
	machine.misaligned = 4;
	EXPECT(load(f, &r, &good_hooks, &error) == LMPLAY_NO_DEVICE);
	machine.misaligned = 0;
	EXPECT(lmplay_start(&r, 0, 0) == LMPLAY_DISABLED && lmplay_step(&r, 1) == LMPLAY_USAGE);
	EXPECT(lmplay_start(NULL, 0, 0) == LMPLAY_USAGE && lmplay_unload(&r) == LMPLAY_USAGE);
	EXPECT(lmplay_input(&r, 0) == NULL && lmplay_output(&r, 0) == NULL);
}

// run_factorial makes runs of edu-factorial end in several ways: the registers are memory.
static void run_factorial(struct file *f) {
	struct lmplay_replay r;
	struct lmplay_result result;
	uint32_t last = f->plan.sequences;
	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_OK);
	EXPECT(lmplay_run(&r, last, 0, &result) == LMPLAY_USAGE && result.command == LMPLAY_NONE);
	EXPECT(lmplay_step(&r, 1) == LMPLAY_USAGE);
	EXPECT(lmplay_run(&r, 0, 0, NULL) != LMPLAY_OK); // memory is no edu
	EXPECT(lmplay_run(&r, 0, 0, &result) == LMPLAY_DISABLED);
	EXPECT(lmplay_unload(&r) == LMPLAY_OK && lmplay_run(&r, 0, 0, NULL) == LMPLAY_DISABLED);

	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_OK);
	EXPECT(lmplay_start(&r, 0, 0) == LMPLAY_OK && lmplay_step(&r, 0) == LMPLAY_USAGE);
	lmplay_fault(&r);
	EXPECT(lmplay_next_ns(&r) == 0);
	lmplay_result(&r, &result);
	EXPECT(result.code == LMPLAY_BUSY);
	EXPECT(lmplay_step(&r, 1000) == LMPLAY_BUS_FAULT && lmplay_step(&r, 1) == LMPLAY_BUS_FAULT);
	lmplay_result(&r, NULL);
	lmplay_result(&r, &result);
	EXPECT(result.code == LMPLAY_BUS_FAULT && result.command == 0);

	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_OK);
	EXPECT(lmplay_start(&r, 0, 0) == LMPLAY_OK);
	lmplay_stop(&r);
	EXPECT(lmplay_step(&r, 1000) == LMPLAY_RUN_LATE);

	// A device that is gone: all loads are ones, and the query says so.
	memset(machine.bar, 0xff, sizeof machine.bar);
	machine.query_code = LMPLAY_DEVICE_GONE;
	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_OK);
	EXPECT(lmplay_run(&r, 0, 0, &result) == LMPLAY_DEVICE_GONE);
	machine.query_code = LMPLAY_OK;
	memset(machine.bar, 0, sizeof machine.bar);
}

// run_without_answer runs an image with inputs on memory, with a limit and with a stop.
static void run_without_answer(struct file *f) {
	struct lmplay_replay r;
	struct lmplay_result result;
	EXPECT(load(f, &r, &good_hooks, NULL) == LMPLAY_OK);
	for (uint32_t i = 0; i < f->plan.tensors; i++) {
		struct lmplay_tensor tensor;
		EXPECT(lmplay_tensor(&f->image, i, &tensor) == LMPLAY_OK);
		bool is_input = tensor.role == LMPLAY_INPUT;
		uint8_t *input = lmplay_input(&r, i);
		EXPECT(is_input == (input != NULL) && is_input == (lmplay_output(&r, i) == NULL));
		EXPECT(!tensor.data || !input || memcmp(input, tensor.data, tensor.size) == 0);
		EXPECT(lmplay_input(&r, i) == input);
	}
	machine.stopped = &r;
	EXPECT(lmplay_run(&r, 0, 1000000000, &result) != LMPLAY_OK);
	machine.stopped = NULL;
	EXPECT(lmplay_unload(&r) == LMPLAY_OK && machine.masters == 0);
}

int main(int argc, char **argv) {
	enum { EDU, TWOOP, DMA, WORMHOLE_HOST, FIXED, CONFIG, FILES };
	struct file files[FILES];
	struct lmplay_replay r;
	if (argc != 1 + FILES)
		return 64;
	for (int i = 0; i < FILES; i++)
		open_file(&files[i], argv[1 + i]);
	reject_wrong_arguments(&files[EDU]);
	reject_null(&files[EDU]);
	reject_load(&files[EDU]);
	reject_mappings(&files[EDU]);
	run_factorial(&files[EDU]);
	run_without_answer(&files[TWOOP]);
	fail_each_map(&files[TWOOP]);
	fail_each_map(&files[WORMHOLE_HOST]);
	fail_each_access(&files[TWOOP], 60);
	fail_each_access(&files[WORMHOLE_HOST], 200);
	reject_masters(&files[DMA]);
	reject_masters(&files[WORMHOLE_HOST]);
	move_by_dma(&files[DMA]);
	EXPECT(load(&files[FIXED], &r, &good_hooks, NULL) == LMPLAY_NO_DEVICE); // another address
	EXPECT(load(&files[CONFIG], &r, &good_hooks, NULL) == LMPLAY_NO_DEVICE); // no load_config
	for (int i = 0; i < FILES; i++)
		close_file(&files[i]);
	return failures > 0;
}
