#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void wait_us(uint32_t us) {
	struct timespec t = {us / 1000000, us % 1000000 * 1000L};
	nanosleep(&t, NULL);
}

static inline void fence(void) {
#if defined __x86_64__
	__builtin_ia32_mfence();
#elif defined __aarch64__
	__asm__ volatile("dmb osh" ::: "memory");
#else
	__sync_synchronize();
#endif
}

static inline uint64_t load(const volatile void *at, unsigned width) {
	switch (width) {
	case 4:
		return *(const volatile uint32_t *)at;
	case 8:
		return *(const volatile uint64_t *)at;
	case 2:
		return *(const volatile uint16_t *)at;
	}
	return *(const volatile uint8_t *)at;
}

static inline void store(volatile void *at, unsigned width, uint64_t value) {
	switch (width) {
	case 4:
		*(volatile uint32_t *)at = value;
		return;
	case 8:
		*(volatile uint64_t *)at = value;
		return;
	case 2:
		*(volatile uint16_t *)at = value;
		return;
	}
	*(volatile uint8_t *)at = value;
}

static inline uint64_t width_mask(unsigned width) { return ~0ULL >> (64 - 8 * width); }

// Loops of accesses of one width; the device's address moves by step.
#define LOOPS(TYPE)                                                                                                \
	static void in_##TYPE(uint8_t *device, size_t step, const uint8_t *data, size_t size) {                        \
		for (; size; size -= sizeof(TYPE), device += step, data += sizeof(TYPE))                                   \
			*(volatile TYPE *)device = *(const TYPE *)data;                                                        \
	}                                                                                                              \
	static void out_##TYPE(const uint8_t *device, size_t step, uint8_t *data, size_t size) {                       \
		for (; size; size -= sizeof(TYPE), device += step, data += sizeof(TYPE))                                   \
			*(TYPE *)data = *(const volatile TYPE *)device;                                                        \
	}                                                                                                              \
	static void fill_##TYPE(uint8_t *device, size_t step, uint64_t value, size_t size) {                           \
		for (; size; size -= sizeof(TYPE), device += step)                                                         \
			*(volatile TYPE *)device = value;                                                                      \
	}                                                                                                              \
	static int same_##TYPE(const uint8_t *device, const uint8_t *data, size_t size) {                              \
		for (; size; size -= sizeof(TYPE), device += sizeof(TYPE), data += sizeof(TYPE))                           \
			if (*(const volatile TYPE *)device != *(const TYPE *)data)                                             \
				return 0;                                                                                          \
		return 1;                                                                                                  \
	}
LOOPS(uint8_t)
LOOPS(uint16_t)
LOOPS(uint32_t)
LOOPS(uint64_t)

#define BY_WIDTH(WIDTH, CALL)                                                                                      \
	switch (WIDTH) {                                                                                               \
	case 1:                                                                                                        \
		CALL(uint8_t);                                                                                             \
		break;                                                                                                     \
	case 2:                                                                                                        \
		CALL(uint16_t);                                                                                            \
		break;                                                                                                     \
	case 4:                                                                                                        \
		CALL(uint32_t);                                                                                            \
		break;                                                                                                     \
	case 8:                                                                                                        \
		CALL(uint64_t);                                                                                            \
		break;                                                                                                     \
	}

// A line at a time past the cache. The device side is aligned to 64.
#if defined __x86_64__
#include <immintrin.h>
__attribute__((target("avx"))) static void stream_avx(uint8_t *device, const uint8_t *data, size_t lines) {
	for (; lines; lines--, device += 64, data += 64) {
		__m256i a = _mm256_loadu_si256((const __m256i *)data), b = _mm256_loadu_si256((const __m256i *)data + 1);
		_mm256_stream_si256((__m256i *)device, a);
		_mm256_stream_si256((__m256i *)device + 1, b);
	}
}
static void stream_sse2(uint8_t *device, const uint8_t *data, size_t lines) {
	for (; lines; lines--, device += 64, data += 64)
		for (int i = 0; i < 4; i++)
			_mm_stream_si128((__m128i *)device + i, _mm_loadu_si128((const __m128i *)data + i));
}
static void stream_lines(uint8_t *device, const uint8_t *data, size_t lines) {
	if (__builtin_cpu_supports("avx"))
		stream_avx(device, data, lines);
	else
		stream_sse2(device, data, lines);
	_mm_sfence();
}
#elif defined __aarch64__
static void stream_lines(uint8_t *device, const uint8_t *data, size_t lines) {
	for (; lines; lines--, device += 64, data += 64)
		__asm__ volatile("ldp q0, q1, [%1]\n\tldp q2, q3, [%1, #32]\n\tstnp q0, q1, [%0]\n\tstnp q2, q3, [%0, #32]"
						 ::"r"(device), "r"(data) : "v0", "v1", "v2", "v3", "memory");
}
#else
#define stream_lines(device, data, lines) memcpy(device, data, (lines) * 64)
#endif

static void stream(uint8_t *device, const uint8_t *data, size_t size) {
	size_t head = -(uintptr_t)device % 64;
	if (head > size)
		head = size;
	memcpy(device, data, head);
	device += head, data += head, size -= head;
	stream_lines(device, data, size / 64);
	memcpy(device + size / 64 * 64, data + size / 64 * 64, size % 64);
}

static void copy_in(const struct replay *r, const struct command *c, uint8_t *device, const uint8_t *data) {
	if (c->option == BULK && r->way == STREAM) {
		stream(device, data, c->amount);
	} else if (c->option == BULK) {
		memcpy(device, data, c->amount);
	} else {
		size_t step = c->option == FIXED ? 0 : c->width;
#define IN(TYPE) in_##TYPE(device, step, data, c->amount)
		BY_WIDTH(c->width, IN)
	}
}

static void copy_out(const struct command *c, const uint8_t *device, uint8_t *data) {
	if (c->option == BULK) {
		memcpy(data, device, c->amount);
	} else {
		size_t step = c->option == FIXED ? 0 : c->width;
#define OUT(TYPE) out_##TYPE(device, step, data, c->amount)
		BY_WIDTH(c->width, OUT)
	}
}

static void fill(const struct command *c, uint8_t *device) {
	size_t step = c->option == FIXED ? 0 : c->width;
#define FILL(TYPE) fill_##TYPE(device, step, c->value, c->amount)
	BY_WIDTH(c->width, FILL)
}

static void write_command(const struct replay *r, const struct command *c) {
	uint8_t *at = r->windows[c->window] + c->offset;
	uint64_t value = c->value;
	if (c->mode == BUS_ADDRESS)
		value += r->bus[c->index];
	else if (c->mask != width_mask(c->width))
		value |= load(at, c->width) & ~c->mask;
	store(at, c->width, value);
}

// write_run carries out a Write and those that follow it and differ from it in
// offset and value alone. It gives the last of them.
static const struct command *write_run(const struct replay *r, const struct command *c) {
	uint8_t *base = r->windows[c->window];
	uint64_t kind = *(const uint64_t *)c, mask = c->mask; // opcode to index
	if (c->mode != IMMEDIATE || mask != width_mask(c->width)) {
		write_command(r, c);
		return c;
	}
	if (c->width == 4) {
		for (; *(const uint64_t *)c == kind && c->mask == mask; c++)
			*(volatile uint32_t *)(base + c->offset) = c->value;
	} else {
		for (; *(const uint64_t *)c == kind && c->mask == mask; c++)
			store(base + c->offset, c->width, c->value);
	}
	return c - 1;
}

static void copy_in_command(const struct replay *r, const struct command *c) {
	const struct tensor *t = &r->image->tensors[c->index];
	uint8_t *at = r->windows[c->window] + c->offset;
	if (c->mode == PAYLOAD)
		copy_in(r, c, at, r->image->payload + c->value);
	else if (c->mode == TENSOR) // of which only the recorded data are known here
		copy_in(r, c, at, r->image->payload + t->recorded_offset + c->value);
	else
		fill(c, at);
}

static int holds(const struct command *c, uint64_t loaded) {
	switch (c->mode) {
	case EQUAL:
		return (loaded & c->mask) == c->value;
	case NOT_EQUAL:
		return (loaded & c->mask) != c->value;
	case ANY_SET:
		return (loaded & c->mask) != 0;
	}
	return (loaded & c->mask) != c->mask;
}

// FORMAT.md does not say whether a poll looks once more when its deadline has
// passed while it was waiting; here it does.
static enum status poll(const struct replay *r, const struct command *c) {
	const uint8_t *at = r->windows[c->window] + c->offset;
	if (holds(c, load(at, c->width)))
		return DONE;
	int64_t deadline = now() + c->amount * 1000LL;
	for (;;) {
		if (c->index)
			wait_us(c->index);
		int late = now() >= deadline;
		if (holds(c, load(at, c->width)))
			return DONE;
		if (late)
			return DEADLINE_PASSED;
	}
}

static double half(uint16_t bits) {
	double sign = bits >> 15 ? -1 : 1, fraction = bits & 0x3ff;
	int exponent = bits >> 10 & 0x1f;
	if (exponent == 31)
		return fraction ? NAN : sign * INFINITY;
	return exponent ? sign * ldexp(1024 + fraction, exponent - 25) : sign * ldexp(fraction, -24);
}

static double element(unsigned dtype, const uint8_t *at) {
	union {
		int8_t i8;
		uint8_t u8;
		int16_t i16;
		uint16_t u16;
		int32_t i32;
		uint32_t u32;
		int64_t i64;
		uint64_t u64;
		float f32;
		double f64;
	} n = {0};
	memcpy(&n, at, dtype <= UINT8 ? 1 : dtype <= UINT16 || dtype == FLOAT16 || dtype == BFLOAT16 ? 2
			: dtype <= UINT32 || dtype == FLOAT32									 ? 4
																					 : 8);
	switch (dtype) {
	case INT8:
		return n.i8;
	case UINT8:
		return n.u8;
	case INT16:
		return n.i16;
	case UINT16:
		return n.u16;
	case INT32:
		return n.i32;
	case UINT32:
		return n.u32;
	case INT64:
		return n.i64;
	case UINT64:
		return n.u64;
	case FLOAT16:
		return half(n.u16);
	case BFLOAT16:
		n.u32 <<= 16;
		return n.f32;
	case FLOAT32:
		return n.f32;
	}
	return n.f64;
}

static unsigned dtype_size(unsigned dtype) {
	static const uint8_t sizes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
	return sizes[dtype];
}

// FORMAT.md leaves open what a Tolerance makes of equal infinities and of NaN,
// and in what arithmetic 64-bit integers are compared. Here: elements with equal
// bits are equal, a NaN differs from all others, all arithmetic is double.
static int close_enough(const struct command *c, const uint8_t *got, const uint8_t *want) {
	float absolute, relative;
	memcpy(&absolute, &c->mask, 4);
	memcpy(&relative, (const uint8_t *)&c->mask + 4, 4);
	unsigned size = dtype_size(c->index);
	for (uint32_t i = 0; i < c->amount; i += size) {
		if (memcmp(got + i, want + i, size) == 0)
			continue;
		double w = element(c->index, want + i);
		if (!(fabs(element(c->index, got + i) - w) <= absolute + relative * fabs(w)))
			return 0;
	}
	return 1;
}

// FORMAT.md leaves open what the coefficient of a constant series is. Here: 1
// for two equal constants, else 0.
static int correlated(const struct command *c, const uint8_t *got, const uint8_t *want) {
	double n = 0, mean_got = 0, mean_want = 0, var_got = 0, var_want = 0, shared = 0, coefficient;
	for (uint32_t i = 0; i < c->amount; i += dtype_size(c->index)) {
		double off_got = element(c->index, got + i) - mean_got, off_want = element(c->index, want + i) - mean_want;
		n++;
		mean_got += off_got / n;
		mean_want += off_want / n;
		var_got += off_got * (element(c->index, got + i) - mean_got);
		var_want += off_want * (element(c->index, want + i) - mean_want);
		shared += off_got * (element(c->index, want + i) - mean_want);
	}
	float threshold;
	memcpy(&threshold, &c->mask, 4);
	if (var_got == 0 && var_want == 0)
		coefficient = mean_got == mean_want;
	else
		coefficient = var_got == 0 || var_want == 0 ? 0 : shared / sqrt(var_got * var_want);
	return coefficient >= threshold;
}

// "Golden values of float types are compared as such" cannot mean mode Exact
// if that is to accept a NaN it recorded; bytes are compared there.
static enum status compare(const struct replay *r, const struct command *c) {
	const uint8_t *at = r->windows[c->window] + c->offset, *want = r->image->payload + c->value;
	int good = 0;
	if (c->mode == COMPARE_EXACT) {
#define SAME(TYPE) good = same_##TYPE(at, want, c->amount)
		BY_WIDTH(c->width, SAME)
	} else if (c->mode == TOLERANCE) {
		good = close_enough(c, at, want);
	} else {
		good = correlated(c, at, want);
	}
	return good ? DONE : COMPARE_FAILED;
}

static enum status settle(struct replay *r, const struct command *c, enum status status) {
	if (status == DONE || c->option == FAIL)
		return status;
	r->ignored += c->option == IGNORE;
	if (c->option == DEFER && r->deferred.status == DONE)
		r->deferred = (struct result){status, r->at};
	return DONE;
}

static void mark(struct replay *r, const struct command *c) {
	struct scope *s = &r->scopes[c->index];
	if (c->mode == MARK_BEGIN) {
		s->began = now();
		return;
	}
	s->count++;
	if (c->mode == MARK_END) {
		int64_t took = now() - s->began;
		s->total += took;
		if (took > s->longest)
			s->longest = took;
	}
}

static enum status execute(struct replay *r, const struct sequence *s) {
	const struct command *c = r->image->commands + s->first, *first;
	uint64_t done = 0;
	for (enum status status = DONE;; c++, done++) {
		r->at = c - r->image->commands;
		switch (c->opcode) {
		case WRITE:
			first = c;
			c = write_run(r, c);
			done += c - first;
			break;
		case COPY_IN:
			copy_in_command(r, c);
			break;
		case COPY_OUT:
			copy_out(c, r->windows[c->window] + c->offset, r->arena + r->image->tensors[c->index].arena_offset + c->value);
			break;
		case POLL:
			status = settle(r, c, poll(r, c));
			break;
		case EXPECT:
			status = settle(r, c, holds(c, load(r->windows[c->window] + c->offset, c->width)) ? DONE : EXPECT_FAILED);
			break;
		case COMPARE:
			status = settle(r, c, compare(r, c));
			break;
		case FENCE:
			fence();
			if (c->mode == READ_BACK)
				load(r->windows[c->window] + c->offset, c->width);
			break;
		case DELAY:
			wait_us(c->amount);
			break;
		case CALL: {
			int32_t at = r->at;
			status = execute(r, &r->image->sequences[c->index]);
			if (status == DONE)
				r->at = at;
			break;
		}
		case MARK:
			mark(r, c);
			break;
		case END:
			return done == c->value ? DONE : INTERNAL;
		default:
			return INTERNAL;
		}
		if (status != DONE)
			return status;
	}
}

struct result replay_run(struct replay *r, uint32_t sequence) {
	if (r->disabled)
		return (struct result){INTERNAL, -1};
	r->deferred = (struct result){DONE, 0};
	r->ignored = 0;
	enum status status = execute(r, &r->image->sequences[sequence]);
	struct result result = status == DONE ? r->deferred : (struct result){status, r->at};
	if (result.status == DONE)
		return result;
	r->disabled = 1;
	uint32_t ignored = r->ignored;
	for (uint32_t i = 0; i < r->image->reservation.sequences; i++)
		if (i != sequence && strcmp(r->image->sequences[i].name, "safe") == 0)
			execute(r, &r->image->sequences[i]);
	r->ignored = ignored;
	return result;
}

// bar_start is where a BAR begins in the device's memory.
static uint64_t bar_start(const struct image *image, unsigned target, unsigned bar) {
	uint64_t start = 0;
	for (unsigned t = 0; t <= target && t < image->targets_count; t++)
		for (unsigned b = 0; b < 6 && (t < target || b < bar); b++)
			start += round_up(image->targets[t].bars[b], 4096);
	return start;
}

uint64_t device_size(const struct image *image) {
	for (uint32_t i = 0; i < image->reservation.windows; i++)
		if (image->windows[i].kind != BAR && image->windows[i].kind != HOST)
			return 0;
	return bar_start(image, image->targets_count, 0) + image->reservation.host_bytes;
}

enum status replay_load(struct replay *r, const struct image *image, uint8_t *device) {
	memset(r, 0, sizeof *r);
	if (device_size(image) == 0)
		return WRONG_DEVICE;
	uint32_t windows = image->reservation.windows;
	uint64_t host = bar_start(image, image->targets_count, 0);
	r->image = image;
	r->windows = calloc(windows, sizeof *r->windows);
	r->bus = calloc(windows, sizeof *r->bus);
	r->scopes = calloc(image->reservation.names + 1, sizeof *r->scopes);
	for (uint32_t i = 0; i < windows; i++) {
		const struct window *w = &image->windows[i];
		uint64_t start = w->kind == HOST ? host : bar_start(image, w->device, w->bar) + w->offset;
		if (w->kind == HOST)
			host += round_up(w->size, 4096);
		r->windows[i] = device + start;
		r->bus[i] = BUS_BASE + start;
	}
	if (image->reservation.arena_bytes == 0)
		return DONE;
	r->arena = mmap(NULL, image->reservation.arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->arena == MAP_FAILED || mlock(r->arena, image->reservation.arena_bytes) != 0)
		return INTERNAL;
	return DONE;
}

void replay_close(struct replay *r) {
	if (r->arena)
		munmap(r->arena, r->image->reservation.arena_bytes);
	free(r->windows);
	free(r->bus);
	free(r->scopes);
}
