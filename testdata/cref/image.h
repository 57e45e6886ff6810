// A reader of the Light Metal binary, format 1, written from fbs/FORMAT.md and
// fbs/image.fbs and from no other source: a second reading of the specification.
//
// Structs are read where they lie in the file, so the machine is little endian.
#ifndef IMAGE_H
#define IMAGE_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the reader takes the file's integers as they lie, and the file is little endian"
#endif

enum opcode { WRITE = 1, COPY_IN, COPY_OUT, POLL, EXPECT, COMPARE, POINT, FENCE, DELAY, CALL, MARK, END };
enum source { IMMEDIATE = 1, PAYLOAD, TENSOR, BUS_ADDRESS };
enum access { EXACT = 1, FIXED, BULK };
enum condition { EQUAL = 1, NOT_EQUAL, ANY_SET, ANY_CLEAR };
enum policy { FAIL = 1, IGNORE, DEFER };
enum compare_mode { COMPARE_EXACT = 1, TOLERANCE, CORRELATION };
enum fence_mode { FENCE_STORE = 1, READ_BACK };
enum mark_kind { MARK_POINT = 1, MARK_BEGIN, MARK_END };
enum window_kind { BAR = 1, TLB, HOST, CONFIG };
enum role { INPUT = 1, OUTPUT };
enum dtype { INT8 = 1, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64 };

struct command {
	uint8_t opcode, width, mode, option;
	uint16_t window, index;
	uint32_t offset, amount;
	uint64_t value, mask;
};

struct window {
	uint8_t kind, device, bar, flags;
	uint16_t slot, name;
	uint64_t offset, size;
};

struct segment {
	uint64_t offset, size;
	uint32_t crc32c, reserved;
};

struct reservation {
	uint64_t arena_bytes, host_bytes, payload_bytes;
	uint32_t commands, windows, tensors, sequences, segments, names;
};

_Static_assert(sizeof(struct command) == 32, "command");
_Static_assert(sizeof(struct window) == 24, "window");
_Static_assert(sizeof(struct segment) == 24, "segment");
_Static_assert(sizeof(struct reservation) == 48, "reservation");

struct sequence {
	const char *name; // zero-terminated, as every string in the file
	uint32_t first, count;
};

struct tensor {
	const char *name;
	uint8_t role, dtype, recorded;
	uint64_t size, arena_offset, recorded_offset;
};

#define TARGETS_MAX 8

struct target {
	uint64_t bars[6];
};

struct image {
	const uint8_t *data;
	uint64_t size, envelope;
	struct reservation reservation;
	struct target targets[TARGETS_MAX];
	uint32_t targets_count;
	const struct window *windows;
	const struct segment *segments;
	const struct command *commands;
	struct sequence *sequences;
	struct tensor *tensors;
	const uint8_t *payload; // the first byte of segment 0
};

// image_open maps a file and reads its envelope. It gives NULL, or what is wrong.
const char *image_open(struct image *image, const char *path);

// image_check verifies what has a checksum: envelope, segments, and every
// sequence's End. It gives NULL, or what is wrong.
const char *image_check(const struct image *image);

void image_close(struct image *image);

uint32_t crc32c(uint32_t crc, const void *data, size_t size);

static inline uint64_t round_up(uint64_t n, uint64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

#endif
