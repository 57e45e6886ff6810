/*
 * Runs the C player, runtime/c/lmplay.c, on test vectors:
 *
 *	check DIRECTORY FILE.vec...
 *
 * It prints a line for each vector that the player does not do, and the number of all vectors. Its
 * exit status is 1 if there was one. The images lie in read-only memory. With the environment
 * variable STEPS=N, runs are made by lmplay_step with a budget of N. With MAPPED=1, the player
 * accesses windows as if they were mapped memory, by the macros in config.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "port.h"
#include "vector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

uint64_t bus_address(void *context, uint32_t window) {
	const struct vector *v = context;
	return (window < WINDOWS && v->has_bus[window]) ? v->bus[window] : 0;
}

static struct space space_of(uintptr_t address) {
	const struct lmplay_range *r = range_of(address);
	if (r->kind == LMPLAY_RANGE_HOST)
		return (struct space){SPACE_HOST, 0, r->window};
	return (struct space){SPACE_BAR, r->device, r->bar};
}

static enum lmplay_code load(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t *value) {
	bool ok = vector_load(context, space_of(address), offset_of(address) + offset, width, value);
	return ok ? LMPLAY_OK : LMPLAY_BUS_FAULT;
}

static enum lmplay_code store(void *context, uintptr_t address, uint64_t offset, uint32_t width,
	uint64_t value) {
	bool ok = vector_store(context, space_of(address), offset_of(address) + offset, width, value);
	return ok ? LMPLAY_OK : LMPLAY_BUS_FAULT;
}

/* The vector and the player of mapped_load and mapped_store. */
static struct vector current;
static struct port port;

uint64_t mapped_load(uintptr_t address, unsigned width) {
	uint64_t value;
	if (load(&current, address, 0, width, &value) != LMPLAY_OK)
		lmplay_fault(&port.replay);
	return value;
}

void mapped_store(uintptr_t address, unsigned width, uint64_t value) {
	if (store(&current, address, 0, width, value) != LMPLAY_OK)
		lmplay_fault(&port.replay);
}

static enum lmplay_code load_config(void *context, uint32_t device, uint32_t offset,
	uint32_t width, uint32_t *value) {
	uint64_t loaded;
	bool ok = vector_load(context, (struct space){SPACE_CONFIG, device, 0}, offset, width, &loaded);
	*value = (uint32_t)loaded;
	return ok ? LMPLAY_OK : LMPLAY_BUS_FAULT;
}

static enum lmplay_code query(void *context, uint32_t device) {
	return vector_is_present(context, device) ? LMPLAY_OK : LMPLAY_DEVICE_GONE;
}

static enum lmplay_code set_vectors(void *context, uint32_t device, uint32_t kind,
	uint32_t count) {
	(void)context, (void)device, (void)kind, (void)count;
	return LMPLAY_OK;
}

static enum lmplay_code set_bus_master(void *context, uint32_t device, uint32_t on) {
	(void)context, (void)device, (void)on;
	return LMPLAY_OK;
}

static uint64_t now(void *context) { return ((const struct vector *)context)->now; }

static void wait(void *context, uint64_t ns) { vector_wait(context, ns); }

static void barrier(void *context) { vector_fence(context); }

/* Runs a sequence by lmplay_run, or by lmplay_step with a budget. */
static void run(struct vector *v, uint32_t sequence, uint32_t budget,
	struct lmplay_result *result) {
	if (budget == 0) {
		(void)lmplay_run(&port.replay, sequence, 0, result);
		return;
	}
	memset(result, 0, sizeof *result);
	result->command = LMPLAY_NONE;
	result->code = lmplay_start(&port.replay, sequence, 0);
	if (result->code != LMPLAY_OK)
		return;
	while (lmplay_step(&port.replay, budget) == LMPLAY_BUSY) {
		uint64_t next = lmplay_next_ns(&port.replay);
		if (next > v->now)
			vector_wait(v, next - v->now);
	}
	lmplay_result(&port.replay, result);
}

/* Compares the result of a run and the outputs with the vector. */
static void check_result(struct vector *v, const struct lmplay_result *r) {
	char line[200];
	snprintf(line, sizeof line, "end %s", port_code(r->code));
	if (r->code != LMPLAY_OK && r->command != LMPLAY_NONE)
		snprintf(line, sizeof line, "end %s command %" PRIu32, port_code(r->code), r->command);
	vector_result(v, line);
	if (port_has_seen(r)) {
		/* not %#x: it writes 0 without a prefix */
		snprintf(line, sizeof line, "seen 0x%" PRIx64 " 0x%" PRIx64 " 0x%" PRIx64 " %" PRIu64,
			r->got, r->want, r->mask, r->element);
		vector_result(v, line);
	}
	if (r->safe_ran) {
		snprintf(line, sizeof line, "safe %s", port_code(r->safe));
		vector_result(v, line);
	}
	if (r->ignored) {
		snprintf(line, sizeof line, "ignored %" PRIu32, r->ignored);
		vector_result(v, line);
	}
	for (const struct step *s; (s = vector_output(v));) {
		struct lmplay_tensor tensor;
		const void *output = lmplay_output(&port.replay, s->index);
		if (lmplay_tensor(&port.image, s->index, &tensor) != LMPLAY_OK || tensor.size != s->size)
			vector_fail(v, "output %u has another size", s->index);
		else if (!output || memcmp(output, s->data, s->size) != 0)
			vector_fail(v, "the bytes of output %u differ", s->index);
	}
}

/* Looks up all sequences and tensors by their names. */
static void check_names(struct vector *v) {
	for (uint32_t i = 0; i < port.plan.sequences; i++) {
		const char *name;
		uint32_t size, found = LMPLAY_NONE;
		(void)lmplay_sequence_name(&port.image, i, &name, &size);
		if (lmplay_find_sequence(&port.image, name, size, &found) != LMPLAY_OK || found > i)
			vector_fail(v, "sequence %u is not found by its name", i);
	}
	for (uint32_t i = 0; i < port.plan.tensors; i++) {
		struct lmplay_tensor t;
		uint32_t found = LMPLAY_NONE;
		(void)lmplay_tensor(&port.image, i, &t);
		if (lmplay_find_tensor(&port.image, t.name, t.name_bytes, &found) != LMPLAY_OK || found > i)
			vector_fail(v, "tensor %u is not found by its name", i);
	}
}

/* Reports whether a vector has a store that fails. If windows are mapped, the player may notice it
   at a later command. */
static bool has_failing_store(const struct vector *v) {
	for (size_t i = 0; i < v->count; i++)
		if (v->steps[i].kind == STORE && v->steps[i].fails)
			return true;
	return false;
}

/* Returns a copy of the image that only loads can access, as in flash. */
static void *flash(const struct vector *v) {
	void *image = mmap(NULL, v->size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		0);
	if (image == MAP_FAILED) {
		perror("mmap");
		exit(70);
	}
	memcpy(image, v->file, v->size);
	if (mprotect(image, v->size + 1, PROT_READ) != 0) {
		perror("mprotect");
		exit(70);
	}
	return image;
}

static void check(struct vector *v, const void *image, uint32_t budget) {
	char place[64] = "", verdict[128];
	struct lmplay_hooks hooks = {.context = v, .load = load, .store = store,
		.load_config = load_config, .query = query, .set_bus_master = set_bus_master, .now = now,
		.set_vectors = set_vectors,
		.wait = wait, .barrier = barrier};
	enum lmplay_code code = port_verify(&port, image, v->size, v->limit_us, place);
	if (code == LMPLAY_OK) {
		check_names(v);
		for (uint32_t i = 0; i < DEVICES; i++) {
			const struct device *d = &v->devices[i];
			if (!d->is_given)
				continue;
			port.devices[i].vendor = d->vendor;
			port.devices[i].device = d->device;
			port.devices[i].subsystem = d->subsystem;
			memcpy(port.devices[i].bars, d->bars, sizeof d->bars);
		}
		code = port_load(&port, &hooks, place);
	}
	snprintf(verdict, sizeof verdict, "%s %s", port_code(code), place);
	if (v->reject[0] || code != LMPLAY_OK) {
		if (strcmp(verdict, v->reject) != 0)
			vector_fail(v, "'reject %s', but 'reject %s' expected; the player says: %s", verdict,
				v->reject, port.error.reason ? port.error.reason : "nothing");
		port_close(&port);
		return;
	}
	for (const struct step *s; !v->error[0] && (s = vector_next(v));) {
		struct lmplay_result result;
		if (s->kind == INPUT) {
			memcpy(lmplay_input(&port.replay, s->index), s->data, s->size);
		} else if (s->kind == RUN) {
			run(v, s->index, budget, &result);
			check_result(v, &result);
		} else if (s->kind == UNLOAD) {
			(void)lmplay_unload(&port.replay);
		} else {
			vector_fail(v, "'%s' was not done", s->text);
		}
	}
	(void)lmplay_unload(&port.replay);
	port_close(&port);
}

int main(int argc, char **argv) {
	struct vector *v = &current;
	const char *steps = getenv("STEPS");
	uint32_t budget = steps ? (uint32_t)strtoul(steps, NULL, 0) : 0;
	unsigned count = 0, failed = 0;
	by_hooks = getenv("MAPPED") == NULL;
	if (argc < 3) {
		fprintf(stderr, "usage: check DIRECTORY FILE.vec...\n");
		return 64;
	}
	for (int i = 2; i < argc; i++) {
		FILE *file = fopen(argv[i], "r");
		if (!file) {
			perror(argv[i]);
			return 66;
		}
		while (vector_read(v, file, argv[1])) {
			if (by_hooks || !has_failing_store(v)) {
				void *image = flash(v);
				check(v, image, budget);
				(void)munmap(image, v->size + 1);
			}
			count++;
			if (v->error[0]) {
				failed++;
				printf("%s: %s\n", v->name, v->error);
			}
			vector_free(v);
		}
		fclose(file);
	}
	printf("%u vectors, %u differ\n", count, failed);
	return failed ? 1 : 0;
}
