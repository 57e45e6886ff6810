/*
 * A freestanding player of Light Metal images. lmplay.h documents its functions. fbs/FORMAT.md
 * specifies images and runs; "section 6.1" in a comment is a section of FORMAT.md.
 *
 * This file has these parts, in this order: configuration, structs of an image, finding the parts
 * of an image (lmplay_open), verification (lmplay_verify), loading (lmplay_load), and runs
 * (lmplay_step).
 *
 * Many functions whose names begin with check_ return a string: a description of the first problem,
 * or NULL if they find no problem.
 */
#include "lmplay.h"

#include <stdbool.h>

/* ---- Configuration: defaults of the macros that lmplay.h lists ---- */

#if defined __BYTE_ORDER__ && defined __ORDER_LITTLE_ENDIAN__
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the player supports only little-endian processors, because images are little endian"
#endif
#endif

#ifndef LMPLAY_VERIFY
#define LMPLAY_VERIFY 1
#endif

#ifndef LMPLAY_TEXT
#define LMPLAY_TEXT 1
#endif

#ifndef LMPLAY_SLICE
#define LMPLAY_SLICE 1024u /* bytes */
#endif

#ifndef LMPLAY_ACCESS_64
#if UINTPTR_MAX > 0xffffffffu
#define LMPLAY_ACCESS_64 1
#else
#define LMPLAY_ACCESS_64 0
#endif
#endif

#ifndef LMPLAY_LOAD8
#define LMPLAY_LOAD8(address) (*(const volatile uint8_t *)(address))
#endif
#ifndef LMPLAY_LOAD16
#define LMPLAY_LOAD16(address) (*(const volatile uint16_t *)(address))
#endif
#ifndef LMPLAY_LOAD32
#define LMPLAY_LOAD32(address) (*(const volatile uint32_t *)(address))
#endif
#ifndef LMPLAY_LOAD64
#define LMPLAY_LOAD64(address) (*(const volatile uint64_t *)(address))
#endif

#ifndef LMPLAY_STORE8
#define LMPLAY_STORE8(address, value) (*(volatile uint8_t *)(address) = (value))
#endif
#ifndef LMPLAY_STORE16
#define LMPLAY_STORE16(address, value) (*(volatile uint16_t *)(address) = (value))
#endif
#ifndef LMPLAY_STORE32
#define LMPLAY_STORE32(address, value) (*(volatile uint32_t *)(address) = (value))
#endif
#ifndef LMPLAY_STORE64
#define LMPLAY_STORE64(address, value) (*(volatile uint64_t *)(address) = (value))
#endif

#ifndef LMPLAY_BARRIER
#if defined __aarch64__ || (defined __arm__ && (__ARM_ARCH >= 7)) || defined __ARM_ARCH_6M__
#define LMPLAY_BARRIER() __asm__ volatile("dsb sy" ::: "memory")
#elif defined __arm__ && !defined __thumb__ /* armv6: dsb is an operation of coprocessor 15 */
#define LMPLAY_BARRIER() __asm__ volatile("mcr p15, 0, %0, c7, c10, 4" ::"r"(0) : "memory")
#elif defined __riscv
#define LMPLAY_BARRIER() __asm__ volatile("fence iorw, iorw" ::: "memory")
#elif defined __SSE2__ /* every x86-64 has SSE2 */
#define LMPLAY_BARRIER() __asm__ volatile("mfence" ::: "memory")
#elif defined __i386__
#define LMPLAY_BARRIER() __asm__ volatile("lock; addl $0, (%%esp)" ::: "memory", "cc")
#else
#error "define LMPLAY_BARRIER: this processor's full barrier is not known"
#endif
#endif

/* Use builtins of the compiler if possible: then this file needs no header of a C library, and the
   compiler copies small structs inline. */
#if defined __GNUC__
#define copy_bytes(to, from, size) ((void)__builtin_memcpy((to), (from), (size)))
#define clear_bytes(to, size) ((void)__builtin_memset((to), 0, (size)))
#define bytes_differ(a, b, size) (__builtin_memcmp((a), (b), (size)) != 0)
/* Attribute of structs through which the player reads the bytes of the image in place: the compiler
   must assume that such a struct overlaps objects of other types. */
#define MAY_ALIAS __attribute__((may_alias))
#else
/* Not <string.h>: a compiler without a C library lacks it. */
void *memcpy(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *a, const void *b, size_t size);
#define copy_bytes(to, from, size) ((void)memcpy((to), (from), (size)))
#define clear_bytes(to, size) ((void)memset((to), 0, (size)))
#define bytes_differ(a, b, size) (memcmp((a), (b), (size)) != 0)
#define MAY_ALIAS
#endif

#if LMPLAY_TEXT
#define TEXT(text) (text)
#else
#define TEXT(text) ("")
#endif

/* ---- The structs of an image, as image.fbs declares them ---- */

/* Numbers of the vectors in the root table of the envelope (image.fbs). Field 0 of this table is no
   vector: it is struct reservation. */
#define FIELD_DEVICES 1u
#define FIELD_WINDOWS 2u
#define FIELD_SEQUENCES 3u
#define FIELD_TENSORS 4u
#define FIELD_SEGMENTS 5u
#define FIELD_COMMANDS 6u
#define FIELD_CHARACTERS 7u
#define FIELD_RULES 9u
#define FIELD_RINGS 10u

/* enum Opcode of image.fbs. */
#define OP_WRITE 1u
#define OP_MODIFY 2u
#define OP_RELOCATE 3u
#define OP_COPY_IN 4u
#define OP_FILL 5u
#define OP_COPY_OUT 6u
#define OP_EXPECT 7u
#define OP_COMPARE 8u
#define OP_POINT 9u
#define OP_FENCE 10u
#define OP_DELAY 11u
#define OP_CALL 12u
#define OP_END 13u
#define OP_ADVANCE 14u
#define OP_RESET 15u
#define OP_WITH 16u
#define OPCODE_COUNT 17u

/* Values of the field mode of CopyIn, Fill and CopyOut. */
#define MODE_EXACT 1u /* consecutive addresses; each access has the width of the command */
#define MODE_FIXED 2u /* all accesses at one address */
#define MODE_BULK 3u  /* consecutive addresses, with accesses of any width */

/* Values of the field mode of Expect: the condition. */
#define CONDITION_EQUAL 1u
#define CONDITION_REACHED 3u

/* Value of the field option of Expect and Compare: ignore a failure. */
#define POLICY_IGNORE 2u

/* Value of the field mode of With: it changes the offset of the next command, not its value. */
#define PLACE_OFFSET 2u

/* enum WindowKind of image.fbs. */
#define KIND_BAR 1u
#define KIND_TLB 2u
#define KIND_HOST 3u
#define KIND_CONFIG 4u

#define INTERRUPTS_MSIX 2u /* kind of the interrupts of a device; 1: MSI */

#define FLAG_WRITE_COMBINING 1u
#define FLAG_FIXED_BUS 2u /* a Host window must have the bus address in its field offset */
/* The field slot of a window has the number of the preferred TLB window, or NO_SLOT if any TLB
   window may be used. */
#define NO_SLOT 0xffffu

/* Longest time of each opcode in us, without the accesses of a copy, fill or compare, and without
   deadlines and delays (section 6.3). */
static const uint8_t opcode_us[OPCODE_COUNT] = {
	0, 2, 13, 2, /* Write, Modify, Relocate */
	1, 1, 11,    /* CopyIn, Fill, CopyOut */
	12, 1, 5,    /* Expect, Compare, Point */
	1, 1, 1, 1,  /* Fence, Delay, Call, End */
	1, 1, 1      /* Advance, Reset, With */
};

#define QUERY_MAX_US 10u /* longest time of one call of the hook `query`, in us */

struct MAY_ALIAS preamble {
	uint32_t root;
	uint8_t identifier[4];
	uint16_t major;
	uint16_t minor;
	uint32_t checksum;
	uint64_t schema;
	uint64_t file_bytes;
	uint64_t envelope_bytes;
	uint8_t reserved[32];
};

struct MAY_ALIAS command {
	uint8_t opcode;
	uint8_t width;
	uint8_t mode;
	uint8_t option;
	uint16_t window;
	uint16_t index;
	uint32_t offset;
	uint32_t amount;
	uint64_t value;
	uint64_t mask;
};

struct MAY_ALIAS device {
	uint64_t bars[LMPLAY_BARS];
	uint32_t board;
	uint16_t vendor;
	uint16_t device;
	uint32_t subsystem;
	uint16_t vectors;
	uint8_t interrupts;
	uint8_t reserved;
};

struct MAY_ALIAS rule {
	uint64_t first;
	uint64_t last;
	uint8_t device;
	uint8_t bar;
	uint8_t widths;
	uint8_t memory;
	uint32_t name;
};

struct MAY_ALIAS window {
	uint8_t kind;
	uint8_t device;
	uint8_t bar;
	uint8_t flags;
	uint16_t slot;
	uint16_t reserved;
	uint64_t offset;
	uint64_t size;
};

struct MAY_ALIAS sequence {
	uint32_t name;
	uint32_t first;
	uint32_t count;
};

struct MAY_ALIAS tensor {
	uint32_t name;
	uint8_t role;
	uint8_t has_data;
	uint8_t dtype;
	uint8_t dims;
	uint64_t size;
	uint64_t arena_offset;
	uint64_t data_offset;
	uint32_t shape[LMPLAY_DIMS_MAX];
};

struct MAY_ALIAS segment {
	uint64_t offset;
	uint64_t size;
	uint32_t checksum;
	uint32_t reserved;
};

struct MAY_ALIAS ring {
	uint64_t begin;
	uint64_t end;
	uint64_t first;
	uint32_t name;
	uint32_t reserved;
};

#define COUNTS_PER_RESERVATION 6u

struct MAY_ALIAS reservation {
	uint64_t arena_bytes;
	uint64_t host_bytes;
	uint64_t payload_bytes;
	/* Number of elements in the vectors of commands, windows, tensors, sequences, segments and
	   devices, in this order. */
	uint32_t counts[COUNTS_PER_RESERVATION];
};

/* ASSERT_SIZE checks the size of a struct at compile time: an array type of negative size does not
   compile. C99 has no static assertion. */
#define ASSERT_SIZE(type, bytes) \
	typedef char type##_has_size[(sizeof(struct type) == (bytes)) ? 1 : -1]
ASSERT_SIZE(preamble, 72u);
ASSERT_SIZE(command, 32u);
ASSERT_SIZE(device, 64u);
ASSERT_SIZE(rule, 24u);
ASSERT_SIZE(window, 24u);
ASSERT_SIZE(sequence, 12u);
ASSERT_SIZE(tensor, 64u);
ASSERT_SIZE(segment, 24u);
ASSERT_SIZE(ring, 32u);
ASSERT_SIZE(reservation, 48u);

/* Sizes and limits of the format (sections 1 and 2). */
#define PAGE_BYTES 4096u
#define SIGNATURE_BYTES 128u
#define TENSOR_ALIGN 64u
#define DATA_SIZE_MAX ((uint64_t)1 << 46)
#define WINDOW_SIZE_MAX ((uint64_t)1 << 32)
#define DELAY_MAX_US 10000000u
#define SCRATCH_MAX 4096u /* bytes of the arena for all scratch tensors */
#define WORST_CASE_MAX_US ((uint64_t)1 << 62)

/* ---- Boards ---- */

/* A range of a BAR and the accesses that it accepts. */
struct board_rule {
	uint64_t first;
	uint64_t last;
	uint8_t bar;
	uint8_t widths;    /* accepted widths in bytes, ORed: 1, 2, 4, 8 */
	uint8_t memory;    /* 1: the range is memory without side effects */
	uint8_t load_only; /* 1: images must not store to the range */
};

/* Addresses in tiles (nodes of the chip) that no window of an image may make accessible. */
struct board_forbidden {
	uint64_t columns; /* columns of the tiles: bit n is 1 if column n belongs to the set */
	uint64_t rows;    /* rows of the tiles: bit n is 1 if row n belongs to the set */
	uint64_t first;   /* first forbidden address in each of these tiles */
	uint64_t last;    /* last forbidden address in each of these tiles */
	uint8_t routes;   /* routes on which the addresses are forbidden, over NoC 0 or NoC 1 (the
	                     networks on the chip). Bits 0 and 1: unicast; bits 2 and 3: multicast */
};

/* TLB windows with consecutive numbers and the same size. */
struct board_group {
	uint64_t offset;       /* offset of the first TLB window in the BAR */
	uint64_t size;         /* size of each TLB window, a power of two */
	uint16_t first;        /* number of the first TLB window */
	uint16_t count;        /* number of TLB windows */
	uint16_t kernel_owned; /* so many of the last TLB windows belong to a kernel driver */
	uint8_t bar;           /* number of the BAR with the TLB windows */
	uint8_t address_bits;  /* number of bits of the register field that contains address / size */
};

/* Number of fields in the registers of a TLB window, not counting the address. The address field
   has the lowest bits; these fields follow. */
#define TLB_FIELD_COUNT 11u

/* The TLB windows of a board, and the registers that program them. */
struct board_tlb {
	const struct board_group *groups; /* sorted by number, which also sorts them by size */
	uint64_t config_offset;           /* offset in the BAR of the registers of TLB window 0 */
	uint32_t config_stride;           /* distance between the registers of two TLB windows */
	uint8_t group_count;              /* number of elements in `groups` */
	uint8_t config_bar;               /* number of the BAR with the registers */
	uint8_t config_width;             /* 8: one register of 8 bytes; 4: three of 4 bytes */
	uint8_t fields[TLB_FIELD_COUNT];  /* number of bits of each field, lowest field first */
};

/* The outbound address translation of a board: it has regions, through which tiles access host
   memory. */
struct board_outbound {
	uint64_t offset;  /* offset in the BAR of the registers of region 0 */
	uint64_t noc;     /* address in the PCIe tile that corresponds to offset 0 of the translation */
	uint64_t last;    /* largest offset that a region can translate */
	uint32_t stride;  /* distance between the registers of two regions */
	uint32_t type;    /* value of the register region_ctrl_1 of an enabled region */
	uint32_t control; /* value of the register region_ctrl_2 of an enabled region */
	uint8_t bar;      /* number of the BAR with the registers */
	uint8_t regions;  /* number of regions */
	uint8_t upper_limit; /* offset of the register for the upper half of the limit; 0: none */
};

struct board {
	const struct board_rule *rules;
	const struct board_forbidden *forbidden;
	const struct board_tlb *tlb;           /* NULL: no tiles */
	const struct board_outbound *outbound; /* NULL: no outbound translation */
	uint16_t vendor;
	uint16_t device;
	uint8_t rule_count;
	uint8_t forbidden_count;
};

/* VERIFY_TABLE(table) is NULL if verification is left out, because only verification reads the
   tables of rules and of forbidden addresses. */
#if LMPLAY_VERIFY
#define VERIFY_TABLE(table) (table)
#else
#define VERIFY_TABLE(table) (NULL)
#endif

/* Generated: defines board_table, its length BOARD_COUNT, HAS_TILES and SCHEMA_HASH. */
#include "lmplay_boards.h"

/* Returns the board with the given PCI ids, or NULL. If verification and all boards with tiles are
   left out, the result is always NULL, because nothing else uses boards. Compilers then leave out
   board_table. */
static const struct board *find_board(uint16_t vendor, uint16_t device) {
	const struct board *found = NULL;
	uint32_t boards = ((LMPLAY_VERIFY != 0) || (HAS_TILES != 0)) ? BOARD_COUNT : 0u;
	for (uint32_t i = 0; i < boards; i++) {
		if ((board_table[i].vendor == vendor) && (board_table[i].device == device)) {
			found = &board_table[i];
			break;
		}
	}
	return found;
}

/* Return the TLB windows and the outbound translation of a board, or NULL. If no board with tiles
   is compiled in, the result is always NULL, and compilers leave out the code that uses it. */
static const struct board_tlb *tlb_of(const struct board *board) {
	return ((HAS_TILES != 0) && (board != NULL)) ? board->tlb : NULL;
}

static const struct board_outbound *outbound_of(const struct board *board) {
	return ((HAS_TILES != 0) && (board != NULL)) ? board->outbound : NULL;
}

/* ---- Small helpers ---- */

static uint64_t min_u64(uint64_t a, uint64_t b) {
	return (a < b) ? a : b;
}

/* Reports whether `size` bytes at `offset` lie inside an area of `all` bytes. */
static bool lies_inside(uint64_t offset, uint64_t size, uint64_t all) {
	return (offset <= all) && (size <= (all - offset));
}

/* Returns n, rounded up to a multiple of a power of two. */
static uint64_t round_up(uint64_t n, uint32_t multiple) {
	return (n + multiple - 1u) & ~((uint64_t)multiple - 1u);
}

/* Returns the largest number that fits in `width` bytes, 1 to 8. */
static uint64_t width_mask(uint32_t width) {
	uint32_t unused_bits = 64u - (8u * width);
	return UINT64_MAX >> unused_bits;
}

/* Returns one byte of a packed tile range. The fields 0 to 7 are x, y, x_start, y_start, noc,
   ordering, static_vc and multicast (section 6.1). */
static uint32_t tile_byte(uint64_t tiles, uint32_t field) {
	uint32_t shift = 8u * field;
	return (uint32_t)((tiles >> shift) & 255u);
}

static bool test_bit(const uint8_t *bits, uint32_t index) {
	return ((bits[index / 8u] >> (index % 8u)) & 1u) != 0u;
}

static void set_bit(uint8_t *bits, uint32_t index) {
	bits[index / 8u] = (uint8_t)(bits[index / 8u] | (1u << (index % 8u)));
}

static uint32_t element_count(const struct lmplay_image *image, uint32_t field) {
	return image->vectors[field].count;
}

/* The functions ..._at return an element of a vector of the image. The vector is aligned, because
   lmplay_open has checked its offset, and because the address of the image is a multiple of 8. */
static const struct command *command_at(const struct lmplay_image *image, uint32_t index) {
	return &((const struct command *)image->vectors[FIELD_COMMANDS].elements)[index];
}

static const struct device *device_at(const struct lmplay_image *image, uint32_t index) {
	return &((const struct device *)image->vectors[FIELD_DEVICES].elements)[index];
}

static const struct window *window_at(const struct lmplay_image *image, uint32_t index) {
	return &((const struct window *)image->vectors[FIELD_WINDOWS].elements)[index];
}

static const struct sequence *sequence_at(const struct lmplay_image *image, uint32_t index) {
	return &((const struct sequence *)image->vectors[FIELD_SEQUENCES].elements)[index];
}

static const struct tensor *tensor_at(const struct lmplay_image *image, uint32_t index) {
	return &((const struct tensor *)image->vectors[FIELD_TENSORS].elements)[index];
}

static const struct ring *ring_at(const struct lmplay_image *image, uint32_t index) {
	return &((const struct ring *)image->vectors[FIELD_RINGS].elements)[index];
}

static const uint8_t *characters_at(const struct lmplay_image *image, uint32_t index) {
	return &((const uint8_t *)image->vectors[FIELD_CHARACTERS].elements)[index];
}

static const struct board *board_of(const struct lmplay_image *image, uint32_t device) {
	const struct device *d = device_at(image, device);
	return find_board(d->vendor, d->device);
}

static bool is_transfer(const struct command *c) {
	return ((c->opcode >= OP_COPY_IN) && (c->opcode <= OP_COPY_OUT)) || (c->opcode == OP_COMPARE);
}

/* Returns the longest time of a command in us, like opcode_us. */
static uint32_t command_us(const struct lmplay_image *image, const struct command *c) {
	uint32_t us = opcode_us[c->opcode];
	if (c->option == POLICY_IGNORE) {
		us += QUERY_MAX_US * element_count(image, FIELD_DEVICES);
	}
	return us;
}

static const uint8_t *payload_of(const struct lmplay_image *image) {
	return &image->bytes[round_up(image->envelope_bytes, PAGE_BYTES)];
}

/* Fills in *error, unless it is NULL, and returns the code. */
static enum lmplay_code set_error(struct lmplay_error *error, enum lmplay_code code,
	const char *place, uint32_t index, const char *reason) {
	if (error != NULL) {
		error->code = code;
		error->place = (LMPLAY_TEXT != 0) ? place : "";
		error->index = index;
		error->reason = (LMPLAY_TEXT != 0) ? reason : "";
	}
	return code;
}

/* Values of lmplay_image.state. The numbers are unusual, so that a struct without a successful
   lmplay_open is unlikely to have one of them. */
#define IMAGE_OPEN 0x4c4d4231u     /* lmplay_open has succeeded */
#define IMAGE_VERIFIED 0x4c4d4232u /* lmplay_verify has succeeded, or is left out */

static bool is_verified(const struct lmplay_image *image) {
	return (image != NULL) && (image->state == IMAGE_VERIFIED);
}

static bool is_open(const struct lmplay_image *image) {
	return is_verified(image) || ((image != NULL) && (image->state == IMAGE_OPEN));
}

/* ---- CRC-32C ---- */

#if LMPLAY_VERIFY
#ifndef LMPLAY_CRC32C
/* Continues a CRC-32C (Castagnoli's polynomial, reflected): `sum` is the CRC-32C of earlier bytes,
   and the result is the CRC-32C of these bytes followed by `size` bytes at `bytes`. Each lookup
   handles four bits, so that the table has only 64 bytes. */
static uint32_t crc32c(uint32_t sum, const uint8_t *bytes, uint64_t size) {
	static const uint32_t table[16] = {0x00000000u, 0x105ec76fu, 0x20bd8edeu, 0x30e349b1u,
		0x417b1dbcu, 0x5125dad3u, 0x61c69362u, 0x7198540du, 0x82f63b78u, 0x92a8fc17u, 0xa24bb5a6u,
		0xb21572c9u, 0xc38d26c4u, 0xd3d3e1abu, 0xe330a81au, 0xf36e6f75u};
	uint32_t crc = ~sum;
	for (uint64_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		crc = (crc >> 4) ^ table[crc & 15u];
		crc = (crc >> 4) ^ table[crc & 15u];
	}
	return ~crc;
}
#define LMPLAY_CRC32C(sum, bytes, size) crc32c((sum), (bytes), (size))
#endif

static bool is_zero(const uint8_t *bytes, uint64_t size) {
	uint64_t i = 0;
	while ((i < size) && (bytes[i] == 0u)) {
		i++;
	}
	return i == size;
}
#endif

/* ---- Finding the parts of an image ---- */

/* The root table of the envelope (section 1.2) while lmplay_open reads it. The first check that
   fails sets `problem`; afterwards `place` does not change. If LMPLAY_VERIFY is 0, reads check
   nothing. */
struct table {
	const uint8_t *bytes; /* first byte of the envelope */
	uint64_t end;         /* size of the envelope */
	uint64_t position;    /* offset of the table in the envelope */
	uint64_t size;        /* size of the table, without its vectors */
	uint64_t vtable;      /* offset of the vtable in the envelope */
	uint32_t fields;      /* number of fields in the vtable */
	const char *place;    /* part of the image that is being read, or that has the problem */
	const char *problem;  /* description of the first problem; NULL: none */
};

static void set_table_problem(struct table *t, const char *problem) {
	if (t->problem == NULL) {
		t->problem = problem;
	}
}

static void set_table_place(struct table *t, const char *place) {
	if ((LMPLAY_VERIFY != 0) && (LMPLAY_TEXT != 0) && (t->problem == NULL)) {
		t->place = place;
	}
}

/* Checks that `size` bytes at a position lie in the envelope, after the preamble, and that the
   position is a multiple of `align`. Returns false, and sets t->problem, if this is not so or if an
   earlier check has failed. */
static bool check_inside(struct table *t, uint64_t position, uint64_t size, uint32_t align) {
	if (LMPLAY_VERIFY == 0) {
		return true;
	}
	if ((position < sizeof(struct preamble)) || (position > t->end) ||
		(size > (t->end - position))) {
		set_table_problem(t, TEXT("it reaches outside the FlatBuffer"));
	} else if ((position % align) != 0u) {
		set_table_problem(t, TEXT("its offset is not aligned"));
	} else {
		/* The object is inside. */
	}
	return t->problem == NULL;
}

static uint32_t read_u16(const struct table *t, uint64_t position) {
	uint16_t value;
	copy_bytes(&value, &t->bytes[position], sizeof value);
	return value;
}

static uint32_t read_u32(const struct table *t, uint64_t position) {
	uint32_t value;
	copy_bytes(&value, &t->bytes[position], sizeof value);
	return value;
}

static void find_root_table(struct table *t, const struct lmplay_image *image) {
	uint32_t vtable_size;
	set_table_place(t, "image");
	t->bytes = image->bytes;
	t->end = image->envelope_bytes;
	t->position = read_u32(t, 0);
	if (!check_inside(t, t->position, 4, 4)) {
		return;
	}
	/* The table begins with the distance back to the vtable. The distance is signed. If it is
	   negative, the unsigned subtraction wraps around to the right position. */
	t->vtable = t->position - (uint64_t)(int64_t)(int32_t)read_u32(t, t->position);
	if (!check_inside(t, t->vtable, 4, 2)) {
		return;
	}
	vtable_size = read_u16(t, t->vtable);
	t->size = read_u16(t, t->vtable + 2u);
	if ((LMPLAY_VERIFY != 0) &&
		((vtable_size < 4u) || ((vtable_size % 2u) != 0u) || (t->size < 4u) ||
			(vtable_size > (4u + (2u * (uint32_t)LMPLAY_FIELDS))))) {
		set_table_problem(t, TEXT("the vtable or the root table has an invalid size"));
	}
	if (check_inside(t, t->vtable, vtable_size, 2) &&
		check_inside(t, t->position, t->size, 4)) {
		t->fields = (vtable_size - 4u) / 2u;
	}
}

/* Returns the offset in the image file of a field of the table `t`. The field has `size` bytes.
   Returns 0 if the table does not have the field, or if a problem has been found in the table. */
static uint64_t field_position(struct table *t, uint32_t id, uint32_t size) {
	uint64_t position = 0;
	if ((t->problem == NULL) && (id < t->fields)) {
		uint64_t offset = read_u16(t, t->vtable + 4u + (2u * (uint64_t)id));
		if (offset != 0u) {
			if ((LMPLAY_VERIFY != 0) &&
				((offset < 4u) || (offset > t->size) || (size > (t->size - offset)))) {
				set_table_problem(t, TEXT("a field lies outside the table"));
			} else {
				position = t->position + offset;
			}
		}
	}
	return position;
}

/* The requirements of the format for one vector of the root table. */
struct vector_limits {
	uint32_t max;        /* largest number of elements */
	uint8_t size;        /* size of an element in bytes */
	uint8_t align;       /* alignment of the first element in bytes */
	uint8_t is_required; /* 1: the vector must have at least one element */
};

/* Names of the elements in errors, in the order of the fields. */
static const char *const vector_elements[LMPLAY_FIELDS] = {
	"reservation", "device", "window", "sequence", "tensor", "segment",
	"command", "text", "notes", "rule", "ring"};

static const struct vector_limits vector_limits[LMPLAY_FIELDS] = {
	{0, 0, 0, 0}, /* not a vector */
	{LMPLAY_DEVICES_MAX, sizeof(struct device), 8, 1},
	{4096, sizeof(struct window), 8, 1},
	{4096, sizeof(struct sequence), 4, 1},
	{4096, sizeof(struct tensor), 8, 0},
	{4096, sizeof(struct segment), 8, 0},
	{(uint32_t)1 << 24, sizeof(struct command), 8, 1},
	{(uint32_t)16 << 20, 1, 1, 0},
	{(uint32_t)256 << 20, 1, 8, 0},
	{256, sizeof(struct rule), 8, 0},
	{LMPLAY_RINGS_MAX, sizeof(struct ring), 8, 0},
};

/* Sets *vector to the vector of a field. If the field is absent, *vector does not change. */
static void read_vector(struct table *t, uint32_t field, struct lmplay_vector *vector) {
	const struct vector_limits *form = &vector_limits[field];
	uint64_t position;
	uint32_t count = 0;
	set_table_place(t, vector_elements[field]);
	position = field_position(t, field, 4);
	if ((position != 0u) && check_inside(t, position, 4, 4)) {
		position += read_u32(t, position);
		if (check_inside(t, position, 4, 4)) {
			count = read_u32(t, position);
			position += 4u;
		}
	}
	if ((LMPLAY_VERIFY != 0) && (count > form->max)) {
		set_table_problem(t, TEXT("has more elements than the limit"));
	}
	if ((count != 0u) &&
		check_inside(t, position, (uint64_t)count * form->size, form->align)) {
		vector->count = count;
		vector->elements = &t->bytes[position];
	}
}

/* Returns struct reservation, which contains the sizes and counts of the image, or NULL if the
   field is absent. */
static const struct reservation *read_reservation(struct table *t) {
	const struct reservation *r = NULL;
	uint64_t position = field_position(t, 0, sizeof *r);
	if ((position != 0u) && check_inside(t, position, sizeof *r, 8)) {
		r = (const struct reservation *)(const void *)&t->bytes[position];
	}
	return r;
}

/* Checks that each count in the reservation is the length of the vector (section 1.2, step 3). */
static void check_counts(const struct lmplay_image *image, struct table *t,
	const struct reservation *r) {
	static const uint8_t fields[COUNTS_PER_RESERVATION] = {
		FIELD_COMMANDS, FIELD_WINDOWS, FIELD_TENSORS,
		FIELD_SEQUENCES, FIELD_SEGMENTS, FIELD_DEVICES};
	set_table_place(t, "reservation");
	for (uint32_t i = 0; i < COUNTS_PER_RESERVATION; i++) {
		uint32_t count = element_count(image, fields[i]);
		if ((count == 0u) && (vector_limits[fields[i]].is_required != 0u)) {
			set_table_problem(t,
				TEXT("the image has no device, no window, no sequence or no command"));
		}
		if (count != ((r != NULL) ? r->counts[i] : 0u)) {
			set_table_problem(t, TEXT("a count differs from the length of its vector"));
		}
	}
}

#if LMPLAY_VERIFY
/* Checks that a signature is undamaged (section 8). The address may be misaligned. */
static const char *check_signature(const uint8_t *signature) {
	const char *problem = NULL;
	uint32_t sum;
	copy_bytes(&sum, &signature[8], sizeof sum);
	if (bytes_differ(signature, "LMBSIGN1", 8)) {
		problem = TEXT("the bytes after the image do not begin with LMBSIGN1");
	} else if (LMPLAY_CRC32C(0, &signature[12], SIGNATURE_BYTES - 12u) != sum) {
		problem = TEXT("wrong checksum: the signature is damaged");
	} else if (!is_zero(&signature[16], 16)) { /* bytes 12 to 15, the version, have any value */
		problem = TEXT("reserved bytes are not zero");
	} else {
		/* The signature is undamaged. */
	}
	return problem;
}
#endif

/* Returns the size of the image without its signature, and sets *problem if the signature is
   damaged (section 8). */
static uint64_t image_size(const uint8_t *bytes, uint64_t size, const char **problem) {
	uint64_t image = size;
	*problem = NULL;
	if (size >= (sizeof(struct preamble) + SIGNATURE_BYTES)) {
		const struct preamble *p = (const struct preamble *)(const void *)bytes;
		if (p->file_bytes == (size - SIGNATURE_BYTES)) {
			image = p->file_bytes;
#if LMPLAY_VERIFY
			*problem = check_signature(&bytes[image]);
#endif
		}
	}
	return image;
}

#if LMPLAY_VERIFY
/* Returns the CRC-32C of an envelope, computed as if the checksum in bytes 12 to 15 were zero. */
static uint32_t envelope_checksum(const uint8_t *bytes, uint64_t size) {
	static const uint8_t zero[4] = {0, 0, 0, 0};
	uint32_t sum = LMPLAY_CRC32C(0, bytes, 12);
	sum = LMPLAY_CRC32C(sum, zero, 4);
	return LMPLAY_CRC32C(sum, &bytes[16], size - 16u);
}
#endif

/* Checks the preamble and, unless verification is left out, the checksum of the envelope. */
static const char *check_preamble(const uint8_t *bytes, uint64_t size) {
	const char *problem = NULL;
	const struct preamble *p = (const struct preamble *)(const void *)bytes;
	if (size < sizeof *p) {
		problem = TEXT("the file is too short for an image");
	} else if (bytes_differ(p->identifier, "LMB1", 4)) {
		problem = TEXT("not a Light Metal image: no identifier LMB1 at byte 4");
	} else if ((p->major != 3u) || (p->minor != 0u)) {
		problem = TEXT("this player reads format 3.0 only");
	} else if (p->schema != SCHEMA_HASH) {
		problem = TEXT("another version of lm made the image; use lm of this player's version");
	} else if (p->file_bytes != size) {
		problem = TEXT("the file size differs from that in the preamble");
	} else if ((p->envelope_bytes < sizeof *p) || (p->envelope_bytes > size)) {
		problem = TEXT("the envelope is smaller than the preamble, or larger than the file");
#if LMPLAY_VERIFY
	} else if (!is_zero(p->reserved, sizeof p->reserved)) {
		problem = TEXT("reserved bytes are not zero");
	} else if (envelope_checksum(bytes, p->envelope_bytes) != p->checksum) {
		problem = TEXT("wrong checksum of the envelope: the file is damaged");
#endif
	} else {
		/* The preamble is valid. */
	}
	return problem;
}

/* Reads the root table of an image whose preamble is valid: sets image->vectors, and the sizes of
   arena, host memory and payload. A problem is returned in *t. */
static void read_envelope(struct lmplay_image *image, struct table *t) {
	const struct reservation *r;
	find_root_table(t, image);
	r = read_reservation(t);
	for (uint32_t field = 1; field < (uint32_t)LMPLAY_FIELDS; field++) {
		read_vector(t, field, &image->vectors[field]);
	}
	if (LMPLAY_VERIFY != 0) {
		check_counts(image, t, r);
	}
	if ((t->problem == NULL) && (r != NULL)) {
		image->arena_bytes = r->arena_bytes;
		image->host_bytes = r->host_bytes;
		image->payload_bytes = r->payload_bytes;
	}
}

enum lmplay_code lmplay_open(struct lmplay_image *image, const void *bytes, size_t size,
	struct lmplay_error *error) {
	struct table t;
	if ((image == NULL) || (bytes == NULL) || (((uintptr_t)bytes % 8u) != 0u)) {
		return set_error(error, LMPLAY_USAGE, "image", LMPLAY_NONE,
			TEXT("an address is NULL or not a multiple of 8"));
	}
	clear_bytes(image, sizeof *image);
	clear_bytes(&t, sizeof t);
	image->bytes = bytes;
	image->limit_us = LMPLAY_LIMIT_DEFAULT_US;
	t.place = TEXT("signature");
	image->file_bytes = image_size(bytes, size, &t.problem);
	if (t.problem == NULL) {
		t.place = TEXT("preamble");
		t.problem = check_preamble(bytes, image->file_bytes);
	}
	if (t.problem == NULL) {
		image->envelope_bytes = ((const struct preamble *)bytes)->envelope_bytes;
		read_envelope(image, &t);
	}
	if (t.problem != NULL) {
		return set_error(error, LMPLAY_BAD_IMAGE, t.place, LMPLAY_NONE, t.problem);
	}
	image->state = (LMPLAY_VERIFY != 0) ? IMAGE_OPEN : IMAGE_VERIFIED;
	return LMPLAY_OK;
}

/* ---- Names, tensors and devices of an image ---- */

static bool name_equals(const struct lmplay_image *image, uint32_t name, const char *text,
	size_t size) {
	return ((name & 255u) == size) && !bytes_differ(characters_at(image, name >> 8), text, size);
}

/* Returns the index of the first element with the given name in a vector, or LMPLAY_NONE if no
   element has this name. The first field of each element must be its name. */
static uint32_t index_of_name(const struct lmplay_image *image, uint32_t field,
	uint32_t element_bytes, const char *name, size_t size) {
	const uint8_t *elements = image->vectors[field].elements;
	for (uint32_t i = 0; i < element_count(image, field); i++) {
		uint32_t element_name;
		copy_bytes(&element_name, &elements[(size_t)i * element_bytes], sizeof element_name);
		if (name_equals(image, element_name, name, size)) {
			return i;
		}
	}
	return LMPLAY_NONE;
}

/* Implements lmplay_find_sequence and lmplay_find_tensor: sets *index to the result of
   index_of_name. */
static enum lmplay_code find_index_by_name(const struct lmplay_image *image, uint32_t field,
	uint32_t element_bytes, const char *name, size_t size, uint32_t *index) {
	uint32_t found = LMPLAY_NONE;
	if (is_verified(image) && (name != NULL) && (index != NULL)) {
		found = index_of_name(image, field, element_bytes, name, size);
		*index = found;
	}
	return (found != LMPLAY_NONE) ? LMPLAY_OK : LMPLAY_USAGE;
}

enum lmplay_code lmplay_find_sequence(const struct lmplay_image *image, const char *name,
	size_t name_bytes, uint32_t *index) {
	return find_index_by_name(image, FIELD_SEQUENCES, sizeof(struct sequence), name, name_bytes,
		index);
}

enum lmplay_code lmplay_find_tensor(const struct lmplay_image *image, const char *name,
	size_t name_bytes, uint32_t *index) {
	return find_index_by_name(image, FIELD_TENSORS, sizeof(struct tensor), name, name_bytes, index);
}

/* Sets *text to the first character of a name, and *size to its length in bytes. */
static void get_name_text(const struct lmplay_image *image, uint32_t name, const char **text,
	uint32_t *size) {
	*text = (const char *)characters_at(image, name >> 8);
	*size = name & 255u;
}

enum lmplay_code lmplay_tensor(const struct lmplay_image *image, uint32_t index,
	struct lmplay_tensor *tensor) {
	const struct tensor *t;
	if (!is_verified(image) || (tensor == NULL) || (index >= element_count(image, FIELD_TENSORS))) {
		return LMPLAY_USAGE;
	}
	t = tensor_at(image, index);
	get_name_text(image, t->name, &tensor->name, &tensor->name_bytes);
	tensor->role = t->role;
	tensor->dtype = t->dtype;
	tensor->dims = t->dims;
	tensor->size = t->size;
	tensor->data = (t->has_data != 0u) ? &payload_of(image)[t->data_offset] : NULL;
	copy_bytes(tensor->shape, t->shape, sizeof tensor->shape);
	return LMPLAY_OK;
}

enum lmplay_code lmplay_sequence_name(const struct lmplay_image *image, uint32_t index,
	const char **name, uint32_t *name_bytes) {
	if (!is_verified(image) || (name == NULL) || (name_bytes == NULL) ||
		(index >= element_count(image, FIELD_SEQUENCES))) {
		return LMPLAY_USAGE;
	}
	get_name_text(image, sequence_at(image, index)->name, name, name_bytes);
	return LMPLAY_OK;
}

enum lmplay_code lmplay_need(const struct lmplay_image *image, uint32_t index,
	struct lmplay_need *need) {
	const struct device *d;
	if (!is_verified(image) || (need == NULL) || (index >= element_count(image, FIELD_DEVICES))) {
		return LMPLAY_USAGE;
	}
	d = device_at(image, index);
	get_name_text(image, d->board, &need->board, &need->board_bytes);
	need->subsystem = d->subsystem;
	copy_bytes(need->bars, d->bars, sizeof need->bars);
	need->vendor = d->vendor;
	need->device = d->device;
	return LMPLAY_OK;
}

/* ---- Memory ---- */

/* The state of one device: its registers and TLB windows. These structs are in the arena. */
struct lmplay_device_state {
	const struct board *board;       /* NULL: no board has the PCI ids of the device */
	struct lmplay_mapping registers; /* registers that program TLB windows */
	struct lmplay_mapping outbound;  /* registers of outbound address translation */
	uint64_t outbound_end;           /* offset of the first byte after all regions */
	uint32_t outbound_count;         /* number of regions in use */
	uint32_t registers_mapped;       /* 1: `registers` is valid */
	uint32_t outbound_mapped;        /* 1: `outbound` is valid */
	uint8_t slots_in_use[64];        /* one bit for each TLB window; 1: in use */
};

/* The state of one window: where it is mapped. These structs are in the arena. */
struct lmplay_window_state {
	struct lmplay_mapping mapping;   /* mapping of the range that contains the window */
	uint64_t offset_in_range;        /* offset of the window in that range; Point changes it */
	uint64_t range_bytes;            /* size of that range */
	uint64_t bus;                    /* bus address of the window's first byte; 0: none */
	const struct board_group *group; /* Tlb: group of the TLB window */
	uint16_t slot;                   /* Tlb: number of the TLB window */
	uint8_t kind;                    /* kind of the window */
	uint8_t device;                  /* index of the window's device in the image */
	uint8_t bar_offset_mod_8;        /* offset of the range in its BAR, modulo 8 */
};

/* The state of one ring. These structs are in the arena. */
struct lmplay_ring_state {
	uint64_t position; /* where the next entry begins, if it fits */
	uint64_t value;    /* where the last entry began */
};

/* What the commands so far say about a ring. These structs are in the work memory. */
struct checked_ring {
	uint64_t step;  /* of the last Advance, if its bit in checker.advanced is 1 */
	uint64_t steps; /* begin, first, and the steps of all Advances, ORed */
	uint64_t unit;  /* bits that must be 0 in steps, so that moved accesses are aligned */
};

/* Returns the number of bytes of the two tables that find_needed_rings sets. */
static uint64_t needed_rings_bytes(const struct lmplay_image *image) {
	return (element_count(image, FIELD_RINGS) != 0u)
		? ((uint64_t)element_count(image, FIELD_SEQUENCES) * 8u) : 0u;
}

/* Finds the rings that each sequence advances before it resets them, as bits of needed[sequence].
   The second half of `needed` has the rings that each sequence resets. */
static void find_needed_rings(const struct lmplay_image *image, uint32_t *needed) {
	uint32_t count = element_count(image, FIELD_SEQUENCES);
	uint32_t *resets = &needed[count];
	/* Twice, because called sequences may come after their callers. */
	for (uint32_t i = 0; (i < (2u * count)) && (element_count(image, FIELD_RINGS) != 0u); i++) {
		uint32_t s = i % count;
		uint32_t at = sequence_at(image, s)->first;
		uint32_t end = at + sequence_at(image, s)->count;
		uint32_t need = 0;
		uint32_t reset = 0;
		for (; at < end; at++) {
			const struct command *c = command_at(image, at);
			if (c->opcode == OP_CALL) {
				need |= needed[c->index] & ~reset;
				reset |= resets[c->index];
			} else if (c->opcode == OP_ADVANCE) {
				need |= ((uint32_t)1 << c->index) & ~reset;
			} else if (c->opcode == OP_RESET) {
				reset |= (uint32_t)1 << c->index;
			} else {
				/* The command changes no ring. */
			}
		}
		needed[s] = need;
		resets[s] = reset;
	}
}

/* Scratch tensors come before all others. */
static bool has_scratch(const struct lmplay_image *image) {
	return (element_count(image, FIELD_TENSORS) != 0u) &&
		(tensor_at(image, 0)->role == LMPLAY_SCRATCH);
}

/* Returns the number of bytes that lmplay_verify uses: 8 for each sequence (its longest time), the
   states of the rings, the tables of find_needed_rings, one bit for each window, and SCRATCH_MAX if
   the image has scratch. */
static uint64_t verify_memory_bytes(const struct lmplay_image *image) {
	uint32_t window_bytes = (element_count(image, FIELD_WINDOWS) + 7u) / 8u;
	uint32_t scratch_bytes = has_scratch(image) ? SCRATCH_MAX : 0u;
	return ((uint64_t)element_count(image, FIELD_SEQUENCES) * 8u) +
		((uint64_t)element_count(image, FIELD_RINGS) * sizeof(struct checked_ring)) +
		needed_rings_bytes(image) + window_bytes + scratch_bytes;
}

/* Returns the number of bytes that lmplay_load uses: for the tensors, and for tables after them. */
static uint64_t load_memory_bytes(const struct lmplay_image *image) {
	uint64_t tables =
		((uint64_t)element_count(image, FIELD_DEVICES) * sizeof(struct lmplay_device_state)) +
		((uint64_t)element_count(image, FIELD_WINDOWS) * sizeof(struct lmplay_window_state)) +
		((uint64_t)element_count(image, FIELD_RINGS) * sizeof(struct lmplay_ring_state)) +
		needed_rings_bytes(image) + ((element_count(image, FIELD_TENSORS) + 7u) / 8u);
	uint64_t bytes = image->arena_bytes + tables;
	return (bytes < tables) ? UINT64_MAX : bytes; /* UINT64_MAX if the sum overflows */
}

enum lmplay_code lmplay_plan(const struct lmplay_image *image, struct lmplay_plan *plan) {
	if ((plan == NULL) || !is_open(image)) {
		return LMPLAY_USAGE;
	}
	plan->verify_bytes = verify_memory_bytes(image);
	plan->arena_bytes = load_memory_bytes(image);
	if (plan->arena_bytes < plan->verify_bytes) {
		plan->arena_bytes = plan->verify_bytes;
	}
	plan->tensor_bytes = image->arena_bytes;
	plan->host_bytes = image->host_bytes;
	plan->payload_bytes = image->payload_bytes;
	plan->align = TENSOR_ALIGN;
	plan->devices = element_count(image, FIELD_DEVICES);
	plan->windows = element_count(image, FIELD_WINDOWS);
	plan->sequences = element_count(image, FIELD_SEQUENCES);
	plan->tensors = element_count(image, FIELD_TENSORS);
	plan->commands = element_count(image, FIELD_COMMANDS);
	return LMPLAY_OK;
}

/* ---- Verification ---- */

#if LMPLAY_VERIFY

/* Sums over the elements checked so far. check_tables compares these sums with the reservation. */
struct totals {
	uint64_t host_bytes;    /* total size of the Host windows */
	uint64_t payload_bytes; /* total size of the segments */
	uint64_t scratch_bytes; /* size of the scratch, which is at the start of the arena */
	uint64_t arena_bytes;   /* total size of the tensors */
	uint64_t fixed_bus_end[LMPLAY_DEVICES_MAX]; /* for each device, the bus address after its last
	                                               Host window with a fixed bus address */
	uint32_t commands;      /* number of commands of the sequences */
};

/* Reports whether a name may contain a character (section 1.2). */
static bool is_printable(uint32_t c) {
	/* The first character of a range that names must not contain, and the first after it. */
	static const uint32_t limits[] = {
		0x0, 0x20, 0x7f, 0xa0, 0xad, 0xae, 0x34f, 0x350, 0x61c, 0x61d, 0x115f, 0x1161,
		0x17b4, 0x17b6, 0x180b, 0x1810, 0x200b, 0x2010, 0x2028, 0x202f, 0x2060, 0x2070,
		0x3164, 0x3165, 0xfe00, 0xfe10, 0xfeff, 0xff00, 0xffa0, 0xffa1, 0xfff0, 0xfffc,
		0x13430, 0x13440, 0x1bca0, 0x1bca4, 0x1d173, 0x1d17b, 0xe0000, 0xe1000,
	};
	uint32_t passed = 0;
	while ((passed < (sizeof(limits) / sizeof(limits[0]))) && (c >= limits[passed])) {
		passed++;
	}
	return (passed % 2u) == 0u;
}

/* Reads the UTF-8 character (RFC 3629) at the start of `size` bytes, at least 1. Returns the length
   of the character in bytes, and sets *c to its code point. Returns 0 if the bytes do not begin
   with a valid character. */
static uint32_t decode_utf8(const uint8_t *text, uint32_t size, uint32_t *c) {
	/* Smallest code point of a character with 0, 1, 2 or 3 bytes after the first. A smaller code
	   point must use fewer bytes. */
	static const uint32_t least[4] = {0, 0x80, 0x800, 0x10000};
	uint32_t first = text[0];
	uint32_t more = 0;
	if (first >= 0xf0u) {
		more = 3;
	} else if (first >= 0xe0u) {
		more = 2;
	} else if (first >= 0x80u) {
		more = 1;
	} else {
		/* One byte. */
	}
	if ((more >= size) || ((first >= 0x80u) && (first < 0xc0u)) || (first >= 0xf8u)) {
		return 0;
	}
	*c = (more == 0u) ? first : (first & (0x3fu >> more));
	for (uint32_t i = 1; i <= more; i++) {
		if ((text[i] & 0xc0u) != 0x80u) {
			return 0;
		}
		*c = (*c << 6) | (text[i] & 0x3fu);
	}
	if ((*c < least[more]) || (*c > 0x10ffffu) || ((*c >= 0xd800u) && (*c < 0xe000u))) {
		return 0;
	}
	return more + 1u;
}

/* Checks a name, whose characters must be printable, and lie between `first` and `last`. */
static const char *check_characters(const struct lmplay_image *image, uint32_t name,
	uint32_t first, uint32_t last) {
	uint32_t at = name >> 8;
	uint32_t left = name & 255u;
	if ((left == 0u) || !lies_inside(at, left, element_count(image, FIELD_CHARACTERS))) {
		return TEXT("its name is empty or lies outside the text");
	}
	while (left > 0u) {
		uint32_t c = 0;
		uint32_t size = decode_utf8(characters_at(image, at), left, &c);
		if ((size == 0u) || (c < first) || (c > last) || !is_printable(c)) {
			return TEXT("its name has a hidden character, is not UTF-8, or (sequence) not ASCII");
		}
		at += size;
		left -= size;
	}
	return NULL;
}

static const char *check_name(const struct lmplay_image *image, uint32_t name) {
	return check_characters(image, name, 0, UINT32_MAX);
}

static const char *check_device(const struct lmplay_image *image, uint32_t index) {
	const struct device *d = device_at(image, index);
	uint32_t most = 32;
	if (d->interrupts == INTERRUPTS_MSIX) {
		most = 2048;
	}
	if (d->reserved != 0u) {
		return TEXT("reserved bytes are not zero");
	}
	if ((d->interrupts > INTERRUPTS_MSIX) || (d->vectors > most) ||
		((d->vectors == 0u) != (d->interrupts == 0u)) ||
		((d->interrupts != INTERRUPTS_MSIX) && ((d->vectors & (d->vectors - 1u)) != 0u))) {
		return TEXT("MSI has 1, 2, 4, 8, 16 or 32 interrupt vectors, MSI-X 1 to 2048");
	}
	return check_name(image, d->board);
}

static const struct rule *access_rule_at(const struct lmplay_image *image, uint32_t index) {
	return &((const struct rule *)image->vectors[FIELD_RULES].elements)[index];
}

/* Reports whether a rule may follow the previous rule. Rules are sorted by device, BAR and offset,
   and do not overlap. */
static bool may_follow_rule(const struct rule *r, const struct rule *previous) {
	uint32_t place = ((uint32_t)r->device << 8) | r->bar;
	uint32_t before = ((uint32_t)previous->device << 8) | previous->bar;
	return (place > before) || ((place == before) && (r->first > previous->last));
}

static const char *check_rule(const struct lmplay_image *image, uint32_t index) {
	const struct rule *r = access_rule_at(image, index);
	uint64_t least; /* smallest access width that the rule accepts, in bytes */
	if ((r->device >= element_count(image, FIELD_DEVICES)) || (r->bar >= LMPLAY_BARS)) {
		return TEXT("its device or BAR does not exist");
	}
	if (board_of(image, r->device) != NULL) {
		return TEXT("its device has a known board; the image must not have rules for it");
	}
	if ((r->first > r->last) || (r->last >= device_at(image, r->device)->bars[r->bar])) {
		return TEXT("its bytes do not lie in its BAR");
	}
	if ((r->widths == 0u) || (r->widths > 15u) || (r->memory > 1u)) {
		return TEXT("its widths are invalid, or its field memory is neither 0 nor 1");
	}
	least = (uint64_t)r->widths & (~(uint64_t)r->widths + 1u);
	if (((r->first | (r->last + 1u)) & (least - 1u)) != 0u) {
		return TEXT("its bytes are not aligned to its smallest width");
	}
	if ((index > 0u) && !may_follow_rule(r, access_rule_at(image, index - 1u))) {
		return TEXT("overlaps the previous rule, or is out of order");
	}
	return check_name(image, r->name);
}

/* Checks the fixed bus address of a Host window. The Host windows of a device that have fixed bus
   addresses must be sorted by these addresses, and must not overlap. */
static const char *check_fixed_bus(const struct window *w, struct totals *sum) {
	uint64_t end = w->offset + round_up(w->size, PAGE_BYTES);
	if ((w->offset == 0u) || ((w->offset % PAGE_BYTES) != 0u) || (end <= w->offset)) {
		return TEXT("its bus address is 0, not a multiple of 4096, or too large for its size");
	}
	if (w->offset < sum->fixed_bus_end[w->device]) {
		return TEXT("its bus address is below the end of an earlier host window");
	}
	sum->fixed_bus_end[w->device] = end;
	return NULL;
}

static const char *check_window(const struct lmplay_image *image, uint32_t index,
	struct totals *sum) {
	const struct window *w = window_at(image, index);
	bool is_fixed = (w->flags & FLAG_FIXED_BUS) != 0u;
	if ((w->device >= element_count(image, FIELD_DEVICES)) || (w->kind < KIND_BAR) ||
		(w->kind > KIND_CONFIG)) {
		return TEXT("its device does not exist, or its kind is unknown");
	}
	if ((w->flags > (FLAG_WRITE_COMBINING | FLAG_FIXED_BUS)) || (w->reserved != 0u)) {
		return TEXT("it has unknown flags, or its reserved bytes are not zero");
	}
	if (is_fixed && (w->kind != KIND_HOST)) {
		return TEXT("flag 2 (fixed bus address) is set, but only a host window may have it");
	}
	if ((w->size == 0u) || (w->size > WINDOW_SIZE_MAX)) {
		return TEXT("its size is not between 1 byte and 4 GiB");
	}
	if ((w->kind != KIND_TLB) && (w->slot != NO_SLOT)) {
		return TEXT("its slot must be 65535: only a TLB window has a slot");
	}
	if (w->kind == KIND_BAR) {
		if ((w->bar >= LMPLAY_BARS) ||
			!lies_inside(w->offset, w->size, device_at(image, w->device)->bars[w->bar])) {
			return TEXT("it does not lie inside its BAR");
		}
		return NULL;
	}
	if ((w->bar != 0u) || ((w->offset != 0u) && !is_fixed)) {
		return TEXT("its BAR and offset must be 0: only a BAR window has them");
	}
	if ((w->kind == KIND_TLB) && ((w->size & (w->size - 1u)) != 0u)) {
		return TEXT("the size of a TLB window must be a power of two");
	}
	if ((w->kind == KIND_CONFIG) && (w->size != 256u) && (w->size != 4096u)) {
		return TEXT("the size of configuration space must be 256 or 4096");
	}
	if (w->kind == KIND_HOST) {
		sum->host_bytes += round_up(w->size, PAGE_BYTES);
	}
	return is_fixed ? check_fixed_bus(w, sum) : NULL;
}

static const char *check_sequence(const struct lmplay_image *image, uint32_t index,
	struct totals *sum) {
	const struct sequence *s = sequence_at(image, index);
	if ((s->first != sum->commands) || (s->count == 0u) ||
		(s->count > (element_count(image, FIELD_COMMANDS) - sum->commands))) {
		return TEXT("it must begin where the previous sequence ends, and must not be empty");
	}
	sum->commands += s->count;
	if ((index == (element_count(image, FIELD_SEQUENCES) - 1u)) &&
		(sum->commands != element_count(image, FIELD_COMMANDS))) {
		return TEXT("the last sequence must end with the last command of the image");
	}
	if (command_at(image, sum->commands - 1u)->opcode != OP_END) {
		return TEXT("its last command must be an end command");
	}
	return check_characters(image, s->name, 0x21, 0x7e);
}

static const struct segment *segment_at(const struct lmplay_image *image, uint32_t index) {
	return &((const struct segment *)image->vectors[FIELD_SEGMENTS].elements)[index];
}

static const char *check_segment(const struct lmplay_image *image, uint32_t index,
	struct totals *sum) {
	const struct segment *s = segment_at(image, index);
	uint64_t start = round_up(image->envelope_bytes, PAGE_BYTES) + sum->payload_bytes;
	bool is_last = (index == (element_count(image, FIELD_SEGMENTS) - 1u));
	if ((s->size == 0u) || (s->size > DATA_SIZE_MAX) || (s->offset > DATA_SIZE_MAX)) {
		return TEXT("its size is 0, or its size or offset exceeds 64 TiB");
	}
	if (!is_last && ((s->size % PAGE_BYTES) != 0u)) {
		return TEXT("its size must be a multiple of 4096, because another segment follows");
	}
	if ((s->offset != start) || (s->reserved != 0u)) {
		return TEXT("it must begin where the previous segment ends; reserved bytes must be 0");
	}
	sum->payload_bytes += s->size;
	return NULL;
}

/* Returns the size of all elements of a tensor in bytes, or 0 if its type or shape is invalid, or
   the size exceeds DATA_SIZE_MAX. */
static uint64_t tensor_size(const struct tensor *t) {
	/* Sizes of the types of elements, in the order of enum lmplay_dtype. */
	static const uint8_t sizes[13] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
	uint64_t size = (t->dtype < sizeof sizes) ? sizes[t->dtype] : 0u;
	if (t->dims > LMPLAY_DIMS_MAX) {
		size = 0;
	}
	for (uint32_t i = 0; (i < LMPLAY_DIMS_MAX) && (size != 0u); i++) {
		bool is_dimension = i < t->dims;
		if (is_dimension != (t->shape[i] != 0u)) {
			size = 0;
		} else if (is_dimension) {
			size = (size > (DATA_SIZE_MAX / t->shape[i])) ? 0u : (size * t->shape[i]);
		} else {
			/* The unused elements of the shape are 0, as required. */
		}
	}
	return size;
}

static const char *check_tensor(const struct lmplay_image *image, uint32_t index,
	struct totals *sum) {
	const struct tensor *t = tensor_at(image, index);
	uint64_t size = tensor_size(t);
	const char *problem = check_name(image, t->name);
	if (problem != NULL) {
		return problem;
	}
	if ((t->role == 0u) || (t->role > LMPLAY_SCRATCH)) {
		return TEXT("its role must be 1 (input), 2 (output) or 3 (scratch)");
	}
	if ((size == 0u) || (t->size != size)) {
		return TEXT("its type, its shape, or the size that follows from them is wrong");
	}
	if ((t->arena_offset != sum->arena_bytes) || (t->arena_offset > DATA_SIZE_MAX)) {
		return TEXT("it must begin in the arena where the previous tensor ends");
	}
	sum->arena_bytes = round_up(t->arena_offset + size, TENSOR_ALIGN);
	if (t->role == LMPLAY_SCRATCH) {
		if ((t->arena_offset != sum->scratch_bytes) || (t->has_data != 0u)) {
			return TEXT("scratch must come before inputs and outputs, and have no data");
		}
		if (sum->arena_bytes > SCRATCH_MAX) {
			return TEXT("scratch may take only 4096 bytes");
		}
		sum->scratch_bytes = sum->arena_bytes;
	}
	if ((t->has_data > 1u) || ((t->has_data == 0u) && (t->data_offset != 0u))) {
		return TEXT("has_data must be 0 or 1; if it is 0, data_offset must be 0");
	}
	if ((t->has_data == 1u) && !lies_inside(t->data_offset, size, sum->payload_bytes)) {
		return TEXT("its data lie outside the payload");
	}
	return NULL;
}

static const char *check_ring(const struct lmplay_image *image, uint32_t index) {
	const struct ring *r = ring_at(image, index);
	if ((r->begin > r->first) || (r->first > r->end) || (r->reserved != 0u)) {
		return TEXT("first must lie between begin and end, and reserved bytes must be zero");
	}
	return check_name(image, r->name);
}

/* What a command has in its field `index`. */
#define INDEX_NOTHING 0u  /* the field index must be 0 */
#define INDEX_SOURCE 1u   /* index 0: the payload; 1 + n: tensor n, an input, or scratch to copy */
#define INDEX_OUTPUT 2u   /* index 1 + n: tensor n, which is an output or scratch */
#define INDEX_BUS 3u      /* index of a window that has a bus address */
#define INDEX_INTERVAL 4u /* microseconds between two loads */
#define INDEX_SEQUENCE 5u /* index of a sequence */
#define INDEX_RING 6u     /* index of a ring */

/* What a command has in its field `amount`. */
#define AMOUNT_NOTHING 0u  /* the field amount must be 0 */
#define AMOUNT_BYTES 1u    /* number of bytes, at least 1 */
#define AMOUNT_DEADLINE 2u /* microseconds until the deadline; 0: one load only */
#define AMOUNT_DELAY 3u    /* microseconds to wait */
#define AMOUNT_SHIFT 4u    /* bits by which a position is shifted, at most 63 */

/* Meanings of the fields value and mask of a command. */
#define VALUE_NOTHING 0u /* the fields value and mask must be 0 */
#define VALUE_NUMBER 1u  /* value: a number of `width` bytes; mask: must be 0 */
#define VALUE_MASK 2u    /* mask: a number of `width` bytes; value: no bits outside mask */
#define VALUE_OFFSET 3u  /* value: offset in the payload or tensor, or step; mask: must be 0 */
#define VALUE_TILES 4u   /* value: address in the tile; mask: tile range */
#define VALUE_PARITY 5u  /* value: must be 0; mask: bits that change with each lap */

/* The operands of one opcode, as in the table of section 6. The fields modes, options and kinds are
   sets: bit n is 1 if the value n is allowed. */
struct opcode_form {
	uint8_t widths;   /* accepted widths, ORed; 0: the command has no width */
	uint8_t modes;    /* set of allowed modes */
	uint8_t options;  /* set of allowed options */
	uint8_t kinds;    /* set of allowed kinds of windows; 0: the command has no window */
	uint8_t index;    /* meaning of the field index: INDEX_... */
	uint8_t amount;   /* meaning of the field amount: AMOUNT_... */
	uint8_t value;    /* meaning of the fields value and mask: VALUE_... */
	uint8_t is_store; /* 1: the command stores to its window */
};

#define ANY_MEMORY 0x0eu /* set of the kinds Bar, Tlb and Host */
#define ANY_WINDOW 0x1eu /* set of all kinds: Bar, Tlb, Host and Config */

static const struct opcode_form opcode_forms[OPCODE_COUNT] = {
	{0, 0, 0, 0, 0, 0, 0, 0}, /* 0 is not an opcode */
	{15, 1, 1, ANY_MEMORY, INDEX_NOTHING, AMOUNT_NOTHING, VALUE_NUMBER, 1},  /* Write */
	{15, 1, 1, ANY_MEMORY, INDEX_NOTHING, AMOUNT_NOTHING, VALUE_MASK, 1},    /* Modify */
	{12, 1, 1, ANY_MEMORY, INDEX_BUS, AMOUNT_NOTHING, VALUE_NUMBER, 1},      /* Relocate */
	{15, 14, 1, ANY_MEMORY, INDEX_SOURCE, AMOUNT_BYTES, VALUE_OFFSET, 1},    /* CopyIn */
	{15, 6, 1, ANY_MEMORY, INDEX_NOTHING, AMOUNT_BYTES, VALUE_NUMBER, 1},    /* Fill */
	{15, 14, 1, ANY_MEMORY, INDEX_OUTPUT, AMOUNT_BYTES, VALUE_OFFSET, 0},    /* CopyOut */
	{15, 14, 6, ANY_WINDOW, INDEX_INTERVAL, AMOUNT_DEADLINE, VALUE_MASK, 0}, /* Expect */
	{15, 1, 6, ANY_MEMORY, INDEX_SOURCE, AMOUNT_BYTES, VALUE_OFFSET, 0},     /* Compare */
	{0, 1, 1, 4, INDEX_NOTHING, AMOUNT_NOTHING, VALUE_TILES, 0},             /* Point */
	{0, 1, 1, 0, INDEX_NOTHING, AMOUNT_NOTHING, VALUE_NOTHING, 0},           /* Fence */
	{0, 1, 1, 0, INDEX_NOTHING, AMOUNT_DELAY, VALUE_NOTHING, 0},             /* Delay */
	{0, 1, 1, 0, INDEX_SEQUENCE, AMOUNT_NOTHING, VALUE_NOTHING, 0},          /* Call */
	{0, 1, 1, 0, INDEX_NOTHING, AMOUNT_NOTHING, VALUE_NOTHING, 0},           /* End */
	{0, 1, 1, 0, INDEX_RING, AMOUNT_NOTHING, VALUE_OFFSET, 0},               /* Advance */
	{0, 1, 1, 0, INDEX_RING, AMOUNT_NOTHING, VALUE_NOTHING, 0},              /* Reset */
	{0, 6, 1, 0, INDEX_RING, AMOUNT_SHIFT, VALUE_PARITY, 0},                 /* With */
};

/* Sets of the opcodes of the commands whose value or offset a With may change: bit n for opcode
   n. */
#define OPCODE_BIT(opcode) ((uint32_t)1 << (opcode))
#define MOVED_VALUES \
	(OPCODE_BIT(OP_WRITE) | OPCODE_BIT(OP_RELOCATE) | OPCODE_BIT(OP_FILL) | OPCODE_BIT(OP_EXPECT))
#define MOVED_OFFSETS \
	(MOVED_VALUES | OPCODE_BIT(OP_COPY_IN) | OPCODE_BIT(OP_COPY_OUT) | OPCODE_BIT(OP_COMPARE))

/* Flags in the two highest bits of each element of checker.times. The other bits are the longest
   time of the sequence in us, without the sequences that it calls: less than 2^58. */
#define TIME_CALLS ((uint64_t)1 << 63)     /* the sequence contains a Call */
#define TIME_IS_CALLED ((uint64_t)1 << 62) /* another sequence calls this sequence */
#define TIME_MASK (TIME_IS_CALLED - 1u)    /* bits of the time */

/* The state of lmplay_verify. */
struct checker {
	const struct lmplay_image *image;
	const char *place;     /* part of the image that is being checked, as in struct lmplay_error */
	uint32_t index;        /* index of this part in its table */
	uint64_t *times;       /* longest time of each sequence in us, and flags */
	struct checked_ring *rings;
	uint32_t *needed;      /* see find_needed_rings */
	uint32_t advanced;     /* one bit for each ring; 1: the sequence has advanced it */
	uint8_t *pointed;      /* one bit for each window; 1: a Point has made the window accessible */
	bool any_pointed;      /* false: all bits of `pointed` are 0; true: some may be 1 */
	uint8_t *loaded_from;  /* for each byte of the scratch: 1 + the device from which the sequence
	                          has loaded it, or 0 */
	uint32_t found_window; /* index of the window to which `found` belongs, or LMPLAY_NONE */
	uint32_t found_rule;   /* index of the rule that was found last */
	struct board_rule found; /* what images may do in a range: the result of find_access */
	bool found_has_bus;      /* images may store the bus address of that range to a device */
};

static void set_check_place(struct checker *k, const char *place) {
	if (LMPLAY_TEXT != 0) {
		k->place = place;
	}
}

/* Makes all Tlb windows inaccessible until their next Point, scratch unwritten, and rings without a
   value. */
static void forget_state(struct checker *k) {
	k->advanced = 0;
	if (has_scratch(k->image)) {
		clear_bytes(k->loaded_from, SCRATCH_MAX);
	}
	if (k->any_pointed) {
		clear_bytes(k->pointed, (element_count(k->image, FIELD_WINDOWS) + 7u) / 8u);
		k->any_pointed = false;
		k->found_window = LMPLAY_NONE;
	}
}

/* Returns the set of the coordinates from start to end: bit n is 1 if n belongs to the set. If
   start is greater than end, the range wraps around the edge of the grid of tiles; the set then
   contains all coordinates. */
static uint64_t coordinate_set(uint32_t start, uint32_t end) {
	uint64_t mask = UINT64_MAX;
	if (start <= end) {
		if (start > 63u) {
			mask = 0;
		} else {
			uint64_t above = 63u - min_u64(end, 63u); /* number of coordinates above `end` */
			mask = (UINT64_MAX << start) & (UINT64_MAX >> above);
		}
	}
	return mask;
}

/* Reports whether a Point would make a forbidden address accessible (struct board_forbidden). */
static bool reaches_forbidden(const struct board *board, const struct window *w, uint64_t tiles,
	uint64_t address) {
	uint32_t x = tile_byte(tiles, 0);
	uint32_t y = tile_byte(tiles, 1);
	bool is_multicast = tile_byte(tiles, 7) != 0u;
	uint32_t route = tile_byte(tiles, 4) + (is_multicast ? 2u : 0u);
	uint64_t columns = coordinate_set(is_multicast ? tile_byte(tiles, 2) : x, x);
	uint64_t rows = coordinate_set(is_multicast ? tile_byte(tiles, 3) : y, y);
	bool is_reached = false;
	for (uint32_t i = 0; (board != NULL) && (i < board->forbidden_count) && !is_reached; i++) {
		const struct board_forbidden *f = &board->forbidden[i];
		is_reached = (((f->routes >> route) & 1u) != 0u) && ((f->columns & columns) != 0u) &&
			((f->rows & rows) != 0u) && (address <= f->last) &&
			((address + (w->size - 1u)) >= f->first);
	}
	return is_reached;
}

/* Sets k->found to the rule of one byte of a BAR. Reports whether there is one. The search begins
   at the rule that was found last: rules do not overlap. */
static bool find_rule(struct checker *k, const struct board *board, const struct window *w,
	uint64_t at) {
	uint32_t count = (board != NULL) ? board->rule_count : element_count(k->image, FIELD_RULES);
	struct board_rule *a = &k->found;
	bool is_found = false;
	for (uint32_t n = 0; (n < count) && !is_found; n++) {
		uint32_t i = (k->found_rule + n) % count;
		bool is_of_device = true;
		if (board != NULL) {
			*a = board->rules[i];
		} else {
			const struct rule *r = access_rule_at(k->image, i);
			a->first = r->first;
			a->last = r->last;
			a->bar = r->bar;
			a->widths = r->widths;
			a->memory = r->memory;
			is_of_device = r->device == w->device;
		}
		is_found = is_of_device && (a->bar == w->bar) && (at >= a->first) && (at <= a->last);
		if (is_found) {
			k->found_rule = i;
		}
	}
	return is_found;
}

/* Only this function decides what images may load and store, and which bytes have a bus address.
   Sets k->found to the range around the byte `at` in which all bytes accept the same, and reports
   whether images may access it. Offsets are those in the BAR, or in a window that is not in a BAR.
   For a Point, `tiles` is not 0, and `at` is its address; else `tiles` is 0. */
static bool find_access(struct checker *k, uint32_t window, uint64_t at, uint64_t tiles) {
	const struct window *w = window_at(k->image, window);
	const struct board *board = board_of(k->image, w->device);
	struct board_rule *a = &k->found;
	bool is_found = true;
	a->first = 0;
	a->last = WINDOW_SIZE_MAX;
	a->widths = 15;
	a->memory = 1;
	a->load_only = 0;
	if (w->kind == KIND_BAR) {
		uint64_t bar_bytes = device_at(k->image, w->device)->bars[w->bar];
		is_found = (at < bar_bytes) && find_rule(k, board, w, at);
		a->last = min_u64(a->last, bar_bytes - 1u);
	} else if (w->kind == KIND_CONFIG) {
		a->widths = 7;
		a->load_only = 1;
	} else if (w->kind == KIND_TLB) {
		is_found = (tiles != 0u) ? !reaches_forbidden(board, w, tiles, at)
			: test_bit(k->pointed, window);
	} else {
		/* Host memory accepts everything. */
	}
	k->found_has_bus = (w->kind != KIND_TLB) && (a->load_only == 0u);
	k->found_window = is_found ? window : LMPLAY_NONE;
	return is_found;
}

/* Returns the offset of a Bar window in its BAR, and 0 for other windows. */
static uint64_t bar_offset(const struct window *w) {
	return (w->kind == KIND_BAR) ? w->offset : 0u;
}

static const char *check_access(struct checker *k, const struct command *c) {
	const struct window *w = window_at(k->image, c->window);
	const struct opcode_form *f = &opcode_forms[c->opcode];
	const struct board_rule *a = &k->found;
	bool has_bytes = f->amount == AMOUNT_BYTES;
	bool is_copy = has_bytes && (c->opcode != OP_COMPARE);
	bool is_bulk = is_copy && (c->mode == MODE_BULK);
	bool is_fixed = is_copy && (c->mode == MODE_FIXED);
	uint64_t size = (has_bytes && !is_fixed) ? c->amount : c->width;
	uint32_t low = (uint32_t)c->width - 1u; /* bits that are zero in a multiple of the width */
	uint64_t at = bar_offset(w) + c->offset;
	bool is_found = (k->found_window == c->window) && (at >= a->first) && (at <= a->last);
	if (!is_found) {
		is_found = find_access(k, c->window, at, 0);
	}
	if (!is_found && (w->kind == KIND_TLB)) {
		return TEXT("the window needs a point command first, and another after each call");
	}
	if (!lies_inside(c->offset, size, w->size)) {
		return TEXT("it reaches outside the window");
	}
	if (!is_bulk && (((c->offset & low) != 0u) || ((w->offset & low) != 0u) ||
		(has_bytes && ((c->amount & low) != 0u)))) {
		return TEXT("its offset or amount, or the window's offset, is not a multiple of its width");
	}
	if (!is_found) {
		return TEXT("the device has no register or memory at this offset of the BAR");
	}
	if (size > (a->last - at + 1u)) {
		return TEXT("it reaches outside the registers or memory in which it begins");
	}
	if ((a->widths & c->width) == 0u) {
		return (w->kind == KIND_CONFIG) ? TEXT("configuration space does not accept width 8")
			: TEXT("the device does not accept accesses of this width at this offset");
	}
	if ((f->is_store != 0u) && (a->load_only != 0u)) {
		return TEXT("the device accepts only loads here");
	}
	if ((is_bulk && ((a->memory == 0u) || (a->widths != 15u))) ||
		((w->flags != 0u) && (a->memory == 0u))) {
		return TEXT("registers accept neither bulk access nor a write-combining window");
	}
	return NULL;
}

static const char *check_point(struct checker *k, const struct command *c) {
	const struct window *w = window_at(k->image, c->window);
	uint64_t t = c->mask;
	uint32_t ordering = tile_byte(t, 5);
	if ((c->value & (w->size - 1u)) != 0u) {
		return TEXT("the address is not a multiple of the window's size");
	}
	if ((tile_byte(t, 4) > 1u) || (ordering < 1u) || (ordering > 3u) || (tile_byte(t, 6) > 8u) ||
		(tile_byte(t, 7) > 1u) || ((tile_byte(t, 7) == 0u) && ((t & 0xffff0000u) != 0u))) {
		return TEXT("invalid tile range; FORMAT.md 6.1 lists the valid values");
	}
	if (!find_access(k, c->window, c->value, t)) {
		return TEXT("the window would reach addresses that images must not access");
	}
	set_bit(k->pointed, c->window);
	k->any_pointed = true;
	return NULL;
}

/* Reports whether every byte of the pages that a window touches accepts stores: an IOMMU maps whole
   pages, and only the other device knows how much it stores. */
static bool has_bus_address(struct checker *k, uint32_t window) {
	const struct window *w = window_at(k->image, window);
	uint64_t next = bar_offset(w) - (bar_offset(w) % PAGE_BYTES);
	uint64_t last = (bar_offset(w) + w->size - 1u) | (PAGE_BYTES - 1u);
	bool ok = true;
	while (ok && (next <= last)) {
		ok = find_access(k, window, next, 0) && k->found_has_bus;
		next = k->found.last + 1u;
	}
	return ok;
}

/* Checks the window whose bus address a Relocate stores to a device. */
static const char *check_bus_window(struct checker *k, const struct command *c) {
	const struct window *w;
	if (c->index >= element_count(k->image, FIELD_WINDOWS)) {
		return TEXT("its index must be that of a window");
	}
	w = window_at(k->image, c->index);
	if ((c->value > w->size) || ((c->value == w->size) && (w->kind == KIND_BAR))) {
		return TEXT("the relocation offset is beyond the window");
	}
	if (has_bus_address(k, c->index)) {
		return NULL;
	}
	return (w->kind == KIND_BAR) ? TEXT("the window shares a page with bytes that accept no stores")
		: TEXT("only BAR and host windows have a bus address");
}

/* Checks that a value is loaded whole into scratch, and stored only to the device of the load. */
static const char *check_scratch(struct checker *k, const struct command *c) {
	uint8_t *from =
		&k->loaded_from[tensor_at(k->image, c->index - 1u)->arena_offset + c->value];
	uint8_t device = (uint8_t)(window_at(k->image, c->window)->device + 1u);
	if ((c->mode != MODE_EXACT) || (c->amount != c->width)) {
		return TEXT("scratch needs mode 1 (exact) and one access: amount is width");
	}
	for (uint32_t i = 0; i < c->amount; i++) {
		if (c->opcode == OP_COPY_OUT) {
			from[i] = device;
		} else if (from[i] != device) {
			return TEXT("the sequence has not loaded this scratch from the same device");
		} else {
			/* The byte is loaded. */
		}
	}
	return NULL;
}

/* Checks that the data of a copy or a compare lie inside a tensor of the given role, inside the
   payload, or, for a copy, inside scratch. */
static const char *check_data_range(struct checker *k, const struct command *c, uint32_t role) {
	const struct lmplay_image *image = k->image;
	uint64_t size = image->payload_bytes;
	bool is_scratch = false;
	if ((c->index != 0u) || (role == LMPLAY_OUTPUT)) {
		const struct tensor *t;
		if ((c->index == 0u) || (c->index > element_count(image, FIELD_TENSORS))) {
			return TEXT("its index selects no tensor");
		}
		t = tensor_at(image, c->index - 1u);
		is_scratch = (t->role == LMPLAY_SCRATCH) && (c->opcode != OP_COMPARE);
		if ((t->role != role) && !is_scratch) {
			return TEXT("its index must select an input (copy out: an output), or scratch");
		}
		size = t->size;
	}
	if (!lies_inside(c->value, c->amount, size)) {
		return TEXT("its data reach outside the tensor or payload");
	}
	return is_scratch ? check_scratch(k, c) : NULL;
}

/* Checks the ring of an Advance, a Reset or a With, and notes what the command does to it. */
static const char *check_ring_use(struct checker *k, const struct command *c) {
	const struct ring *ring;
	struct checked_ring *state;
	uint32_t bit;
	if (c->index >= element_count(k->image, FIELD_RINGS)) {
		return TEXT("its index must be that of a ring");
	}
	ring = ring_at(k->image, c->index);
	state = &k->rings[c->index];
	bit = (uint32_t)1 << c->index;
	if (c->opcode == OP_RESET) {
		k->advanced &= ~bit;
	} else if (c->opcode == OP_ADVANCE) {
		if ((c->value == 0u) || (c->value > (ring->end - ring->begin))) {
			return TEXT("its value must be between 1 and the size of the ring");
		}
		state->step = c->value;
		state->steps |= ring->begin | ring->first | c->value;
		k->advanced |= bit;
	} else if ((k->advanced & bit) == 0u) {
		return TEXT("the ring needs an advance first, and another after each call or reset");
	} else {
		/* The ring has a value. */
	}
	return NULL;
}

static const char *check_index(struct checker *k, const struct command *c) {
	const struct lmplay_image *image = k->image;
	const char *problem = NULL;
	switch (opcode_forms[c->opcode].index) {
	case INDEX_SOURCE:
		problem = check_data_range(k, c, LMPLAY_INPUT);
		break;
	case INDEX_OUTPUT:
		problem = check_data_range(k, c, LMPLAY_OUTPUT);
		break;
	case INDEX_BUS:
		problem = check_bus_window(k, c);
		break;
	case INDEX_INTERVAL:
		if ((c->index != 0u) && (c->amount == 0u)) {
			problem = TEXT("index sets an interval, but amount sets no deadline");
		}
		break;
	case INDEX_SEQUENCE:
		if (c->index >= element_count(image, FIELD_SEQUENCES)) {
			problem = TEXT("its index must be that of a sequence");
		}
		break;
	case INDEX_RING:
		problem = check_ring_use(k, c);
		break;
	default:
		if (c->index != 0u) {
			problem = TEXT("index must be 0");
		}
		break;
	}
	return problem;
}

static const char *check_value_and_amount(const struct command *c) {
	const struct opcode_form *f = &opcode_forms[c->opcode];
	uint64_t width_bits = (c->width != 0u) ? width_mask(c->width) : 0u;
	uint64_t value = 0; /* bits that may be 1 in c->value */
	uint64_t mask = 0;  /* bits that may be 1 in c->mask */
	if (f->value == VALUE_NUMBER) {
		value = width_bits;
	} else if (f->value == VALUE_MASK) {
		value = c->mask;
		mask = width_bits;
	} else if (f->value == VALUE_OFFSET) {
		value = UINT64_MAX;
	} else if (f->value == VALUE_TILES) {
		value = UINT64_MAX;
		mask = UINT64_MAX;
	} else if (f->value == VALUE_PARITY) {
		mask = UINT64_MAX;
	} else {
		/* VALUE_NOTHING: c->value and c->mask must be 0. */
	}
	if (((c->value & ~value) != 0u) || ((c->mask & ~mask) != 0u) ||
		((c->opcode == OP_MODIFY) && (c->mask == 0u))) {
		return TEXT("value or mask is too large, value has bits outside mask, or mask is 0");
	}
	if ((c->opcode == OP_EXPECT) && (c->mode == CONDITION_REACHED) &&
		((c->mask == 0u) || ((c->mask & (c->mask + 1u)) != 0u))) {
		return TEXT("mask must be 2^n - 1, the largest value of the counter");
	}
	if ((f->amount == AMOUNT_NOTHING) && (c->amount != 0u)) {
		return TEXT("amount must be 0");
	}
	if ((f->amount == AMOUNT_BYTES) && (c->amount == 0u)) {
		return TEXT("amount must not be 0");
	}
	if ((f->amount == AMOUNT_DELAY) && ((c->amount == 0u) || (c->amount > DELAY_MAX_US))) {
		return TEXT("amount must be between 1 and 10000000 us");
	}
	if ((f->amount == AMOUNT_SHIFT) && (c->amount > 63u)) {
		return TEXT("amount must be at most 63 bits");
	}
	return NULL;
}

/* Checks all fields of one command. `is_last` is true for the last command of a sequence. */
static const char *check_command(struct checker *k, const struct command *c, bool is_last) {
	const struct opcode_form *f;
	const char *problem = NULL;
	if ((c->opcode == 0u) || (c->opcode >= OPCODE_COUNT) || (is_last != (c->opcode == OP_END))) {
		return TEXT("unknown opcode, or an end command before the end of its sequence");
	}
	f = &opcode_forms[c->opcode];
	if ((c->mode > 7u) || (((f->modes >> c->mode) & 1u) == 0u) || (c->option > 7u) ||
		(((f->options >> c->option) & 1u) == 0u)) {
		return TEXT("this command does not accept this mode or option");
	}
	if (f->widths != 0u) {
		if (((c->width & f->widths) == 0u) || ((c->width & (c->width - 1u)) != 0u)) {
			return TEXT("this command does not accept this width");
		}
	} else if ((c->width != 0u) || (c->offset != 0u)) {
		return TEXT("width and offset must be 0");
	} else {
		/* The command has no width, and the fields width and offset are 0. */
	}
	if (f->kinds == 0u) {
		problem = (c->window != 0u) ? TEXT("window must be 0") : NULL;
	} else if ((c->window >= element_count(k->image, FIELD_WINDOWS)) ||
		(((f->kinds >> window_at(k->image, c->window)->kind) & 1u) == 0u)) {
		problem = TEXT("its window does not exist, or is of a kind that it does not accept");
	} else if (c->opcode == OP_POINT) {
		problem = check_point(k, c);
	} else {
		problem = check_access(k, c);
	}
	if (problem == NULL) {
		problem = check_value_and_amount(c);
	}
	return (problem != NULL) ? problem : check_index(k, c);
}

/* Checks the command that the With at the index `at` changes, with the largest value of the ring.
   check_commands also checks it unchanged. A command follows each With: a sequence ends with an
   End. */
static const char *check_with(struct checker *k, uint32_t at) {
	const struct command *c = command_at(k->image, at);
	const struct command *next = command_at(k->image, at + 1u);
	bool is_offset = c->mode == PLACE_OFFSET;
	uint32_t opcodes = is_offset ? MOVED_OFFSETS : MOVED_VALUES;
	uint64_t largest = (ring_at(k->image, c->index)->end - k->rings[c->index].step) >> c->amount;
	uint64_t limit = 0xffffffffu; /* most that may be added */
	uint64_t bits = 0;           /* bits that may change with each lap */
	struct command moved;
	const char *problem;
	if (!is_offset && (next->opcode == OP_WITH) && (next->mode == PLACE_OFFSET)) {
		next = command_at(k->image, at + 2u);
	}
	moved = *next;
	if ((moved.opcode >= OPCODE_COUNT) ||
		((moved.mode == MODE_BULK) && (moved.opcode != OP_EXPECT)) ||
		(((opcodes >> moved.opcode) & 1u) == 0u)) {
		return TEXT("the next command has no such offset or value, or is bulk");
	}
	if (is_offset) {
		moved.offset += (uint32_t)largest;
		limit -= next->offset;
		k->rings[c->index].unit |= ((uint64_t)moved.width << c->amount) - 1u;
	} else {
		moved.value += largest;
		limit = UINT64_MAX - next->value;
	}
	problem = check_command(k, &moved, false);
	if ((problem == NULL) && is_offset) {
		const struct window *w = window_at(k->image, moved.window);
		(void)find_access(k, moved.window, bar_offset(w) + moved.offset, 0);
		if ((w->kind == KIND_CONFIG) || ((bar_offset(w) + next->offset) < k->found.first)) {
			problem = TEXT("the ring reaches other registers or memory, or configuration space");
		}
	} else if (problem == NULL) {
		if (moved.opcode == OP_EXPECT) {
			bits = moved.mask;
			if ((largest != 0u) && ((bits & (bits + 1u)) != 0u)) {
				problem = TEXT("the mask of the expect must be 2^n - 1, because its value moves");
			}
		} else if (moved.opcode != OP_RELOCATE) {
			bits = width_mask(moved.width);
		} else {
			/* No bit of an address changes with each lap. */
		}
	} else {
		/* The command is not valid at the largest position. */
	}
	if ((problem == NULL) && ((largest > limit) || ((c->mask & ~bits) != 0u))) {
		problem = TEXT("the moved number is too large, or mask has bits that it does not have");
	}
	return problem;
}

/* Returns the longest time of a valid command in us (section 6.3). The time of a Call does not
   include the called sequence. */
static uint64_t longest_command_us(const struct lmplay_image *image, const struct command *c) {
	uint64_t us = command_us(image, c);
	if (is_transfer(c)) {
		us += ((uint64_t)c->amount + c->width - 1u) / c->width;
	} else if (c->opcode != OP_WITH) {
		us += c->amount; /* amount is a deadline, a delay or 0 */
	} else {
		/* A shift takes no time. */
	}
	return us;
}

static const char *check_element(const struct lmplay_image *image, uint32_t field, uint32_t index,
	struct totals *sum) {
	const char *problem = NULL;
	switch (field) {
	case FIELD_DEVICES:
		problem = check_device(image, index);
		break;
	case FIELD_RULES:
		problem = check_rule(image, index);
		break;
	case FIELD_WINDOWS:
		problem = check_window(image, index, sum);
		break;
	case FIELD_SEQUENCES:
		problem = check_sequence(image, index, sum);
		break;
	case FIELD_SEGMENTS:
		problem = check_segment(image, index, sum);
		break;
	case FIELD_RINGS:
		problem = check_ring(image, index);
		break;
	default:
		problem = check_tensor(image, index, sum);
		break;
	}
	return problem;
}

/* Checks the elements of all tables except the commands. Compares the sums of their sizes with the
   reservation (step 4 of section 1.2). */
static const char *check_tables(struct checker *k) {
	static const uint8_t order[] = {
		FIELD_DEVICES, FIELD_RULES, FIELD_WINDOWS,
		FIELD_SEQUENCES, FIELD_SEGMENTS, FIELD_TENSORS, FIELD_RINGS};
	const struct lmplay_image *image = k->image;
	struct totals sum;
	clear_bytes(&sum, sizeof sum);
	for (uint32_t t = 0; t < sizeof order; t++) {
		set_check_place(k, vector_elements[order[t]]);
		for (uint32_t i = 0; i < element_count(image, order[t]); i++) {
			const char *problem = check_element(image, order[t], i, &sum);
			if (problem != NULL) {
				k->index = i;
				return problem;
			}
		}
	}
	set_check_place(k, "reservation");
	k->index = LMPLAY_NONE;
	if ((sum.host_bytes != image->host_bytes) || (sum.payload_bytes != image->payload_bytes) ||
		(sum.arena_bytes != image->arena_bytes)) {
		return TEXT("a total size differs from the sum over windows, segments or tensors");
	}
	return NULL;
}

/* Checks all commands, and computes the times of the sequences (step 5 of section 1.2). */
static const char *check_commands(struct checker *k) {
	const struct lmplay_image *image = k->image;
	set_check_place(k, "command");
	for (uint32_t s = 0; s < element_count(image, FIELD_SEQUENCES); s++) {
		uint32_t at = sequence_at(image, s)->first;
		uint32_t end = at + sequence_at(image, s)->count;
		forget_state(k);
		for (; at < end; at++) {
			const struct command *c = command_at(image, at);
			const char *problem = check_command(k, c, (at + 1u) == end);
			if ((problem == NULL) && (c->opcode == OP_WITH)) {
				problem = check_with(k, at);
			}
			if (problem != NULL) {
				k->index = at;
				return problem;
			}
			k->times[s] += longest_command_us(image, c);
			if (c->opcode == OP_CALL) {
				forget_state(k);
				k->times[s] |= TIME_CALLS;
				k->times[c->index] |= TIME_IS_CALLED;
			}
		}
	}
	set_check_place(k, "sequence");
	for (uint32_t s = 0; s < element_count(image, FIELD_SEQUENCES); s++) {
		if (((k->times[s] & TIME_CALLS) != 0u) && ((k->times[s] & TIME_IS_CALLED) != 0u)) {
			k->index = s;
			return TEXT("contains a call and is called itself, but calls do not nest");
		}
	}
	return NULL;
}

/* Checks what depends on all commands that use a ring. */
static const char *check_rings(struct checker *k) {
	uint32_t safe;
	set_check_place(k, "ring");
	for (uint32_t i = 0; i < element_count(k->image, FIELD_RINGS); i++) {
		if ((k->rings[i].steps & k->rings[i].unit) != 0u) {
			k->index = i;
			return TEXT("begin, first or an advance is no multiple of the width of a moved access");
		}
	}
	find_needed_rings(k->image, k->needed);
	safe = index_of_name(k->image, FIELD_SEQUENCES, sizeof(struct sequence), "safe", 4);
	if ((needed_rings_bytes(k->image) != 0u) && (safe != LMPLAY_NONE) &&
		(k->needed[safe] != 0u)) {
		set_check_place(k, "sequence");
		k->index = safe;
		return TEXT("it advances a ring before it resets it, but after a failure no ring is set");
	}
	return NULL;
}

/* Checks three things (step 6 of section 1.2): the payload ends where the file ends, the padding
   before the payload is zero, and the checksum of each segment is right. */
static const char *check_payload(struct checker *k) {
	const struct lmplay_image *image = k->image;
	uint64_t start = image->envelope_bytes;
	uint64_t padding = round_up(start, PAGE_BYTES) - start;
	if (element_count(image, FIELD_SEGMENTS) == 0u) {
		padding = 0;
	}
	start += padding;
	if ((start + image->payload_bytes) != image->file_bytes) {
		set_check_place(k, "payload");
		k->index = LMPLAY_NONE;
		return TEXT("it does not end where the file ends");
	}
	set_check_place(k, "segment");
	k->index = 0;
	if (!is_zero(&image->bytes[image->envelope_bytes], padding)) {
		return TEXT("padding bytes before the segment are not zero");
	}
	for (uint32_t i = 0; i < element_count(image, FIELD_SEGMENTS); i++) {
		const struct segment *s = segment_at(image, i);
		k->index = i;
		if (LMPLAY_CRC32C(0, &image->bytes[s->offset], s->size) != s->checksum) {
			return TEXT("wrong checksum: the file is damaged");
		}
	}
	return NULL;
}

/* Compares the longest time of each sequence with the limit. The time includes called sequences. */
static const char *check_times(struct checker *k) {
	const struct lmplay_image *image = k->image;
	set_check_place(k, "sequence");
	for (uint32_t s = 0; s < element_count(image, FIELD_SEQUENCES); s++) {
		uint64_t us = k->times[s] & TIME_MASK;
		uint32_t at = sequence_at(image, s)->first;
		uint32_t end = at + sequence_at(image, s)->count;
		for (; ((k->times[s] & TIME_CALLS) != 0u) && (at < end); at++) {
			const struct command *c = command_at(image, at);
			if (c->opcode == OP_CALL) {
				us = min_u64(us + (k->times[c->index] & TIME_MASK), WORST_CASE_MAX_US);
			}
		}
		if (us > image->limit_us) {
			k->index = s;
			return TEXT("it may take longer than the limit");
		}
	}
	return NULL;
}

enum lmplay_code lmplay_verify(struct lmplay_image *image, void *work, size_t work_size,
	uint64_t limit_us, struct lmplay_error *error) {
	struct checker k;
	const char *problem;
	if (!is_open(image) || (work == NULL) ||
		(((uintptr_t)work % TENSOR_ALIGN) != 0u) || (work_size < verify_memory_bytes(image))) {
		return set_error(error, LMPLAY_USAGE, "image", LMPLAY_NONE,
			TEXT("the image is not open, or the work memory is too small or misaligned"));
	}
	image->state = IMAGE_OPEN;
	image->limit_us = (limit_us != 0u) ? limit_us : LMPLAY_LIMIT_DEFAULT_US;
	clear_bytes(work, (size_t)verify_memory_bytes(image));
	clear_bytes(&k, sizeof k);
	k.image = image;
	k.times = (uint64_t *)work;
	k.rings = (struct checked_ring *)(void *)&k.times[element_count(image, FIELD_SEQUENCES)];
	k.needed = (uint32_t *)(void *)&k.rings[element_count(image, FIELD_RINGS)];
	k.pointed = &((uint8_t *)k.needed)[needed_rings_bytes(image)];
	k.loaded_from = &k.pointed[(element_count(image, FIELD_WINDOWS) + 7u) / 8u];
	k.found_window = LMPLAY_NONE;
	problem = check_tables(&k);
	if (problem == NULL) {
		problem = check_commands(&k);
	}
	if (problem == NULL) {
		problem = check_rings(&k);
	}
	if (problem == NULL) {
		problem = check_payload(&k);
	}
	if (problem == NULL) {
		problem = check_times(&k);
	}
	if (problem != NULL) {
		return set_error(error, LMPLAY_BAD_IMAGE, k.place, k.index, problem);
	}
	image->state = IMAGE_VERIFIED;
	return LMPLAY_OK;
}

#endif

/* ---- Loading ---- */

/* The state of lmplay_load. */
struct loader {
	struct lmplay_replay *replay;
	const struct lmplay_device *machine_devices; /* the devices that the caller has found */
	const char *place;  /* part of the image that is being loaded; "" if LMPLAY_TEXT is 0 */
	uint32_t index;     /* index of this part in its table */
	const char *reason; /* reason of the failure; "" if LMPLAY_TEXT is 0 */
};

static void set_place(struct loader *l, const char *place, uint32_t index) {
	if (LMPLAY_TEXT != 0) {
		l->place = place;
	}
	l->index = index;
}

/* Stores the reason for which the image cannot be loaded, and returns the code. */
static enum lmplay_code fail_load(struct loader *l, enum lmplay_code code, const char *reason) {
	if (LMPLAY_TEXT != 0) {
		l->reason = reason;
	}
	return code;
}

/* Calls the hook `map`, which sets *mapping, and checks the mapping. */
static enum lmplay_code map_range(struct loader *l, const struct lmplay_range *range,
	struct lmplay_mapping *mapping) {
	const struct lmplay_hooks *hooks = l->replay->hooks;
	enum lmplay_code code;
	clear_bytes(mapping, sizeof *mapping);
	code = hooks->map(hooks->context, range, mapping);
	if (code != LMPLAY_OK) {
		return fail_load(l, code,
			TEXT("the hook map failed for the window, or for its registers"));
	}
	if (mapping->by_hooks != 0u) {
		if ((hooks->load == NULL) || (hooks->store == NULL)) {
			return fail_load(l, LMPLAY_NO_DEVICE,
				TEXT("the hook map has set by_hooks, but the hook load or store is NULL"));
		}
	} else if ((mapping->address == 0u) ||
		((((uint64_t)mapping->address ^ range->offset) & 7u) != 0u)) {
		return fail_load(l, LMPLAY_NO_DEVICE,
			TEXT("the hook map has set an address of 0, or one that is misaligned"));
	} else {
		/* The player will access the range at mapping->address. */
	}
	return LMPLAY_OK;
}

/* Maps `size` bytes of a BAR of w's device. `window` is the index of w, or LMPLAY_NONE for
   registers that the player itself needs. */
static enum lmplay_code map_bar(struct loader *l, const struct window *w, uint32_t window,
	uint32_t bar, uint64_t offset, uint64_t size, struct lmplay_mapping *mapping) {
	uint64_t bar_bytes = l->machine_devices[w->device].bars[bar];
	struct lmplay_range range;
	clear_bytes(&range, sizeof range);
	range.kind = LMPLAY_RANGE_BAR;
	range.device = w->device;
	range.window = window;
	range.bar = bar;
	range.offset = offset;
	range.size = size;
	range.write_combining = (window != LMPLAY_NONE) ? w->flags : 0u;
	if ((offset > bar_bytes) || (size > (bar_bytes - offset))) {
		set_place(l, "device", w->device);
		return fail_load(l, LMPLAY_NO_DEVICE,
			TEXT("one of its BARs is too small for the registers of its board"));
	}
	return map_range(l, &range, mapping);
}

/* Returns the group of the TLB window with the number `slot`, or NULL if there is none. */
static const struct board_group *tlb_group_of(const struct board_tlb *tlb, uint32_t slot) {
	const struct board_group *found = NULL;
	for (uint32_t i = 0; (i < tlb->group_count) && (found == NULL); i++) {
		const struct board_group *g = &tlb->groups[i];
		if ((slot >= g->first) && (slot < ((uint32_t)g->first + g->count))) {
			found = g;
		}
	}
	return found;
}

/* Reports whether a TLB window is free, large enough, inside its BAR, and not a kernel driver's. */
static bool is_suitable_tlb_window(const struct lmplay_device_state *d,
	const struct lmplay_device *found, uint32_t slot, uint64_t size) {
	const struct board_group *g = tlb_group_of(d->board->tlb, slot);
	bool suitable = false;
	if (g != NULL) {
		uint32_t index = slot - g->first; /* index of the TLB window in its group */
		uint64_t end = g->offset + (((uint64_t)index + 1u) * g->size);
		suitable = (g->size >= size) && (index < ((uint32_t)g->count - g->kernel_owned)) &&
			(end <= found->bars[g->bar]) && !test_bit(d->slots_in_use, slot);
	}
	return suitable;
}

/* Returns the number of a suitable TLB window for a Tlb window of `size` bytes: the preferred
   number, if that TLB window is suitable, or else the lowest suitable number. Low numbers have
   small TLB windows. Returns LMPLAY_NONE if no TLB window is suitable. */
static uint32_t choose_tlb_window(const struct lmplay_device_state *d,
	const struct lmplay_device *found, uint32_t preferred, uint64_t size) {
	uint32_t slot = preferred;
	if (!is_suitable_tlb_window(d, found, slot, size)) {
		slot = 0;
		while ((tlb_group_of(d->board->tlb, slot) != NULL) &&
			!is_suitable_tlb_window(d, found, slot, size)) {
			slot++;
		}
	}
	return (tlb_group_of(d->board->tlb, slot) != NULL) ? slot : LMPLAY_NONE;
}

/* Chooses and maps a TLB window for the Tlb window w. For the first Tlb window of a device, also
   maps the registers that program the TLB windows. */
static enum lmplay_code map_tlb_window(struct loader *l, const struct window *w,
	struct lmplay_window_state *state) {
	struct lmplay_device_state *d = &l->replay->devices[w->device];
	const struct board_tlb *tlb = tlb_of(d->board);
	const struct board_group *g;
	uint32_t slot;
	if (tlb == NULL) {
		return fail_load(l, LMPLAY_WRONG_DEVICE,
			TEXT("its device has no TLB windows, or its board is not compiled in"));
	}
	if (d->registers_mapped == 0u) {
		const struct board_group *last = &tlb->groups[tlb->group_count - 1u];
		uint64_t size = ((uint64_t)last->first + last->count) * tlb->config_stride;
		enum lmplay_code code = map_bar(l, w, LMPLAY_NONE, tlb->config_bar,
			tlb->config_offset, size, &d->registers);
		if (code != LMPLAY_OK) {
			return code;
		}
		d->registers_mapped = 1;
	}
	slot = choose_tlb_window(d, &l->machine_devices[w->device], w->slot, w->size);
	if (slot == LMPLAY_NONE) {
		return fail_load(l, LMPLAY_NO_DEVICE,
			TEXT("no free TLB window is large enough; use fewer or smaller TLB windows"));
	}
	g = tlb_group_of(tlb, slot);
	set_bit(d->slots_in_use, slot);
	state->slot = (uint16_t)slot;
	state->group = g;
	state->range_bytes = g->size;
	return map_bar(l, w, l->index, g->bar, g->offset + ((uint64_t)(slot - g->first) * g->size),
		g->size, &state->mapping);
}

/* Returns the bus address that a Host window must have, or 0 if it may have any bus address. */
static uint64_t fixed_bus_address(const struct window *w) {
	return ((w->flags & FLAG_FIXED_BUS) != 0u) ? w->offset : 0u;
}

/* Reserves a region of outbound translation for a Host window, so that tiles can access its memory.
   The region begins at the fixed bus address of the window, or if it has none, one page after the
   end of the previous region. start_dma programs the registers later. */
static enum lmplay_code reserve_outbound_region(struct loader *l, const struct window *w,
	struct lmplay_window_state *state) {
	struct lmplay_device_state *d = &l->replay->devices[w->device];
	const struct board_outbound *o = d->board->outbound;
	uint64_t size = round_up(w->size, PAGE_BYTES);
	uint64_t offset = (d->outbound_end == 0u) ? 0u : (d->outbound_end + PAGE_BYTES);
	if (fixed_bus_address(w) != 0u) {
		offset = fixed_bus_address(w) - o->noc; /* an address below o->noc wraps to a huge offset */
	}
	if (d->outbound_mapped == 0u) {
		enum lmplay_code code = map_bar(l, w, LMPLAY_NONE, o->bar, o->offset,
			(uint64_t)o->regions * o->stride, &d->outbound);
		if (code != LMPLAY_OK) {
			return code;
		}
		d->outbound_mapped = 1;
	}
	if ((d->outbound_count == o->regions) || (offset < d->outbound_end) || (offset > o->last) ||
		((size - 1u) > (o->last - offset))) {
		return fail_load(l, LMPLAY_NO_DEVICE,
			TEXT("outbound translation has no free region or address; use fewer host windows"));
	}
	d->outbound_count++;
	d->outbound_end = offset + size;
	state->bus = o->noc + offset;
	return LMPLAY_OK;
}

static enum lmplay_code map_host_window(struct loader *l, const struct window *w,
	struct lmplay_window_state *state) {
	const struct lmplay_device_state *d = &l->replay->devices[w->device];
	bool is_translated = outbound_of(d->board) != NULL;
	struct lmplay_range range;
	enum lmplay_code code;
	clear_bytes(&range, sizeof range);
	range.kind = LMPLAY_RANGE_HOST;
	range.device = w->device;
	range.window = l->index;
	range.size = w->size;
	range.write_combining = w->flags & FLAG_WRITE_COMBINING;
	range.fixed_bus = is_translated ? 0u : fixed_bus_address(w);
	code = map_range(l, &range, &state->mapping);
	state->bus = state->mapping.bus;
	l->replay->masters |= (uint32_t)1 << w->device;
	if ((code == LMPLAY_OK) && is_translated) {
		code = reserve_outbound_region(l, w, state);
	} else if ((code == LMPLAY_OK) && (range.fixed_bus != 0u) &&
		(range.fixed_bus != state->bus)) {
		code = fail_load(l, LMPLAY_NO_DEVICE,
			TEXT("the hook map has not mapped it at its fixed bus address"));
	} else {
		/* Mapping failed, or the hook has chosen a permitted bus address. */
	}
	return code;
}

static enum lmplay_code map_window(struct loader *l, uint32_t index) {
	struct lmplay_replay *r = l->replay;
	const struct window *w = window_at(r->image, index);
	struct lmplay_window_state *state = &r->windows[index];
	enum lmplay_code code = LMPLAY_OK;
	set_place(l, "window", index);
	state->kind = w->kind;
	state->device = w->device;
	state->bar_offset_mod_8 = (uint8_t)(w->offset & 7u);
	state->range_bytes = w->size;
	state->mapping.by_hooks = 1; /* a Config window keeps 1: the hook load_config loads from it */
	if (w->kind == KIND_BAR) {
		code = map_bar(l, w, index, w->bar, w->offset, w->size, &state->mapping);
		state->bus = state->mapping.bus;
	} else if (w->kind == KIND_TLB) {
		code = map_tlb_window(l, w, state);
	} else if (w->kind == KIND_HOST) {
		code = map_host_window(l, w, state);
	} else if (r->hooks->load_config == NULL) {
		code = fail_load(l, LMPLAY_NO_DEVICE,
			TEXT("it is configuration space, but the hook load_config is NULL"));
	} else {
		/* A Config window needs no mapping: the hook load_config loads from it. */
	}
	return code;
}

/* The contents of the registers of a TLB window: the lower 64 bits, and the upper bits. */
struct tlb_words {
	uint64_t low;
	uint64_t high;
};

/* Sets *words to the register contents that make a TLB window of the group g select the given tiles
   and address. The TLB window begins at the address, rounded down to a multiple of its size.
   Returns false if the registers cannot express the tiles or the address. */
static bool encode_tlb_window(const struct board_tlb *tlb, const struct board_group *g,
	uint64_t tiles, uint64_t address, struct tlb_words *words) {
	uint32_t channel = tile_byte(tiles, 6);
	uint64_t values[TLB_FIELD_COUNT];
	uint32_t at = g->address_bits;
	bool ok;
	for (uint32_t i = 0; i < 5u; i++) {
		values[i] = tile_byte(tiles, i); /* x, y, x_start, y_start, NoC */
	}
	values[5] = tile_byte(tiles, 7);      /* multicast */
	values[6] = tile_byte(tiles, 5) - 1u; /* ordering: 1 to 3 in the image, 0 to 2 here */
	values[7] = 0;                        /* linked */
	values[8] = 0;                        /* 1: field 10 is the number of a virtual channel */
	values[9] = 0;                        /* unused */
	if ((tlb->fields[8] != 0u) && (channel != 0u)) {
		channel--;
		values[8] = 1;
	}
	values[10] = channel;
	words->low = address / g->size;
	words->high = 0;
	ok = (words->low >> g->address_bits) == 0u;
	for (uint32_t i = 0; i < TLB_FIELD_COUNT; i++) {
		ok = ok && ((values[i] >> tlb->fields[i]) == 0u);
		if (at < 64u) {
			words->low |= values[i] << at;
			words->high |= (at == 0u) ? 0u : (values[i] >> (64u - at));
		} else {
			words->high |= values[i] << (at - 64u);
		}
		at += tlb->fields[i];
	}
	return ok;
}

/* Checks that a Relocate can be executed. The device of the register must be able to access the
   window by DMA, and the bus address plus the addend must fit in the register. */
static enum lmplay_code check_relocate(struct loader *l, const struct command *c) {
	const struct lmplay_replay *r = l->replay;
	const struct lmplay_window_state *target = &r->windows[c->index];
	uint32_t device = r->windows[c->window].device;
	const struct board *board = r->devices[device].board;
	const struct board *owner = r->devices[target->device].board;
	bool is_host = target->kind == KIND_HOST;
	bool is_reachable;
	uint64_t sum = target->bus + c->value;
	if ((l->index != 0u) && (command_at(r->image, l->index - 1u)->opcode == OP_WITH)) {
		sum = target->bus + window_at(r->image, c->index)->size; /* the most that a ring adds */
	}
	if (outbound_of(board) != NULL) {
		is_reachable = is_host && (target->device == device);
	} else {
		is_reachable = !is_host || (outbound_of(owner) == NULL);
	}
	if (!is_reachable) {
		return fail_load(l, LMPLAY_USAGE,
			TEXT("a device with tiles reaches only its host windows, and does not share them"));
	}
	if (target->bus == 0u) {
		return fail_load(l, LMPLAY_NO_DEVICE,
			TEXT("the hook map has set no bus address of the window"));
	}
	if ((sum < target->bus) || ((sum & ~width_mask(c->width)) != 0u)) {
		return fail_load(l, LMPLAY_WRONG_DEVICE,
			TEXT("the bus address is too large for the width of the register"));
	}
	return LMPLAY_OK;
}

/* Checks that the device's TLB windows can select the tiles and the address of a Point. */
static enum lmplay_code check_point_encodable(struct loader *l, const struct command *c) {
	const struct lmplay_window_state *w = &l->replay->windows[c->window];
	const struct lmplay_device_state *d = &l->replay->devices[w->device];
	const struct board_tlb *tlb = d->board->tlb;
	struct tlb_words words;
	if (!encode_tlb_window(tlb, w->group, c->mask, c->value, &words)) {
		return fail_load(l, LMPLAY_REFUSED,
			TEXT("the device's TLB window cannot select these tiles"));
	}
	if ((LMPLAY_ACCESS_64 == 0) && (tlb->config_width == 8u) && (d->registers.by_hooks == 0u)) {
		return fail_load(l, LMPLAY_WRONG_DEVICE,
			TEXT("this processor cannot make accesses of 8 bytes"));
	}
	return LMPLAY_OK;
}

/* Checks that the devices and the processor of this machine can execute every command. */
static enum lmplay_code check_commands_for_machine(struct loader *l) {
	struct lmplay_replay *r = l->replay;
	enum lmplay_code code = LMPLAY_OK;
	for (uint32_t i = 0;
		(i < element_count(r->image, FIELD_COMMANDS)) && (code == LMPLAY_OK); i++) {
		const struct command *c = command_at(r->image, i);
		set_place(l, "command", i);
		if (c->opcode == OP_RELOCATE) {
			r->masters |= (uint32_t)1 << r->windows[c->window].device;
			code = check_relocate(l, c);
		} else if ((HAS_TILES != 0) && (c->opcode == OP_POINT)) {
			code = check_point_encodable(l, c);
		} else {
			/* Verification has checked all other commands. */
		}
		if ((LMPLAY_ACCESS_64 == 0) && (code == LMPLAY_OK) && (c->width == 8u) &&
			((c->mode != MODE_BULK) || (c->opcode == OP_EXPECT)) &&
			(r->windows[c->window].mapping.by_hooks == 0u)) {
					code = fail_load(l, LMPLAY_WRONG_DEVICE,
						TEXT("this processor cannot make accesses of 8 bytes"));
		}
	}
	return code;
}

/* Compares the devices that the caller has found with those that the image needs. */
static enum lmplay_code check_device_identities(struct loader *l) {
	const struct lmplay_image *image = l->replay->image;
	for (uint32_t i = 0; i < element_count(image, FIELD_DEVICES); i++) {
		const struct device *want = device_at(image, i);
		const struct lmplay_device *got = &l->machine_devices[i];
		set_place(l, "device", i);
		if ((want->vendor != got->vendor) || (want->device != got->device)) {
			return fail_load(l, LMPLAY_WRONG_DEVICE,
				TEXT("the image is for a device with other PCI ids"));
		}
		if ((want->subsystem != 0u) && (want->subsystem != got->subsystem)) {
			return fail_load(l, LMPLAY_WRONG_DEVICE,
				TEXT("the image is for a device with other subsystem ids"));
		}
		for (uint32_t bar = 0; bar < LMPLAY_BARS; bar++) {
			if (got->bars[bar] < want->bars[bar]) {
				return fail_load(l, LMPLAY_WRONG_DEVICE,
					TEXT("one of its BARs is smaller than the image needs"));
			}
		}
	}
	return LMPLAY_OK;
}

/* Enables the interrupt vectors that devices need, or disables them. */
static enum lmplay_code set_vectors(const struct lmplay_replay *r, bool on) {
	enum lmplay_code code = LMPLAY_OK;
	for (uint32_t i = 0; i < element_count(r->image, FIELD_DEVICES); i++) {
		const struct device *d = device_at(r->image, i);
		if ((d->vectors != 0u) && (code == LMPLAY_OK)) {
			code = LMPLAY_NO_DEVICE;
			if (r->hooks->set_vectors != NULL) {
				code = r->hooks->set_vectors(r->hooks->context, i, d->interrupts,
					on ? d->vectors : 0u);
			}
		}
	}
	return code;
}

/* ---- Accesses ---- */

static uint64_t load_from_address(uintptr_t address, uint32_t width) {
	uint64_t value;
	switch (width) {
	case 1:
		value = LMPLAY_LOAD8(address);
		break;
	case 2:
		value = LMPLAY_LOAD16(address);
		break;
	case 4:
		value = LMPLAY_LOAD32(address);
		break;
	default:
		value = LMPLAY_LOAD64(address);
		break;
	}
	return value;
}

static void store_to_address(uintptr_t address, uint32_t width, uint64_t value) {
	switch (width) {
	case 1:
		LMPLAY_STORE8(address, (uint8_t)value);
		break;
	case 2:
		LMPLAY_STORE16(address, (uint16_t)value);
		break;
	case 4:
		LMPLAY_STORE32(address, (uint32_t)value);
		break;
	default:
		LMPLAY_STORE64(address, value);
		break;
	}
}

/* Returns the code of a load or a query, or LMPLAY_BUS_FAULT if lmplay_fault was called. */
static enum lmplay_code code_or_fault(const struct lmplay_replay *r, enum lmplay_code code) {
	return ((code == LMPLAY_OK) && (r->fault != 0u)) ? LMPLAY_BUS_FAULT : code;
}

/* load_from_range and store_to_range access a mapped range at an offset. */
static enum lmplay_code load_from_range(const struct lmplay_replay *r,
	const struct lmplay_mapping *m, uint64_t offset, uint32_t width, uint64_t *value) {
	enum lmplay_code code = LMPLAY_OK;
	if (m->by_hooks != 0u) {
		code = r->hooks->load(r->hooks->context, m->address, offset, width, value);
	} else {
		*value = load_from_address(m->address + (uintptr_t)offset, width);
	}
	return code_or_fault(r, code);
}

static enum lmplay_code store_to_range(const struct lmplay_replay *r,
	const struct lmplay_mapping *m, uint64_t offset, uint32_t width, uint64_t value) {
	enum lmplay_code code = LMPLAY_OK;
	if (m->by_hooks != 0u) {
		code = r->hooks->store(r->hooks->context, m->address, offset, width, value);
	} else {
		store_to_address(m->address + (uintptr_t)offset, width, value);
	}
	return code;
}

/* load_from_window and store_to_window access a window at an offset. */
static enum lmplay_code load_from_window(const struct lmplay_replay *r,
	const struct lmplay_window_state *w, uint64_t offset, uint32_t width, uint64_t *value) {
	enum lmplay_code code;
	if (w->kind == KIND_CONFIG) {
		uint32_t loaded = 0;
		code = code_or_fault(r, r->hooks->load_config(r->hooks->context, w->device,
			(uint32_t)offset, width, &loaded));
		*value = loaded;
	} else {
		code = load_from_range(r, &w->mapping, w->offset_in_range + offset, width, value);
	}
	return code;
}

static enum lmplay_code store_to_window(const struct lmplay_replay *r,
	const struct lmplay_window_state *w, uint64_t offset, uint32_t width, uint64_t value) {
	return store_to_range(r, &w->mapping, w->offset_in_range + offset, width, value);
}

static void execute_barrier(const struct lmplay_replay *r) {
	if (r->hooks->barrier != NULL) {
		r->hooks->barrier(r->hooks->context);
	} else {
		LMPLAY_BARRIER();
	}
}

/* The player calls invalidate_cache before it loads from a window, and clean_cache after it has
   stored to a window. If the window is host memory, these functions call the hooks `invalidate` and
   `clean`. */
static void invalidate_cache(const struct lmplay_replay *r, const struct lmplay_window_state *w,
	uint64_t offset, uint64_t size) {
	if ((w->kind == KIND_HOST) && (w->mapping.by_hooks == 0u) && (r->hooks->invalidate != NULL)) {
		r->hooks->invalidate(r->hooks->context, w->mapping.address + (uintptr_t)offset, size);
	}
}

static void clean_cache(const struct lmplay_replay *r, const struct lmplay_window_state *w,
	uint64_t offset, uint64_t size) {
	if ((w->kind == KIND_HOST) && (w->mapping.by_hooks == 0u) && (r->hooks->clean != NULL)) {
		r->hooks->clean(r->hooks->context, w->mapping.address + (uintptr_t)offset, size);
	}
}

/* ---- Bus mastering ---- */

/* Returns the index of the next Host window of a device, or LMPLAY_NONE after the last one. First
   come the windows with fixed bus addresses, then all others, as in lmplay_load. The caller must
   set *position to 0 before the first call. */
static uint32_t next_host_window(const struct lmplay_replay *r, uint32_t device,
	uint32_t *position) {
	uint32_t count = element_count(r->image, FIELD_WINDOWS);
	while (*position < (2u * count)) {
		bool fixed_ones = *position < count;
		uint32_t i = fixed_ones ? *position : (*position - count);
		const struct window *w = window_at(r->image, i);
		(*position)++;
		if ((w->kind == KIND_HOST) && (w->device == device) &&
			((fixed_bus_address(w) != 0u) == fixed_ones)) {
			return i;
		}
	}
	return LMPLAY_NONE;
}

/* Stores the lower 32 bits of a value to one register of outbound translation. */
static enum lmplay_code store_region_register(const struct lmplay_replay *r,
	const struct lmplay_device_state *d, uint64_t offset, uint64_t value) {
	return store_to_range(r, &d->outbound, offset, 4, value & 0xffffffffu);
}

/* Programs one region of outbound translation, so that tiles access the memory of a Host window
   through the region. program_outbound_region disables the region first, and enables it after all
   other registers. If `window` is LMPLAY_NONE, the region remains disabled. */
static enum lmplay_code program_outbound_region(const struct lmplay_replay *r,
	const struct lmplay_device_state *d, uint32_t region, uint32_t window) {
	const struct board_outbound *o = d->board->outbound;
	uint64_t at = (uint64_t)region * o->stride;
	uint64_t values[5];
	uint64_t limit;
	enum lmplay_code code = store_region_register(r, d, at + 4u, 0); /* region_ctrl_2 */
	if (window == LMPLAY_NONE) {
		return code;
	}
	values[0] = r->windows[window].bus - o->noc;
	values[1] = values[0] >> 32;
	limit = values[0] + round_up(window_at(r->image, window)->size, PAGE_BYTES) - 1u;
	values[2] = limit;
	values[3] = r->windows[window].mapping.bus;
	values[4] = values[3] >> 32;
	for (uint32_t i = 0; (i < 5u) && (code == LMPLAY_OK); i++) {
		code = store_region_register(r, d, at + 8u + (4u * (uint64_t)i), values[i]);
	}
	if ((code == LMPLAY_OK) && (o->upper_limit != 0u)) {
		code = store_region_register(r, d, at + o->upper_limit, limit >> 32);
	}
	if (code == LMPLAY_OK) {
		code = store_region_register(r, d, at, o->type); /* region_ctrl_1 */
	}
	return (code == LMPLAY_OK) ? store_region_register(r, d, at + 4u, o->control) : code;
}

/* Programs all regions of a device. If `enable` is true, tiles can afterwards access the Host
   windows of the image, but no other host memory. If it is false, they access no host memory. */
static enum lmplay_code program_all_outbound_regions(const struct lmplay_replay *r, uint32_t device,
	bool enable) {
	const struct lmplay_device_state *d = &r->devices[device];
	enum lmplay_code code = LMPLAY_OK;
	uint32_t position = 0;
	if ((HAS_TILES == 0) || (d->outbound_mapped == 0u)) {
		return LMPLAY_OK;
	}
	for (uint32_t i = 0; (i < d->board->outbound->regions) && (code == LMPLAY_OK); i++) {
		uint32_t window = enable ? next_host_window(r, device, &position) : LMPLAY_NONE;
		code = program_outbound_region(r, d, i, window);
	}
	return code;
}

/* Disables bus mastering and then outbound translation of all devices in r->masters, and returns
   the first failure. */
static enum lmplay_code stop_dma(struct lmplay_replay *r) {
	const struct lmplay_hooks *hooks = r->hooks;
	enum lmplay_code first = LMPLAY_OK;
	for (uint32_t i = 0; i < LMPLAY_DEVICES_MAX; i++) {
		if (((r->masters >> i) & 1u) != 0u) {
			enum lmplay_code code = hooks->set_bus_master(hooks->context, i, 0);
			if (code != LMPLAY_DEVICE_GONE) { /* a missing device has no registers */
				enum lmplay_code outbound = program_all_outbound_regions(r, i, false);
				code = (code == LMPLAY_OK) ? outbound : code;
			}
			first = (first == LMPLAY_OK) ? code : first;
		}
	}
	r->masters = 0;
	return first;
}

/* Enables outbound translation and then bus mastering of all devices in r->masters. */
static enum lmplay_code start_dma(struct loader *l) {
	struct lmplay_replay *r = l->replay;
	uint32_t wanted = r->masters;
	enum lmplay_code code = LMPLAY_OK;
	r->masters = 0;
	if ((wanted != 0u) && (r->hooks->set_bus_master == NULL)) {
		set_place(l, "device", LMPLAY_NONE);
		return fail_load(l, LMPLAY_NO_DEVICE,
			TEXT("the image needs DMA, but the hook set_bus_master is NULL"));
	}
	for (uint32_t i = 0; (i < LMPLAY_DEVICES_MAX) && (code == LMPLAY_OK); i++) {
		if (((wanted >> i) & 1u) != 0u) {
			r->masters |= (uint32_t)1 << i;
			code = program_all_outbound_regions(r, i, true);
			if (code == LMPLAY_OK) {
				code = r->hooks->set_bus_master(r->hooks->context, i, 1);
			}
			if (code != LMPLAY_OK) {
				set_place(l, "device", i);
				code = fail_load(l, code, TEXT("enabling its bus mastering failed"));
			}
		}
	}
	if (code != LMPLAY_OK) {
		(void)stop_dma(r);
	}
	return code;
}

/* Bits of lmplay_replay.flags. */
#define REPLAY_LOADED 1u   /* lmplay_load has succeeded */
#define REPLAY_DISABLED 2u /* a run has failed */
#define REPLAY_IN_SAFE 4u  /* the run executes "safe" after a failure */

/* Clears the arena, and sets the pointers to the tables that follow the tensors. Also finds the
   sequence "safe", the rings that sequences need, the boards, and the number of inputs without
   data. */
static void lay_out_arena(struct lmplay_replay *r, uint8_t *arena) {
	const struct lmplay_image *image = r->image;
	clear_bytes(arena, (size_t)load_memory_bytes(image));
	r->arena = arena;
	r->safe_sequence = index_of_name(image, FIELD_SEQUENCES, sizeof(struct sequence), "safe", 4);
	r->devices = (struct lmplay_device_state *)(void *)&arena[image->arena_bytes];
	r->windows =
		(struct lmplay_window_state *)(void *)&r->devices[element_count(image, FIELD_DEVICES)];
	r->rings =
		(struct lmplay_ring_state *)(void *)&r->windows[element_count(image, FIELD_WINDOWS)];
	r->needed_rings = (uint32_t *)(void *)&r->rings[element_count(image, FIELD_RINGS)];
	r->inputs = &((uint8_t *)r->needed_rings)[needed_rings_bytes(image)];
	find_needed_rings(image, r->needed_rings);
	for (uint32_t i = 0; i < element_count(image, FIELD_DEVICES); i++) {
		r->devices[i].board = board_of(image, i);
	}
	for (uint32_t i = 0; i < element_count(image, FIELD_TENSORS); i++) {
		const struct tensor *t = tensor_at(image, i);
		if ((t->role == LMPLAY_INPUT) && (t->has_data == 0u)) {
			r->missing_inputs++;
		}
		if (t->role == LMPLAY_SCRATCH) {
			set_bit(r->inputs, i); /* copies use the arena */
		}
	}
}

/* Checks the arguments of lmplay_load, and clears the replay. */
static enum lmplay_code begin_load(struct loader *l, const struct lmplay_image *image,
	const struct lmplay_hooks *hooks, uint32_t device_count, const void *arena,
	size_t arena_size) {
	if ((l->replay == NULL) || !is_verified(image) || (l->machine_devices == NULL) ||
		(arena == NULL) || (hooks == NULL) || (hooks->map == NULL) || (hooks->query == NULL) ||
		(hooks->now == NULL)) {
		return fail_load(l, LMPLAY_USAGE,
			TEXT("the image is not verified, or an argument or a required hook is NULL"));
	}
	clear_bytes(l->replay, sizeof *l->replay);
	l->replay->image = image;
	l->replay->hooks = hooks;
	if (device_count != element_count(image, FIELD_DEVICES)) {
		set_place(l, "device", LMPLAY_NONE);
		return fail_load(l, LMPLAY_USAGE, TEXT("the image needs more or fewer devices"));
	}
	if ((((uintptr_t)arena % TENSOR_ALIGN) != 0u) || (arena_size < load_memory_bytes(image))) {
		return fail_load(l, LMPLAY_USAGE,
			TEXT("the arena is smaller than plan.arena_bytes, or not aligned to 64"));
	}
	return LMPLAY_OK;
}

/* Maps all windows. Windows with fixed bus addresses come first, so that no other window gets these
   addresses. */
static enum lmplay_code map_windows(struct loader *l) {
	const struct lmplay_image *image = l->replay->image;
	uint32_t count = element_count(image, FIELD_WINDOWS);
	enum lmplay_code code = LMPLAY_OK;
	for (uint32_t pass = 0; pass < 2u; pass++) {
		for (uint32_t i = 0; (i < count) && (code == LMPLAY_OK); i++) {
			bool is_fixed = fixed_bus_address(window_at(image, i)) != 0u;
			if (is_fixed == (pass == 0u)) {
				code = map_window(l, i);
			}
		}
	}
	return code;
}

enum lmplay_code lmplay_load(struct lmplay_replay *replay, const struct lmplay_image *image,
	const struct lmplay_hooks *hooks, const struct lmplay_device *devices, uint32_t device_count,
	void *arena, size_t arena_size, struct lmplay_error *error) {
	struct loader l;
	enum lmplay_code code;
	l.replay = replay;
	l.machine_devices = devices;
	l.place = "";
	l.reason = "";
	set_place(&l, "image", LMPLAY_NONE);
	code = begin_load(&l, image, hooks, device_count, arena, arena_size);
	if (code == LMPLAY_OK) {
		code = check_device_identities(&l);
	}
	if (code == LMPLAY_OK) {
		lay_out_arena(replay, arena);
		code = map_windows(&l);
	}
	if (code == LMPLAY_OK) {
		code = check_commands_for_machine(&l);
	}
	if (code == LMPLAY_OK) {
		set_place(&l, "devices", LMPLAY_NONE);
		l.reason = TEXT("the hook set_vectors has failed, or is missing");
		code = set_vectors(replay, true);
	}
	if (code == LMPLAY_OK) {
		code = start_dma(&l);
		if (code != LMPLAY_OK) {
			(void)set_vectors(replay, false);
		}
	}
	if (code != LMPLAY_OK) {
		return set_error(error, code, l.place, l.index, l.reason);
	}
	replay->flags = REPLAY_LOADED;
	return LMPLAY_OK;
}

enum lmplay_code lmplay_unload(struct lmplay_replay *replay) {
	enum lmplay_code code;
	if ((replay == NULL) || ((replay->flags & REPLAY_LOADED) == 0u)) {
		return LMPLAY_USAGE;
	}
	code = stop_dma(replay);
	if (code == LMPLAY_OK) {
		code = set_vectors(replay, false);
	}
	replay->flags = 0;
	replay->phase = 0;
	return code;
}

/* Returns the bytes of a tensor of the given role and sets *size, or returns NULL. */
static uint8_t *tensor_bytes(const struct lmplay_replay *r, uint32_t index, uint32_t role,
	uint64_t *size) {
	uint8_t *bytes = NULL;
	if ((r != NULL) && ((r->flags & REPLAY_LOADED) != 0u) &&
		(index < element_count(r->image, FIELD_TENSORS))) {
		const struct tensor *t = tensor_at(r->image, index);
		uint64_t offset = t->arena_offset;
		*size = t->size;
		if ((t->role == role) && lies_inside(offset, *size, r->image->arena_bytes)) {
			bytes = &r->arena[offset];
		}
	}
	return bytes;
}

void *lmplay_input(struct lmplay_replay *replay, uint32_t tensor) {
	uint64_t size;
	uint8_t *bytes = tensor_bytes(replay, tensor, LMPLAY_INPUT, &size);
	if ((bytes != NULL) && !test_bit(replay->inputs, tensor)) {
		const struct tensor *t = tensor_at(replay->image, tensor);
		uint64_t offset = t->data_offset;
		set_bit(replay->inputs, tensor);
		if (t->has_data == 0u) {
			replay->missing_inputs--;
		} else if (lies_inside(offset, size, replay->image->payload_bytes)) {
			copy_bytes(bytes, &payload_of(replay->image)[offset], (size_t)size);
		} else {
			bytes = NULL; /* the image has changed since it was verified */
		}
	}
	return bytes;
}

const void *lmplay_output(const struct lmplay_replay *replay, uint32_t tensor) {
	uint64_t size;
	return tensor_bytes(replay, tensor, LMPLAY_OUTPUT, &size);
}

/* ---- Runs ---- */

/* Values of lmplay_replay.phase: what the next step does. */
#define PHASE_NONE 0u       /* no run has begun */
#define PHASE_COMMANDS 1u   /* execute the next command */
#define PHASE_DELAY 2u      /* wait until a Delay is over */
#define PHASE_POLL 3u       /* wait until the next load of an Expect with a deadline is due */
#define PHASE_DMA_STATUS 4u /* wait for DMA_FAULT_DELAY_NS, then query the devices again */
#define PHASE_ENDED 5u      /* the run has ended */

/* Longest charged time (section 6.3), in us, between two looks at the clock: in runs with a
   limit_ns, and in all others. A look costs as much as about 50 stores. */
#define BUDGET_LIMITED_US 1000u
#define BUDGET_UNLIMITED_US 8000u

/* No command is charged more, without the accesses of a copy, fill or compare. */
#define COMMAND_MAX_US (20u + (QUERY_MAX_US * LMPLAY_DEVICES_MAX))

/* Time, in ns, between a failure and the second query of the devices. If a DMA transfer fails, the
   device sets an error bit only when the error response arrives: perhaps after the first query. */
#define DMA_FAULT_DELAY_NS 5000000u

/* Between loads, a poll without an interval waits 1/32 of the time that it has lasted so far. */
#define POLL_BACKOFF_DIVISOR 32u

/* Largest limit, in us, for the time of a run. image_limit_ns reduces a larger limit to this one,
   so that the present time plus the limit, in ns, does not overflow. */
#define LIMIT_MAX_US ((uint64_t)INT64_MAX / 2000u)

static uint64_t time_now(const struct lmplay_replay *r) {
	return r->hooks->now(r->hooks->context);
}

static uint64_t image_limit_ns(const struct lmplay_image *image) {
	return min_u64(image->limit_us, LIMIT_MAX_US) * 1000u;
}

static void begin_sequence(struct lmplay_replay *r, uint32_t sequence, uint64_t limit_ns) {
	uint64_t allowed = image_limit_ns(r->image);
	r->end_ns = time_now(r) + ((limit_ns != 0u) ? min_u64(limit_ns, allowed) : allowed);
	r->limit_ns = limit_ns;
	r->sequence = sequence;
	r->next = sequence_at(r->image, sequence)->first;
	r->return_to = 0;
	r->done_bytes = 0;
	r->polling = 0;
	r->fault = 0;
	r->late_fault = 0;
	r->stop = 0;
	r->phase = PHASE_COMMANDS;
}

/* Ends the current sequence with a code. After the first failure of a run, begins the sequence
   "safe", if the image has one. */
static void end_sequence(struct lmplay_replay *r, enum lmplay_code end) {
	struct lmplay_result *result = &r->result;
	enum lmplay_code code = end;
	r->phase = PHASE_ENDED;
	if ((code == LMPLAY_OK) && (r->late_fault != 0u)) {
		code = LMPLAY_BUS_FAULT;
	}
	if ((r->flags & REPLAY_IN_SAFE) != 0u) {
		result->safe = code;
	} else {
		result->code = code;
		if (code != LMPLAY_OK) {
			result->command = r->next;
			r->flags |= REPLAY_DISABLED;
			r->set_rings = 0;
			if ((r->safe_sequence != LMPLAY_NONE) && (r->safe_sequence != r->sequence)) {
				r->flags |= REPLAY_IN_SAFE;
				result->safe_ran = 1;
				begin_sequence(r, r->safe_sequence, 0);
			}
		}
	}
}

/* Returns LMPLAY_RUN_LATE if the run has exceeded its limit. */
static enum lmplay_code check_time(const struct lmplay_replay *r, uint64_t time) {
	return (time > r->end_ns) ? LMPLAY_RUN_LATE : LMPLAY_OK;
}

/* Returns the state of a device. Ignores faults of DMA and of bus mastering, unless `is_master`. */
static enum lmplay_code query_device(const struct lmplay_replay *r, uint32_t device,
	bool is_master) {
	enum lmplay_code code = r->hooks->query(r->hooks->context, device);
	if (!is_master && (code != LMPLAY_DEVICE_GONE)) {
		code = LMPLAY_OK;
	}
	return code_or_fault(r, code);
}

/* Returns the state of the first device that has a fault, or LMPLAY_OK. */
static enum lmplay_code query_devices(const struct lmplay_replay *r) {
	enum lmplay_code code = LMPLAY_OK;
	for (uint32_t i = 0; (i < element_count(r->image, FIELD_DEVICES)) && (code == LMPLAY_OK); i++) {
		code = query_device(r, i, ((r->masters >> i) & 1u) != 0u);
	}
	return code;
}

/* Returns LMPLAY_DEVICE_GONE if the device of a window is gone. Queries the device only if the
   loaded value has only ones, because loads from a device that is gone return such values. */
static enum lmplay_code check_device_present(const struct lmplay_replay *r,
	const struct lmplay_window_state *w, uint32_t width, uint64_t loaded) {
	return (loaded == width_mask(width)) ? query_device(r, w->device, false) : LMPLAY_OK;
}

/* Decides whether the run continues after an Expect or a Compare has failed. Returns LMPLAY_OK if
   the run continues, and otherwise the code with which the run fails. If the cause may be a DMA
   fault that the devices do not report yet, apply_policy cannot decide now. It then returns
   LMPLAY_BUSY, and a later step calls the hook `query` for each device again. */
static enum lmplay_code apply_policy(struct lmplay_replay *r, const struct command *c,
	enum lmplay_code failure) {
	bool is_ignored = (failure != LMPLAY_RUN_LATE) && (c->option == POLICY_IGNORE);
	enum lmplay_code code = query_devices(r);
	if (code == LMPLAY_OK) {
		if (is_ignored) {
			if ((r->flags & REPLAY_IN_SAFE) == 0u) {
				r->result.ignored++;
			}
		} else if (r->masters != 0u) {
			r->pending = failure;
			r->wake_ns = time_now(r) + DMA_FAULT_DELAY_NS;
			r->phase = PHASE_DMA_STATUS;
			code = LMPLAY_BUSY;
		} else {
			code = failure;
		}
	}
	return code;
}

/* Stores the value that a failed command loaded and the value that it expected. */
static void record_mismatch(struct lmplay_replay *r, uint64_t got, uint64_t want, uint64_t mask,
	uint64_t element) {
	if ((r->flags & REPLAY_IN_SAFE) == 0u) {
		r->result.got = got;
		r->result.want = want;
		r->result.mask = mask;
		r->result.element = element;
	}
}

/* Applies the policy of a failed Expect or Compare, and returns the result of apply_policy. If the
   run continues, clears the values that record_mismatch has stored. */
static enum lmplay_code handle_failed_command(struct lmplay_replay *r, const struct command *c,
	enum lmplay_code failure) {
	enum lmplay_code code = apply_policy(r, c, failure);
	if (code == LMPLAY_OK) {
		record_mismatch(r, 0, 0, 0, 0);
	}
	return code;
}

/* Loads the register of a Modify or an Expect, and checks that its device is present. */
static enum lmplay_code load_register(const struct lmplay_replay *r, const struct command *c,
	uint64_t *loaded) {
	const struct lmplay_window_state *w = &r->windows[c->window];
	enum lmplay_code code;
	*loaded = 0;
	invalidate_cache(r, w, c->offset, c->width);
	code = load_from_window(r, w, c->offset, c->width, loaded);
	return (code == LMPLAY_OK) ? check_device_present(r, w, c->width, *loaded) : code;
}

static enum lmplay_code store_register(const struct lmplay_replay *r, const struct command *c,
	uint64_t value) {
	const struct lmplay_window_state *w = &r->windows[c->window];
	enum lmplay_code code = store_to_window(r, w, c->offset, c->width, value);
	clean_cache(r, w, c->offset, c->width);
	return code;
}

static enum lmplay_code execute_modify(const struct lmplay_replay *r, const struct command *c) {
	uint64_t loaded;
	enum lmplay_code code = load_register(r, c, &loaded);
	if (code == LMPLAY_OK) {
		code = store_register(r, c, (loaded & ~c->mask) | c->value);
	}
	return code;
}

/* Begins the pause before the next load of a poll. A last load follows after the deadline, so that
   the poll succeeds if the device has set the value in time, even if the player is late. */
static void await_next_load(struct lmplay_replay *r, const struct command *c) {
	uint64_t time = time_now(r);
	uint64_t pause;
	uint64_t left;
	if (r->polling == 0u) {
		r->polling = 1;
		r->pending = LMPLAY_OK;
		r->began_ns = time;
		r->deadline_ns = time + ((uint64_t)c->amount * 1000u);
	}
	left = (r->deadline_ns > time) ? (r->deadline_ns - time) : 0u;
	if (c->index != 0u) {
		pause = (uint64_t)c->index * 1000u;
	} else {
		pause = (time - r->began_ns) / POLL_BACKOFF_DIVISOR;
	}
	r->wake_ns = time + min_u64(pause, left);
	r->phase = PHASE_POLL;
}

/* Reports whether a loaded value meets the condition of an Expect. */
static bool is_condition_met(const struct command *c, uint64_t loaded) {
	bool is_met;
	if (c->mode == CONDITION_REACHED) {
		is_met = ((loaded - c->value) & c->mask) <= (c->mask >> 1);
	} else {
		is_met = ((loaded & c->mask) == c->value) == (c->mode == CONDITION_EQUAL);
	}
	return is_met;
}

/* Makes one load of an Expect. Returns LMPLAY_BUSY if another load follows. */
static enum lmplay_code execute_expect(struct lmplay_replay *r, const struct command *c) {
	uint64_t loaded;
	enum lmplay_code failure = LMPLAY_EXPECT_FAILED;
	enum lmplay_code code = load_register(r, c, &loaded);
	if ((code == LMPLAY_OK) && !is_condition_met(c, loaded)) {
		if (r->polling != 0u) {
			failure = (enum lmplay_code)r->pending;
		}
		if ((c->amount != 0u) && ((r->polling == 0u) || (failure == LMPLAY_OK))) {
			await_next_load(r, c);
			return LMPLAY_BUSY;
		}
		record_mismatch(r, loaded, c->value, c->mask, 0);
		code = handle_failed_command(r, c, failure);
	}
	r->polling = 0;
	return code;
}

/* Finds the data of a CopyIn, CopyOut or Compare: `*offset` bytes after *bytes, in the arena or in
   the payload. Returns false if they reach outside: the image has changed since it was verified. */
static bool find_data(const struct lmplay_replay *r, const struct command *c,
	const uint8_t **bytes, uint64_t *offset) {
	uint64_t size = r->image->payload_bytes;
	uint64_t begin = 0;
	*bytes = payload_of(r->image);
	if ((c->index != 0u) || (c->opcode == OP_COPY_OUT)) {
		uint32_t index = (uint32_t)c->index - 1u;
		if (index >= element_count(r->image, FIELD_TENSORS)) {
			return false;
		}
		begin = tensor_at(r->image, index)->data_offset;
		if ((c->opcode == OP_COPY_OUT) || test_bit(r->inputs, index)) {
			*bytes = r->arena;
			size = r->image->arena_bytes;
			begin = tensor_at(r->image, index)->arena_offset;
		}
	}
	*offset = begin + c->value;
	return (begin <= size) && (c->value <= size) && ((*offset + c->amount) <= size);
}

/* Returns the number in `width` bytes of memory. The address need not be aligned. */
static uint64_t read_memory(const uint8_t *bytes, uint32_t width) {
	uint64_t value = 0;
	if (width == 8u) {
		copy_bytes(&value, bytes, 8);
	} else if (width == 4u) {
		copy_bytes(&value, bytes, 4);
	} else if (width == 2u) {
		copy_bytes(&value, bytes, 2);
	} else {
		value = bytes[0];
	}
	return value;
}

static void write_memory(uint8_t *bytes, uint32_t width, uint64_t value) {
	if (width == 8u) {
		copy_bytes(bytes, &value, 8);
	} else if (width == 4u) {
		copy_bytes(bytes, &value, 4);
	} else if (width == 2u) {
		copy_bytes(bytes, &value, 2);
	} else {
		bytes[0] = (uint8_t)value;
	}
}

/* If the last access of a CopyOut loaded only ones, checks whether the device is still present. */
static enum lmplay_code check_present_after_copy(const struct lmplay_replay *r,
	const struct command *c, const uint8_t *copied) {
	const struct lmplay_window_state *w = &r->windows[c->window];
	uint32_t first = (c->amount > c->width) ? (c->amount - c->width) : 0u;
	bool all_ones = true;
	for (uint32_t i = first; i < c->amount; i++) {
		all_ones = all_ones && (copied[i] == 0xffu);
	}
	return all_ones ? check_device_present(r, w, c->width, width_mask(c->width)) : LMPLAY_OK;
}

static enum lmplay_code compare_element(struct lmplay_replay *r, const struct command *c,
	uint64_t got, uint64_t want, uint64_t at) {
	enum lmplay_code code = LMPLAY_OK;
	if (got != want) {
		record_mismatch(r, got, want, width_mask(c->width), at / c->width);
		code = handle_failed_command(r, c, LMPLAY_COMPARE_FAILED);
		if (code == LMPLAY_OK) {
			r->done_bytes = c->amount; /* an ignored difference: skip the rest of the range */
		}
	}
	return code;
}

/* Returns the width of the next access of a copy with `left` bytes left. In the mode Bulk, this is
   the largest width for which the access is aligned and does not exceed these bytes. In the other
   modes, it is the width of the command. */
static uint32_t access_width(const struct lmplay_window_state *w, const struct command *c,
	uint64_t at, uint64_t left) {
	uint32_t width = c->width;
	uint64_t address = 0;
	if ((c->mode == MODE_BULK) && (c->opcode != OP_COMPARE)) {
		address = w->bar_offset_mod_8 + at;
		if (w->mapping.by_hooks == 0u) {
			address = (uint64_t)w->mapping.address + w->offset_in_range + at;
			width = (LMPLAY_ACCESS_64 != 0) ? 8u : 4u;
		}
	}
	while ((width > left) || ((address % width) != 0u)) {
		width /= 2u;
	}
	return width;
}

/* Executes one slice of a CopyIn, Fill, CopyOut or Compare. Returns LMPLAY_BUSY if further slices
   follow. */
static enum lmplay_code execute_transfer(struct lmplay_replay *r, const struct command *c) {
	const struct lmplay_window_state *w = &r->windows[c->window];
	const uint8_t *data = NULL;
	uint64_t data_offset = 0;
	uint64_t begin = r->done_bytes;
	uint64_t end = min_u64(begin + LMPLAY_SLICE, c->amount);
	bool is_fixed = (c->mode == MODE_FIXED);
	bool is_load = (c->opcode >= OP_COPY_OUT); /* CopyOut or Compare */
	uint64_t first = c->offset + (is_fixed ? 0u : begin); /* offset in the window */
	uint64_t size = is_fixed ? c->width : (end - begin);
	enum lmplay_code code = LMPLAY_OK;
	if ((c->opcode != OP_FILL) && !find_data(r, c, &data, &data_offset)) {
		return LMPLAY_INTERNAL;
	}
	if (is_load) {
		invalidate_cache(r, w, first, size);
	}
	while ((r->done_bytes < end) && (code == LMPLAY_OK) && (r->left_us != 0u)) {
		uint64_t done = r->done_bytes;
		uint64_t at = c->offset + (is_fixed ? 0u : done);
		uint32_t width = access_width(w, c, at, c->amount - done);
		uint64_t value = c->value;
		r->done_bytes = done + width;
		r->left_us--;
		if (c->opcode == OP_FILL) {
			code = store_to_window(r, w, at, width, value);
		} else if (c->opcode == OP_COPY_IN) {
			code = store_to_window(r, w, at, width, read_memory(&data[data_offset + done], width));
		} else {
			code = load_from_window(r, w, at, width, &value);
			if (code != LMPLAY_OK) {
				/* Nothing was loaded. */
			} else if (c->opcode == OP_COPY_OUT) {
				write_memory(&r->arena[data_offset + done], width, value);
			} else {
				code = compare_element(r, c, value, read_memory(&data[data_offset + done], width),
					done);
			}
		}
	}
	if (!is_load) {
		clean_cache(r, w, first, size);
	}
	if ((code == LMPLAY_OK) && (r->done_bytes < c->amount)) {
		return LMPLAY_BUSY;
	}
	if ((code == LMPLAY_OK) && (c->opcode == OP_COPY_OUT)) {
		code = check_present_after_copy(r, c, &data[data_offset]);
	}
	r->done_bytes = 0;
	return code;
}

/* Executes a Point: stores to the registers of the TLB window. Then loads the last of these
   registers, because this load returns only after the stores have taken effect. */
static enum lmplay_code execute_point(struct lmplay_replay *r, const struct command *c) {
	struct lmplay_window_state *w = &r->windows[c->window];
	const struct lmplay_device_state *d = &r->devices[w->device];
	const struct board_tlb *tlb = d->board->tlb;
	uint64_t at = (uint64_t)w->slot * tlb->config_stride;
	uint32_t width = tlb->config_width;
	uint64_t values[3]; /* of three registers of 4 bytes, or only values[0] for one of 8 bytes */
	uint32_t registers = 3;
	struct tlb_words words;
	uint64_t loaded = 0;
	enum lmplay_code code = LMPLAY_OK;
	(void)encode_tlb_window(tlb, w->group, c->mask, c->value, &words);
	values[0] = words.low;
	values[1] = words.low >> 32;
	values[2] = words.high;
	if (width == 8u) {
		registers = 1;
	}
	execute_barrier(r);
	for (uint32_t i = 0; (i < registers) && (code == LMPLAY_OK); i++) {
		code = store_to_range(r, &d->registers, at + ((uint64_t)i * width), width,
			values[i] & width_mask(width));
	}
	if (code == LMPLAY_OK) {
		at += ((uint64_t)registers - 1u) * width;
		code = load_from_range(r, &d->registers, at, width, &loaded);
	}
	execute_barrier(r);
	w->offset_in_range = c->value & (w->group->size - 1u);
	return code;
}

/* Begins a Delay: the following steps wait until the time is over. */
static enum lmplay_code begin_delay(struct lmplay_replay *r, const struct command *c) {
	uint64_t time = time_now(r);
	enum lmplay_code code = check_time(r, time);
	if (code == LMPLAY_OK) {
		r->wake_ns = time + ((uint64_t)c->amount * 1000u);
		r->phase = PHASE_DELAY;
		code = LMPLAY_BUSY;
	}
	return code;
}

static void execute_end(struct lmplay_replay *r) {
	if (r->return_to != 0u) {
		r->next = r->return_to;
		r->return_to = 0;
	} else {
		end_sequence(r, (r->limit_ns != 0u) ? check_time(r, time_now(r)) : LMPLAY_OK);
	}
}

static void execute_ring_command(struct lmplay_replay *r, const struct command *c) {
	const struct ring *ring = ring_at(r->image, c->index);
	struct lmplay_ring_state *state = &r->rings[c->index];
	uint32_t bit = (uint32_t)1 << c->index;
	if (c->opcode == OP_RESET) {
		state->position = ring->first;
		r->set_rings |= bit;
		r->odd_laps &= ~bit;
	} else {
		if (c->value > (ring->end - state->position)) {
			state->position = ring->begin;
			r->odd_laps ^= bit;
		}
		state->value = state->position;
		state->position += c->value;
	}
}

/* Changes a copy of the next command as the Withs before it say: at most one for its value, and one
   for its offset. */
static void move_command(const struct lmplay_replay *r, struct command *c) {
	uint32_t at = r->next;
	for (uint32_t i = 0; (i < 2u) && (at != 0u); i++) {
		const struct command *with;
		at--;
		with = command_at(r->image, at);
		if ((with->opcode != OP_WITH) || (with->index >= element_count(r->image, FIELD_RINGS))) {
			break;
		}
		uint64_t moved = r->rings[with->index].value >> (with->amount & 63u);
		if (with->mode == PLACE_OFFSET) {
			c->offset += (uint32_t)moved;
		} else {
			c->value += moved;
			if (((r->odd_laps >> with->index) & 1u) != 0u) {
				c->value ^= with->mask;
			}
		}
	}
}

/* Executes one command, or a part of it. Returns LMPLAY_OK if the command is complete, LMPLAY_BUSY
   if it is not complete yet, or the code with which the sequence fails. */
static enum lmplay_code execute_command(struct lmplay_replay *r, const struct command *c) {
	enum lmplay_code code = LMPLAY_OK;
	switch (c->opcode) {
	case OP_WRITE:
		code = store_register(r, c, c->value);
		break;
	case OP_MODIFY:
		code = execute_modify(r, c);
		break;
	case OP_RELOCATE:
		code = store_register(r, c, r->windows[c->index].bus + c->value);
		break;
	case OP_COPY_IN:
	case OP_FILL:
	case OP_COPY_OUT:
	case OP_COMPARE:
		code = execute_transfer(r, c);
		break;
	case OP_EXPECT:
		code = execute_expect(r, c);
		break;
	case OP_POINT:
		code = (HAS_TILES != 0) ? execute_point(r, c) : LMPLAY_INTERNAL;
		break;
	case OP_FENCE:
		execute_barrier(r);
		break;
	case OP_DELAY:
		code = begin_delay(r, c);
		break;
	case OP_ADVANCE:
	case OP_RESET:
		execute_ring_command(r, c);
		break;
	case OP_WITH:
		break; /* move_command reads it */
	case OP_END:
		execute_end(r);
		code = LMPLAY_BUSY; /* the next command is known, or the sequence has ended */
		break;
	case OP_CALL:
		r->return_to = r->next + 1u;
		r->next = sequence_at(r->image, c->index)->first - 1u; /* advance_to_next_command adds 1 */
		break;
	default:
		code = LMPLAY_INTERNAL;
		break;
	}
	return code;
}

/* Reports whether a command stays inside the player's tables and the mapped ranges. Verification
   has checked that, but the image may have changed since. */
static bool is_in_bounds(const struct lmplay_replay *r, const struct command *c) {
	const struct lmplay_window_state *w = &r->windows[c->window];
	uint64_t size = c->width;
	bool ok = (c->opcode < OPCODE_COUNT) && (c->window < element_count(r->image, FIELD_WINDOWS));
	if (ok && (c->opcode == OP_POINT)) {
		ok = w->group != NULL;
	} else if (ok && (c->opcode < OP_POINT)) {
		if (is_transfer(c)) {
			ok = c->amount > r->done_bytes;
			size = (c->mode == MODE_FIXED) ? size : c->amount;
		}
		ok = ok && (c->width <= 8u) && (((0x116u >> c->width) & 1u) != 0u) && /* 1, 2, 4 or 8 */
			((c->opcode > OP_FILL) || (w->kind != KIND_CONFIG)) &&
			lies_inside(w->offset_in_range + c->offset, size, w->range_bytes);
	} else {
		/* The command accesses no window. */
		ok = ok && ((c->opcode < OP_ADVANCE) || (c->index < element_count(r->image, FIELD_RINGS)));
	}
	return ok;
}

/* Returns the code with which lmplay_stop or lmplay_fault ends the run. Neither ends "safe": a
   fault from before this step is only noted, so that a load or a query finds only its own. */
static enum lmplay_code check_calls(struct lmplay_replay *r) {
	enum lmplay_code code = LMPLAY_OK;
	if (r->sequence == r->safe_sequence) {
		if (r->fault != 0u) {
			r->late_fault = 1;
			r->fault = 0;
		}
	} else if (r->fault != 0u) {
		code = LMPLAY_BUS_FAULT;
	} else if (r->stop != 0u) {
		code = LMPLAY_RUN_LATE;
	} else {
		/* Neither was called. */
	}
	return code;
}

static void advance_to_next_command(struct lmplay_replay *r) {
	r->next++;
	r->phase = PHASE_COMMANDS;
}

/* Executes the next command, or its next part. */
static void step_command(struct lmplay_replay *r) {
	enum lmplay_code code = LMPLAY_OK;
	if (r->left_us < COMMAND_MAX_US) {
		r->left_us = BUDGET_UNLIMITED_US;
		if (r->limit_ns != 0u) {
			r->left_us = BUDGET_LIMITED_US;
		}
		if (r->polling == 0u) { /* a poll looks at the clock in its pauses */
			code = check_time(r, time_now(r));
		}
	}
	if (code == LMPLAY_OK) {
		code = check_calls(r); /* after the hook `now`, whose faults are not those of a load */
	}
	if ((code == LMPLAY_OK) && (r->next >= element_count(r->image, FIELD_COMMANDS))) {
		code = LMPLAY_INTERNAL;
	}
	if (code == LMPLAY_OK) {
		struct command c = *command_at(r->image, r->next); /* copied: what is checked runs */
		code = LMPLAY_INTERNAL;
		if (element_count(r->image, FIELD_RINGS) != 0u) {
			move_command(r, &c);
		}
		if (is_in_bounds(r, &c)) {
			r->left_us -= command_us(r->image, &c);
			code = execute_command(r, &c);
		}
	}
	if (code == LMPLAY_OK) {
		advance_to_next_command(r);
	} else if (code != LMPLAY_BUSY) {
		end_sequence(r, code);
	} else {
		/* The command continues in the next step, or was an End. */
	}
}

/* Ends the current wait if its time is over. Returns false if the run must wait longer. */
static bool end_wait_if_over(struct lmplay_replay *r) {
	uint64_t time = time_now(r);
	bool is_over = (time >= r->wake_ns);
	enum lmplay_code late = check_calls(r);
	if ((r->phase == PHASE_POLL) && (r->interrupted != 0u)) {
		r->interrupted = 0; /* before the load, so that an interrupt during it counts, too */
		is_over = true;
	}
	if (late == LMPLAY_OK) {
		late = check_time(r, time);
	}
	if (r->phase == PHASE_DMA_STATUS) {
		if (is_over) {
			enum lmplay_code code = query_devices(r);
			end_sequence(r, (code != LMPLAY_OK) ? code : (enum lmplay_code)r->pending);
		}
	} else if (r->phase == PHASE_DELAY) {
		is_over = is_over || (late != LMPLAY_OK);
		if (late != LMPLAY_OK) {
			end_sequence(r, late);
		} else if (is_over) {
			advance_to_next_command(r);
		} else {
			/* The run must wait longer. */
		}
	} else {
		if (late != LMPLAY_OK) {
			/* Load once more: if the value is not as expected, the run fails with this code. */
			r->pending = late;
			is_over = true;
		} else if (is_over && (time >= r->deadline_ns)) {
			r->pending = LMPLAY_DEADLINE_PASSED;
		} else {
			/* The deadline has not passed: more loads may follow. */
		}
		if (is_over) {
			r->phase = PHASE_COMMANDS;
		}
	}
	return is_over;
}

enum lmplay_code lmplay_start(struct lmplay_replay *replay, uint32_t sequence, uint64_t limit_ns) {
	enum lmplay_code code = LMPLAY_OK;
	if ((replay != NULL) && (replay->phase != PHASE_NONE) && (replay->phase != PHASE_ENDED)) {
		replay->set_rings = 0; /* the abandoned run may have moved them */
	}
	if ((replay == NULL) || (replay->image == NULL)) {
		code = LMPLAY_USAGE;
	} else if (replay->flags != REPLAY_LOADED) {
		code = LMPLAY_DISABLED;
	} else if (sequence >= element_count(replay->image, FIELD_SEQUENCES)) {
		code = LMPLAY_USAGE;
	} else if (replay->missing_inputs != 0u) {
		code = LMPLAY_INPUT_MISSING;
	} else if ((element_count(replay->image, FIELD_RINGS) != 0u) &&
		((replay->needed_rings[sequence] & ~replay->set_rings) != 0u)) {
		code = LMPLAY_RING_UNSET;
	} else {
		clear_bytes(&replay->result, sizeof replay->result);
		begin_sequence(replay, sequence, limit_ns);
	}
	return code;
}

enum lmplay_code lmplay_step(struct lmplay_replay *replay, uint32_t budget) {
	bool is_waiting = false;
	uint32_t left = budget;
	if ((replay == NULL) || (budget == 0u) || (replay->phase == PHASE_NONE)) {
		return LMPLAY_USAGE;
	}
	replay->left_us = 0; /* look at the clock first */
	while ((left > 0u) && !is_waiting && (replay->phase != PHASE_ENDED)) {
		if (replay->phase == PHASE_COMMANDS) {
			step_command(replay);
			left--;
		} else {
			is_waiting = !end_wait_if_over(replay);
		}
	}
	return (replay->phase == PHASE_ENDED) ? replay->result.code : LMPLAY_BUSY;
}

uint64_t lmplay_next_ns(const struct lmplay_replay *replay) {
	uint64_t next = 0;
	if (replay == NULL) {
		/* There is no run. */
	} else if ((replay->phase == PHASE_POLL) && (replay->interrupted != 0u)) {
		/* The next load is due. */
	} else if ((replay->phase == PHASE_DELAY) || (replay->phase == PHASE_POLL)) {
		next = min_u64(replay->wake_ns, replay->end_ns + 1u);
	} else if (replay->phase == PHASE_DMA_STATUS) {
		next = replay->wake_ns;
	} else {
		/* There is no wait: the next step executes a command, or the run has ended. */
	}
	return next;
}

void lmplay_result(const struct lmplay_replay *replay, struct lmplay_result *result) {
	if (result != NULL) {
		clear_bytes(result, sizeof *result);
		result->code = LMPLAY_USAGE;
		if (replay != NULL) {
			*result = replay->result;
			result->code = (replay->phase == PHASE_ENDED) ? result->code : LMPLAY_BUSY;
		}
	}
}

#define WAIT_MAX_NS 10000000u /* longest time, in ns, for one call of the hook `wait` */

/* Calls the hook `wait`, if there is one, until the next step has something to do. */
static void wait_for_step(const struct lmplay_replay *r) {
	uint64_t next = lmplay_next_ns(r);
	if ((r->hooks->wait != NULL) && (next != 0u)) {
		uint64_t time = time_now(r);
		if (next > time) {
			r->hooks->wait(r->hooks->context, min_u64(next - time, WAIT_MAX_NS));
		}
	}
}

enum lmplay_code lmplay_run(struct lmplay_replay *replay, uint32_t sequence, uint64_t limit_ns,
	struct lmplay_result *result) {
	enum lmplay_code code = lmplay_start(replay, sequence, limit_ns);
	if (code != LMPLAY_OK) {
		if (result != NULL) {
			clear_bytes(result, sizeof *result);
			result->code = code;
			result->command = LMPLAY_NONE;
		}
		return code;
	}
	do {
		code = lmplay_step(replay, UINT32_MAX);
		if (code == LMPLAY_BUSY) {
			wait_for_step(replay);
		}
	} while (code == LMPLAY_BUSY);
	if (result != NULL) {
		*result = replay->result;
	}
	return code;
}

void lmplay_fault(struct lmplay_replay *replay) {
	if (replay != NULL) {
		replay->fault = 1;
	}
}

void lmplay_interrupt(struct lmplay_replay *replay) {
	if (replay != NULL) {
		replay->interrupted = 1;
	}
}

void lmplay_stop(struct lmplay_replay *replay) {
	if (replay != NULL) {
		replay->stop = 1;
	}
}

int lmplay_exit_status(enum lmplay_code code) {
	/* Exit statuses in the order of the codes; 70 for numbers that are not codes. */
	static const uint8_t statuses[22] = {0, 64, 65, 66, 69, 70, 71, 71, 74, 75, 76, 76, 77, 78, 70,
		65, 64, 70, 75, 69, 71, 64};
	return ((uint32_t)code < sizeof statuses) ? (int)statuses[code] : 70;
}
