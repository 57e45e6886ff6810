// The fastest replay in C that we know, with which the bench compares the runtime. It checks
// nothing, because the image is verified.
#include "format.h"
#include "side.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum status { DONE = 0, INTERNAL = 70, DEADLINE_PASSED = 75, EXPECT_FAILED = 76,
	COMPARE_FAILED = 76 };

struct replay {
	const struct lmplay_image *image;
	struct image_command *commands; // after complete_commands
	uint8_t **windows;        // address of each window's first byte
	uint8_t **memories;       // payload, then each tensor: its data in the payload, or the arena
	uint8_t *registers;       // of TLB windows
	uint8_t *arena;
	unsigned way;
	int disabled;
	uint32_t ignored; // failures of policy Ignore in this run
	int32_t failed_at; // command
};

static void wait_us(uint32_t us) {
	struct timespec t = {us / 1000000, us % 1000000 * 1000L};
	nanosleep(&t, NULL);
}

static inline void fence(void) {
#if defined __x86_64__
	__builtin_ia32_mfence();
#elif defined __aarch64__
	__asm__ volatile("dsb sy" ::: "memory");
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
#define LOOPS(TYPE)                                                                                \
	static void in_##TYPE(uint8_t *device, size_t step, const uint8_t *data, size_t size) {        \
		for (; size; size -= sizeof(TYPE), device += step, data += sizeof(TYPE))                   \
			*(volatile TYPE *)device = *(const TYPE *)data;                                        \
	}                                                                                              \
	static void out_##TYPE(const uint8_t *device, size_t step, uint8_t *data, size_t size) {       \
		for (; size; size -= sizeof(TYPE), device += step, data += sizeof(TYPE))                   \
			*(TYPE *)data = *(const volatile TYPE *)device;                                        \
	}                                                                                              \
	static void fill_##TYPE(uint8_t *device, size_t step, uint64_t value, size_t size) {           \
		for (; size; size -= sizeof(TYPE), device += step)                                         \
			*(volatile TYPE *)device = value;                                                      \
	}                                                                                              \
	static int same_##TYPE(const uint8_t *device, const uint8_t *data, size_t size) {              \
		for (; size; size -= sizeof(TYPE), device += sizeof(TYPE), data += sizeof(TYPE))           \
			if (*(const volatile TYPE *)device != *(const TYPE *)data)                             \
				return 0;                                                                          \
		return 1;                                                                                  \
	}
LOOPS(uint8_t)
LOOPS(uint16_t)
LOOPS(uint32_t)
LOOPS(uint64_t)

#define BY_WIDTH(WIDTH, CALL)                                                                      \
	switch (WIDTH) {                                                                               \
	case 1:                                                                                        \
		CALL(uint8_t);                                                                             \
		break;                                                                                     \
	case 2:                                                                                        \
		CALL(uint16_t);                                                                            \
		break;                                                                                     \
	case 4:                                                                                        \
		CALL(uint32_t);                                                                            \
		break;                                                                                     \
	case 8:                                                                                        \
		CALL(uint64_t);                                                                            \
		break;                                                                                     \
	}

// Copies whole cache lines with stores that bypass the cache. device is a multiple of 64.
#if defined __x86_64__
#include <immintrin.h>
__attribute__((target("avx"))) static void stream_avx(uint8_t *device,
	const uint8_t *data, size_t lines) {
	for (; lines; lines--, device += 64, data += 64) {
		__m256i a = _mm256_loadu_si256((const __m256i *)data);
		__m256i b = _mm256_loadu_si256((const __m256i *)data + 1);
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
		__asm__ volatile("ldp q0, q1, [%1]\n\tldp q2, q3, [%1, #32]\n\t"
						 "stnp q0, q1, [%0]\n\tstnp q2, q3, [%0, #32]"
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

static inline void copy_in(const struct replay *r, const struct image_command *c) {
	uint8_t *device = r->windows[c->window] + c->offset;
	const uint8_t *data = r->memories[c->index] + c->value;
	if (c->mode == BULK && r->way & STREAM) {
		stream(device, data, c->amount);
	} else if (c->mode == BULK) {
		memcpy(device, data, c->amount);
	} else {
		size_t step = c->mode == FIXED ? 0 : c->width;
#define IN(TYPE) in_##TYPE(device, step, data, c->amount)
		BY_WIDTH(c->width, IN)
	}
}

static inline void copy_out(const struct replay *r, const struct image_command *c) {
	const uint8_t *device = r->windows[c->window] + c->offset;
	uint8_t *data = r->memories[c->index] + c->value;
	if (c->mode == BULK) {
		memcpy(data, device, c->amount);
	} else {
		size_t step = c->mode == FIXED ? 0 : c->width;
#define OUT(TYPE) out_##TYPE(device, step, data, c->amount)
		BY_WIDTH(c->width, OUT)
	}
}

static inline void fill(const struct replay *r, const struct image_command *c) {
	uint8_t *device = r->windows[c->window] + c->offset;
	size_t step = c->mode == FIXED ? 0 : c->width;
#define FILL_ALL(TYPE) fill_##TYPE(device, step, c->value, c->amount)
	BY_WIDTH(c->width, FILL_ALL)
}

static inline void modify(const struct replay *r, const struct image_command *c) {
	uint8_t *at = r->windows[c->window] + c->offset;
	store(at, c->width, c->value | (load(at, c->width) & ~c->mask));
}

static inline int holds(const struct image_command *c, uint64_t loaded) {
	if (c->mode == REACHED)
		return ((loaded - c->value) & c->mask) <= c->mask >> 1;
	return ((loaded & c->mask) == c->value) == (c->mode == EQUAL);
}

// A poll loads once more if its deadline passed while it waited.
static enum status wait_for(const struct replay *r, const struct image_command *c) {
	const uint8_t *at = r->windows[c->window] + c->offset;
	int64_t deadline = monotonic_ns() + c->amount * 1000LL;
	if (c->amount == 0)
		return EXPECT_FAILED;
	for (;;) {
		int64_t left = (deadline - monotonic_ns()) / 1000;
		if (c->index && left > 0)
			wait_us(c->index < left ? c->index : left);
		int late = monotonic_ns() >= deadline;
		if (holds(c, load(at, c->width)))
			return DONE;
		if (late)
			return DEADLINE_PASSED;
	}
}

static inline enum status expect(const struct replay *r, const struct image_command *c) {
	return holds(c, load(r->windows[c->window] + c->offset, c->width)) ? DONE : wait_for(r, c);
}

static inline enum status compare(const struct replay *r, const struct image_command *c) {
	const uint8_t *at = r->windows[c->window] + c->offset, *want = r->memories[c->index] + c->value;
	int good = 0;
#define SAME(TYPE) good = same_##TYPE(at, want, c->amount)
	BY_WIDTH(c->width, SAME)
	return good ? DONE : COMPARE_FAILED;
}

// apply_policy returns whether the run continues.
static inline enum status apply_policy(
	struct replay *r, const struct image_command *c, enum status status) {
	if (__builtin_expect(status == DONE, 1) || c->option == FAIL)
		return status;
	r->ignored++;
	return DONE;
}

// point stores what replay_load encoded: one register of 64 bits, or three of 32.
static inline void point(const struct replay *r, const struct image_command *c) {
	volatile uint8_t *at = r->registers + c->offset;
	fence();
	if (c->width == 8) {
		*(volatile uint64_t *)at = c->value;
		(void)*(volatile uint64_t *)at;
	} else {
		*(volatile uint32_t *)at = c->value;
		*(volatile uint32_t *)(at + 4) = c->value >> 32;
		*(volatile uint32_t *)(at + 8) = c->mask;
		(void)*(volatile uint32_t *)(at + 8);
	}
	fence();
}

static enum status execute(struct replay *r, const struct image_sequence *s);

static enum status call(struct replay *r, const struct image_command *c) {
	return execute(r, &sequences_of(r->image)[c->index]);
}

static enum status run_switch(struct replay *r, const struct image_command *c) {
	for (enum status status = DONE;; c++) {
		switch (c->opcode) {
		case WRITE:
			store(r->windows[c->window] + c->offset, c->width, c->value);
			continue;
		case MODIFY:
			modify(r, c);
			continue;
		case COPY_IN:
			copy_in(r, c);
			continue;
		case FILL:
			fill(r, c);
			continue;
		case COPY_OUT:
			copy_out(r, c);
			continue;
		case EXPECT:
			status = apply_policy(r, c, expect(r, c));
			break;
		case COMPARE:
			status = apply_policy(r, c, compare(r, c));
			break;
		case POINT:
			point(r, c);
			continue;
		case FENCE:
			fence();
			continue;
		case DELAY:
			wait_us(c->amount);
			continue;
		case CALL:
			status = call(r, c);
			if (status != DONE)
				return status;
			continue;
		case END:
			return DONE;
		default:
			return INTERNAL;
		}
		if (status != DONE) {
			r->failed_at = c - r->commands;
			return status;
		}
	}
}

static enum status run_threaded(struct replay *r, const struct image_command *c) {
	static const void *const labels[OPCODES] = {[0] = &&unknown,
		[WRITE] = &&write,
		[MODIFY] = &&modify,
		[RELOCATE] = &&unknown,
		[COPY_IN] = &&copy_in,
		[FILL] = &&fill,
		[COPY_OUT] = &&copy_out,
		[EXPECT] = &&expect,
		[COMPARE] = &&compare,
		[POINT] = &&point,
		[FENCE] = &&fence,
		[DELAY] = &&delay,
		[CALL] = &&call,
		[END] = &&end};
	uint8_t *const *windows = r->windows;
	enum status status;
	c--;
#define NEXT() goto *labels[(++c)->opcode]
	NEXT();
write:
	if (c->width == 4) {
		*(volatile uint32_t *)(windows[c->window] + c->offset) = c->value;
		NEXT();
	}
	store(windows[c->window] + c->offset, c->width, c->value);
	NEXT();
modify:
	modify(r, c);
	NEXT();
copy_in:
	copy_in(r, c);
	NEXT();
fill:
	fill(r, c);
	NEXT();
copy_out:
	copy_out(r, c);
	NEXT();
expect:
	status = apply_policy(r, c, expect(r, c));
	if (status == DONE)
		NEXT();
	goto failed;
compare:
	status = apply_policy(r, c, compare(r, c));
	if (status == DONE)
		NEXT();
	goto failed;
point:
	point(r, c);
	NEXT();
fence:
	fence();
	NEXT();
delay:
	wait_us(c->amount);
	NEXT();
call:
	status = call(r, c);
	if (status == DONE)
		NEXT();
	return status;
end:
	return DONE;
unknown:
	status = INTERNAL;
failed:
	r->failed_at = c - r->commands;
	return status;
}

static enum status execute(struct replay *r, const struct image_sequence *s) {
	return r->way & THREADED ? run_threaded(r, r->commands + s->first)
							 : run_switch(r, r->commands + s->first);
}

struct outcome replay_run(struct replay *r, uint32_t sequence, unsigned way) {
	uint32_t safe;
	if (r->disabled)
		return (struct outcome){INTERNAL, -1, 0};
	r->ignored = 0;
	r->way = way;
	enum status status = execute(r, &sequences_of(r->image)[sequence]);
	struct outcome outcome = {status, status == DONE ? 0 : r->failed_at, r->ignored};
	r->disabled = status != DONE;
	if (r->disabled && lmplay_find_sequence(r->image, "safe", 4, &safe) == LMPLAY_OK &&
		safe != sequence)
		execute(r, &sequences_of(r->image)[safe]);
	return outcome;
}

// The contents of a window's registers: bits of the address in units of the
// window, the far corner, the near one, NoC, multicast, ordering, and a static
// virtual channel, which is one bit on a Wormhole. Sources: boards/wormhole.go
// and blackhole.go.
static int encode(const struct lmplay_image *image, struct image_command *c) {
	const struct image_window *w = &windows_of(image)[c->window];
	int wormhole = devices_of(image)[w->device].device == 0x401e;
	int low = wormhole ? (w->size == 1 << 20           ? 16
								 : w->size == 2 << 20  ? 15
								 : w->size == 16 << 20 ? 12
													   : 0)
					   : (w->size == 2 << 20 ? 43 : 0);
	if (low == 0)
		return 0;
	uint64_t t = c->mask, channel = t >> 48 & 0xff;
	unsigned __int128 corners = (t & 0x3f) | (t >> 8 & 0x3f) << 6
		| (t >> 16 & 0x3f) << 12 | (t >> 24 & 0x3f) << 18;
	unsigned __int128 rest = (t >> 32 & 1), words;
	if (wormhole)
		rest |= (t >> 56) << 1 | ((t >> 40 & 3) - 1) << 2 | channel << 5;
	else
		rest |= (t >> 56) << 2 | ((t >> 40 & 3) - 1) << 3 |
			(channel ? 1ull << 6 | (channel - 1) << 8 : 0);
	words = c->value / w->size | corners << low | rest << (low + 24);
	c->value = words, c->mask = words >> 64, c->width = wormhole ? 8 : 4;
	return 1;
}

// complete_commands computes what is the same in every run: it replaces relocations by stores, and
// encodes the register contents of Point commands. It returns 0 if it cannot.
static int complete_commands(struct replay *r, const uint64_t *places) {
	uint32_t count = vector_count(r->image, VECTOR_COMMANDS);
	r->commands = malloc(count * sizeof *r->commands);
	memcpy(r->commands, commands_of(r->image), count * sizeof *r->commands);
	for (struct image_command *c = r->commands; c < r->commands + count; c++) {
		if (c->opcode == RELOCATE) {
			c->opcode = WRITE;
			c->value += BUS_BASE + places[c->index];
		} else if (c->opcode == POINT) {
			uint32_t registers = 0;
			for (uint32_t i = 0; i < c->window; i++)
				registers += windows_of(r->image)[i].kind == TLB ? 16 : 0;
			if (!encode(r->image, c))
				return 0;
			c->offset = registers;
		}
	}
	return 1;
}

struct replay *replay_load(const struct lmplay_image *image, uint8_t *device) {
	struct replay *r = calloc(1, sizeof *r);
	uint32_t windows = vector_count(image, VECTOR_WINDOWS);
	uint32_t tensors = vector_count(image, VECTOR_TENSORS);
	uint64_t *places = calloc(windows, sizeof *places);
	uint8_t *payload = (uint8_t *)image->bytes + align_up(image->envelope_bytes, 4096);
	r->image = image;
	r->windows = calloc(windows, sizeof *r->windows);
	r->memories = calloc(1 + tensors, sizeof *r->memories);
	r->registers = device + lay_out_windows(image, places);
	for (uint32_t i = 0; i < windows; i++)
		r->windows[i] = device + places[i];
	if (image->arena_bytes) {
		r->arena = mmap(NULL, image->arena_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (r->arena == MAP_FAILED || mlock(r->arena, image->arena_bytes) != 0)
			return NULL;
	}
	r->memories[0] = payload;
	for (uint32_t i = 0; i < tensors; i++) { // an input has its default data
		const struct image_tensor *t = &tensors_of(image)[i];
		r->memories[1 + i] =
			t->role == OUTPUT ? r->arena + t->arena_offset : payload + t->data_offset;
	}
	int complete = complete_commands(r, places);
	free(places);
	return complete ? r : NULL;
}

const uint8_t *replay_output(const struct replay *r, uint32_t tensor) {
	return r->memories[1 + tensor];
}

void replay_close(struct replay *r) {
	if (r->arena)
		munmap(r->arena, r->image->arena_bytes);
	free(r->commands);
	free(r->windows);
	free(r->memories);
	free(r);
}
