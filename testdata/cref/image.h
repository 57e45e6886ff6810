// A reader of the Light Metal binary, format 2, written from fbs/FORMAT.md and
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

enum opcode {
	WRITE = 1,
	MODIFY,
	RELOCATE,
	COPY_IN,
	FILL,
	COPY_OUT,
	EXPECT,
	COMPARE,
	POINT,
	FENCE,
	DELAY,
	CALL,
	END,
	OPCODES
};
enum access { EXACT = 1, FIXED, BULK };
enum condition { EQUAL = 1, NOT_EQUAL, REACHED };
enum policy { FAIL = 1, IGNORE };
enum window_kind { BAR = 1, TLB, HOST, CONFIG };
enum window_flag { WRITE_COMBINING = 1, FIXED_BUS = 2 };
enum role { INPUT = 1, OUTPUT };

struct command {
	uint8_t opcode, width, mode, option;
	uint16_t window, index;
	uint32_t offset, amount;
	uint64_t value, mask;
};

struct device {
	uint64_t bars[6];
	uint32_t board;
	uint16_t vendor, device;
	uint32_t subsystem, reserved;
};

struct rule {
	uint64_t first, last;
	uint8_t device, bar, widths, memory;
	uint32_t name;
};

struct window {
	uint8_t kind, device, bar, flags;
	uint16_t slot, reserved;
	uint64_t offset, size;
};

struct sequence {
	uint32_t name, first, count;
};

struct tensor {
	uint32_t name;
	uint8_t role, has_data, dtype, dims;
	uint64_t size, arena_offset, data_offset;
	uint32_t shape[8];
};

struct segment {
	uint64_t offset, size;
	uint32_t crc32c, reserved;
};

struct reservation {
	uint64_t arena_bytes, host_bytes, payload_bytes;
	uint32_t commands, windows, tensors, sequences, segments, devices;
};

_Static_assert(sizeof(struct command) == 32, "command");
_Static_assert(sizeof(struct device) == 64, "device");
_Static_assert(sizeof(struct rule) == 24, "rule");
_Static_assert(sizeof(struct window) == 24, "window");
_Static_assert(sizeof(struct sequence) == 12, "sequence");
_Static_assert(sizeof(struct tensor) == 64, "tensor");
_Static_assert(sizeof(struct segment) == 24, "segment");
_Static_assert(sizeof(struct reservation) == 48, "reservation");

struct image {
	const uint8_t *data;
	uint64_t size, envelope;
	uint32_t counts[10]; // elements of each vector
	int sized; // the preamble is right, but for its checksum
	struct reservation reservation;
	const struct device *devices;
	const struct rule *rules; // of devices whose PCI ids no board has
	uint32_t rule_count;
	const struct window *windows;
	const struct sequence *sequences;
	const struct tensor *tensors;
	const struct segment *segments;
	const struct command *commands;
	const uint8_t *text;
	uint32_t text_size;
	const uint8_t *payload; // the first byte of segment 0
};

// image_named reports whether a name of the image, a run of its text, is this one.
int image_named(const struct image *image, uint32_t name, const char *text);

// image_read maps a file and finds what its envelope has. image_open looks at
// rules and sequences too. They return NULL, or what is wrong.
const char *image_read(struct image *image, const char *path);

// image_counts compares the vectors with the reservation.
const char *image_counts(const struct image *image);
const char *image_open(struct image *image, const char *path);

// image_sum verifies the checksum of the envelope, image_segments those of the
// segments; at is set to the index of the first wrong one, or to their number.
const char *image_sum(const struct image *image);
const char *image_segments(const struct image *image, uint32_t *at);

// image_check verifies what has a checksum: envelope and segments. It returns
// NULL, or what is wrong.
const char *image_check(const struct image *image);

void image_close(struct image *image);

uint32_t crc32c(uint32_t crc, const void *data, size_t size);

static inline uint64_t round_up(uint64_t n, uint64_t multiple) {
	return (n + multiple - 1) / multiple * multiple;
}

#endif
