// The structs of an image that the bench reads in place, as fbs/image.fbs declares them.
#ifndef FORMAT_H
#define FORMAT_H

#include "lmplay.h"

#include <stddef.h>
#include <stdint.h>

enum image_opcode {
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
enum image_role { INPUT = 1, OUTPUT };

struct image_command {
	uint8_t opcode, width, mode, option;
	uint16_t window, index;
	uint32_t offset, amount;
	uint64_t value, mask;
};

struct image_device {
	uint64_t bars[6];
	uint32_t board;
	uint16_t vendor, device;
	uint32_t subsystem, reserved;
};

struct image_window {
	uint8_t kind, device, bar, flags;
	uint16_t slot, reserved;
	uint64_t offset, size;
};

struct image_sequence {
	uint32_t name, first, count;
};

struct image_tensor {
	uint32_t name;
	uint8_t role, has_data, dtype, dims;
	uint64_t size, arena_offset, data_offset;
	uint32_t shape[8];
};

_Static_assert(sizeof(struct image_command) == 32, "command");
_Static_assert(sizeof(struct image_device) == 64, "device");
_Static_assert(sizeof(struct image_window) == 24, "window");
_Static_assert(sizeof(struct image_sequence) == 12, "sequence");
_Static_assert(sizeof(struct image_tensor) == 64, "tensor");


// Numbers of fields in image.fbs.
enum image_vector {
	VECTOR_DEVICES = 1,
	VECTOR_WINDOWS,
	VECTOR_SEQUENCES,
	VECTOR_TENSORS,
	VECTOR_SEGMENTS,
	VECTOR_COMMANDS,
	VECTOR_TEXT
};

static inline const struct image_device *devices_of(const struct lmplay_image *image) {
	return image->vectors[VECTOR_DEVICES].elements;
}

static inline const struct image_window *windows_of(const struct lmplay_image *image) {
	return image->vectors[VECTOR_WINDOWS].elements;
}

static inline const struct image_sequence *sequences_of(const struct lmplay_image *image) {
	return image->vectors[VECTOR_SEQUENCES].elements;
}

static inline const struct image_tensor *tensors_of(const struct lmplay_image *image) {
	return image->vectors[VECTOR_TENSORS].elements;
}

static inline const struct image_command *commands_of(const struct lmplay_image *image) {
	return image->vectors[VECTOR_COMMANDS].elements;
}

static inline uint32_t vector_count(const struct lmplay_image *image, enum image_vector field) {
	return image->vectors[field].count;
}

static inline uint64_t align_up(uint64_t n, uint64_t multiple) {
	return (n + multiple - 1) / multiple * multiple;
}

// device_size returns the size of the memory that replaces the devices: the BARs of each device in
// turn, then the host windows, each at a multiple of 4096, then one range for each Tlb window,
// whatever it points to, and a page with 16 bytes of registers for each Tlb window. It returns 0 if
// the image has a window of configuration space, which memory cannot replace.
uint64_t device_size(const struct lmplay_image *image);

// lay_out_windows sets the place of each window in that memory, and returns the place of the page
// of registers.
uint64_t lay_out_windows(const struct lmplay_image *image, uint64_t *places);

#endif
