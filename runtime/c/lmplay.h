/*
 * lmplay: a freestanding player of Light Metal images (.lmb files), for firmware without an
 * operating system. One header and one C file, C99.
 *
 * An image is a file that contains data (the payload), and commands for PCIe devices, such as
 * stores to registers. A sequence is a list of commands with a name; lmplay_run executes one
 * sequence. A tensor is an array of numbers: the commands copy an input tensor to a device, and
 * copy data from a device to an output tensor. fbs/FORMAT.md specifies every byte of an image and
 * every access of a run.
 *
 *     struct lmplay_image image; struct lmplay_replay replay; struct lmplay_error error;
 *     struct lmplay_plan plan; struct lmplay_result result; uint32_t sequence, in, out;
 *
 *     lmplay_open(&image, bytes, size, &error)            finds the parts of the image
 *     lmplay_plan(&image, &plan)                          computes the memory that is needed
 *     lmplay_verify(&image, arena, arena_size, 0, &error) checks every byte
 *     lmplay_load(&replay, &image, &hooks, devices, count, arena, arena_size, &error)
 *                                                         maps the windows
 *     lmplay_find_sequence(&image, "compute", 7, &sequence)
 *     lmplay_find_tensor(&image, "n", 1, &in), lmplay_find_tensor(&image, "result", 6, &out)
 *     lmplay_input(&replay, in), lmplay_output(&replay, out)    return addresses of tensors
 *     lmplay_run(&replay, sequence, 0, &result)           repeat: write input, run, read output
 *     lmplay_unload(&replay)                              stops the DMA of the devices
 *
 * WHAT IT NEEDS. The player includes no header of a C library, and of its functions calls only
 * memcpy, memset and memcmp. On 32 bits, the compiler's library divides (README.md). The player
 * allocates no memory, calls no function recursively, and has no writable global data. All state is
 * in structs and in an arena that the caller provides. The processor must be little endian.
 *
 * THE IMAGE. The bytes of the image may lie in read-only flash, because the player stores nothing
 * to them. Their address must be a multiple of 8. They must not change from lmplay_open until after
 * the last call for the image: lmplay_load and runs do not verify them again. If they change while
 * a run executes them, the run may make any access to the mapped windows, and read any memory. It
 * stores only to these windows, to the arena and to its structs.
 *
 * HOOKS. A port fills in struct lmplay_hooks: functions that map a window, read a clock and so on.
 * Hooks must not call functions of this header for the same replay, except lmplay_fault and
 * lmplay_stop. PORTING.md in this directory describes how to write a port.
 *
 * CALLS. Calls for one replay must not overlap. There are two exceptions: an interrupt or a handler
 * of a processor exception may call lmplay_fault and lmplay_stop at any time. Different replays may
 * run at the same time on different processors if they use different devices. Two replays may share
 * an image.
 *
 * TIME. Times are in microseconds (us) in images and in nanoseconds (ns) at the hooks.
 *
 * WHAT IT DOES NOT DO. The player checks that a signature (section 8 of FORMAT.md) is undamaged,
 * but not that it is authentic. The player does not handle processor exceptions: if a load or store
 * of a mapped window raises one, the port must handle it and call lmplay_fault. runtime/SAFETY.md
 * says which of its statements apply to this player.
 */
#ifndef LMPLAY_H
#define LMPLAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * CONFIGURATION. A port may define LMPLAY_CONFIG as the name of a header, in quotes. That header
 * may define the macros below. lmplay.c has a default for each.
 *
 *   LMPLAY_VERIFY        0: leave out lmplay_verify. lmplay_open then checks only the preamble.
 *                        Use this only if `lm verify` or a boot loader verifies the images. With a
 *                        damaged image, the behaviour of the player is then undefined.
 *   LMPLAY_TEXT          0: leave out the texts of struct lmplay_error: place and reason are "".
 *   LMPLAY_BOARD_name    0: leave out the rules and layouts of one board: EDU, IVSHMEM, NVME,
 *                        WORMHOLE or BLACKHOLE. The player still recognizes the PCI ids of the
 *                        board, and rejects every access to the BARs of such a device.
 *   LMPLAY_ACCESS_64     0: the processor cannot load or store 8 bytes of a device in one access.
 *                        lmplay_load then rejects an image with an access of 8 bytes to a mapped
 *                        window; the hooks `load` and `store` may still make such accesses. The
 *                        default is 1 if pointers have 64 bits.
 *   LMPLAY_LOAD8(address), LMPLAY_LOAD16, LMPLAY_LOAD32, LMPLAY_LOAD64
 *   LMPLAY_STORE8(address, value), LMPLAY_STORE16, LMPLAY_STORE32, LMPLAY_STORE64
 *                        one volatile access of exactly this width to a device, at an address of
 *                        type uintptr_t. The value of a load, and `value`, are of type uintN_t.
 *   LMPLAY_BARRIER()     full barrier, if the hook `barrier` is NULL; the default knows arm (not
 *                        Thumb-1, except armv6-M), arm64, RISC-V and x86
 *   LMPLAY_CRC32C(sum, bytes, size)
 *                        continues a CRC-32C: if `sum` is the CRC-32C of earlier bytes, the value
 *                        is the CRC-32C of these bytes followed by `size` bytes at `bytes`. Its
 *                        type is uint32_t. Define the macro if the machine has hardware for it.
 *   LMPLAY_SLICE         most bytes of a copy, fill or compare that lmplay_step counts as one unit
 *                        of its budget; a multiple of 64, 1024 by default
 */
#ifdef LMPLAY_CONFIG
#include LMPLAY_CONFIG
#endif

/* Version of this interface. The number increases with every change of a declaration. */
#define LMPLAY_ABI 4

#define LMPLAY_DEVICES_MAX 8 /* largest number of devices of an image */
#define LMPLAY_DIMS_MAX 8    /* largest number of dimensions of a tensor */
#define LMPLAY_BARS 6        /* number of BARs of a device */
#define LMPLAY_RINGS_MAX 32  /* largest number of rings of an image */
#define LMPLAY_FIELDS 11     /* number of fields in the root table of an image (image.fbs) */

/* Value of an index that does not exist: for example, of lmplay_result.command if no command was
   executed. */
#define LMPLAY_NONE UINT32_MAX

/*
 * Result of a call. The numbers are those of enum lm_code in runtime/capi/lightmetal.h. A number
 * never changes its meaning; later versions may append numbers. lmplay_exit_status converts a code
 * to the exit status that the program lmrun has for the same reason.
 */
enum lmplay_code {
	LMPLAY_OK = 0,              /* success */
	LMPLAY_USAGE = 1,           /* wrong argument, wrong order of calls, or too little memory */
	LMPLAY_BAD_IMAGE = 2,       /* the bytes are not a complete, valid image, or a sequence may take
	                               longer than the limit */
	LMPLAY_NO_DEVICE = 4,       /* a window or a bus address is not available */
	LMPLAY_INTERNAL = 5,        /* the player has a defect, or the image has changed */
	LMPLAY_DEVICE_GONE = 6,     /* the device does not answer: loads from it return all ones */
	LMPLAY_BUS_FAULT = 7,       /* a load or store caused an error on the bus */
	LMPLAY_DEADLINE_PASSED = 9, /* the condition of a poll did not become true in time */
	LMPLAY_EXPECT_FAILED = 10,  /* the condition of an expect was false */
	LMPLAY_COMPARE_FAILED = 11, /* data on the device differ from the golden (expected) data */
	LMPLAY_WRONG_DEVICE = 13,   /* the image is for another device, or needs accesses that this
	                               processor does not have */
	LMPLAY_REFUSED = 14,        /* the device, or a hook, rejected an access */
	LMPLAY_INPUT_MISSING = 16,  /* an input has no default data, and lmplay_input was not called */
	LMPLAY_DISABLED = 17,       /* a run failed earlier, or lmplay_unload was called: load again */
	LMPLAY_RUN_LATE = 18,       /* the run took longer than its limit, or lmplay_stop was called */
	LMPLAY_MASTER_OFF = 19,     /* the device cannot access memory: bus mastering is off */
	LMPLAY_DMA_FAULT = 20,      /* DMA of the device did not reach memory */
	LMPLAY_RING_UNSET = 21,     /* the sequence advances a ring, but no run has reset the ring */
	LMPLAY_BUSY = 255           /* only from lmplay_step: the run has not ended yet */
};

/*
 * Returns the exit status with which lmrun ends for the same reason: 0 done, 64 usage, 65 bad
 * image, 69 device unavailable, 70 internal, 71 device lost, 75 deadline passed, 76 mismatch, 78
 * wrong device. For a number that is not a code, the function returns 70.
 */
int lmplay_exit_status(enum lmplay_code code);

/* Describes why an image is rejected. */
struct lmplay_error {
	enum lmplay_code code;
	/* Part of the image, such as "preamble", "window" or "command"; "devices" for the devices of
	   the machine. Never NULL. */
	const char *place;
	uint32_t index;     /* index of the part in its table; LMPLAY_NONE: it is not in a table */
	const char *reason; /* what is wrong with this part: one line without a number. Never NULL */
};

/* A vector (array) of the envelope: the address and the number of its elements. */
struct lmplay_vector {
	const void *elements;
	uint32_t count;
};

/*
 * An opened image. The caller provides the struct, and must neither read nor change its fields. The
 * struct is valid as long as the bytes of the image are valid and unchanged.
 */
struct lmplay_image {
	const uint8_t *bytes;    /* first byte of the image */
	uint64_t envelope_bytes; /* size of the envelope */
	uint64_t payload_bytes;  /* size of the payload */
	uint64_t file_bytes;     /* size of the image, without a signature */
	uint64_t arena_bytes;    /* size of all tensors */
	uint64_t host_bytes;     /* size of all Host windows */
	uint64_t limit_us;       /* longest permitted time of a sequence and of a run */
	struct lmplay_vector vectors[LMPLAY_FIELDS]; /* index: number of the field in image.fbs */
	uint32_t state; /* whether lmplay_open and lmplay_verify have succeeded */
};

/*
 * Finds the parts of an image in `size` bytes, from the address `bytes` on. `size` must be exactly
 * the size of the file: the image, and its signature if the file has one. lmplay_open checks the
 * preamble, the checksum of the envelope, and the position and the length of all vectors. If the
 * image has a signature, it also checks that the signature is undamaged. The bytes may be invalid
 * or malicious. If LMPLAY_VERIFY is 0, lmplay_open checks only the preamble; the bytes must then be
 * a valid image.
 *
 * Returns LMPLAY_OK, LMPLAY_BAD_IMAGE with *error set, or LMPLAY_USAGE if an address is NULL or not
 * a multiple of 8. `error` may be NULL here and in all other functions.
 */
enum lmplay_code lmplay_open(struct lmplay_image *image, const void *bytes, size_t size,
	struct lmplay_error *error);

/* The memory, in bytes, that an image needs, and the numbers of its elements. */
struct lmplay_plan {
	uint64_t verify_bytes; /* memory that lmplay_verify uses until it returns */
	uint64_t arena_bytes;  /* memory that lmplay_load and runs use until lmplay_unload; at least
	                          verify_bytes, so that lmplay_verify can use the same memory before */
	uint64_t tensor_bytes; /* the part of arena_bytes that contains the tensors */
	uint64_t host_bytes;   /* memory that the hook `map` provides for Host windows; each window is
	                          rounded up to a multiple of 4096 */
	uint64_t payload_bytes; /* data in the image */
	uint32_t align;         /* the address of the arena must be a multiple of this number: 64 */
	uint32_t devices;       /* from here on: numbers of elements */
	uint32_t windows;
	uint32_t sequences;
	uint32_t tensors;
	uint32_t commands;      /* in all sequences */
};

/*
 * Sets *plan to the memory and the parts that the image needs. The sizes have not been verified:
 * they may be larger than any memory, and may not fit in size_t. Returns LMPLAY_OK, or LMPLAY_USAGE
 * if lmplay_open has not succeeded for the image.
 */
enum lmplay_code lmplay_plan(const struct lmplay_image *image, struct lmplay_plan *plan);

/* The limit that lmplay_verify uses, in us, if its parameter limit_us is 0: one hour. */
#define LMPLAY_LIMIT_DEFAULT_US 3600000000u

/*
 * Checks every byte of an image, as FORMAT.md requires: tables, commands, checksums of the payload.
 * It also rejects an image with a sequence whose longest time (section 6.3) exceeds `limit_us`
 * microseconds; 0 means LMPLAY_LIMIT_DEFAULT_US. The same limit later applies to the measured time
 * of each run. `work` is the address of work memory, and must be a multiple of plan.align.
 * `work_size` is the size of this memory, and must be at least plan.verify_bytes. lmplay_verify
 * uses the memory only until it returns.
 *
 * Takes time proportional to the size of the image. Returns LMPLAY_OK, LMPLAY_BAD_IMAGE with *error
 * set, or LMPLAY_USAGE if lmplay_open has not succeeded or the memory is too small or misaligned.
 */
enum lmplay_code lmplay_verify(struct lmplay_image *image, void *work, size_t work_size,
	uint64_t limit_us, struct lmplay_error *error);

/* Role of a tensor. The caller writes an input, and a run writes an output. Scratch has what a run
   loads and then stores; the caller has no access to it. */
enum lmplay_role { LMPLAY_INPUT = 1, LMPLAY_OUTPUT = 2, LMPLAY_SCRATCH = 3 };

/* Type of the elements of a tensor. All types are little endian. */
enum lmplay_dtype {
	LMPLAY_INT8 = 1,
	LMPLAY_UINT8 = 2,
	LMPLAY_INT16 = 3,
	LMPLAY_UINT16 = 4,
	LMPLAY_INT32 = 5,
	LMPLAY_UINT32 = 6,
	LMPLAY_INT64 = 7,
	LMPLAY_UINT64 = 8,
	LMPLAY_FLOAT16 = 9,
	LMPLAY_BFLOAT16 = 10,
	LMPLAY_FLOAT32 = 11,
	LMPLAY_FLOAT64 = 12
};

/* Describes a tensor. */
struct lmplay_tensor {
	const char *name;       /* UTF-8 (FORMAT.md 1.2), in the image; not NUL-terminated */
	uint32_t name_bytes;    /* length of the name, 1 to 255 bytes */
	uint32_t role;          /* enum lmplay_role */
	uint32_t dtype;         /* enum lmplay_dtype */
	uint32_t dims;          /* number of dimensions, 0 to 8; 0: the tensor is one element */
	uint64_t size;          /* size of all elements in bytes */
	const void *data;       /* default data (input) or golden data (output) in the image, or NULL */
	uint32_t shape[LMPLAY_DIMS_MAX]; /* elements in each dimension; 0 after the first `dims` */
};

/*
 * Find the first sequence or tensor with the given name, and set *index to its index in the image.
 * The name has `name_bytes` bytes. Both functions return LMPLAY_OK, or LMPLAY_USAGE if the image
 * has no such sequence or tensor, or if the image is not verified. (If LMPLAY_VERIFY is 0, an image
 * is verified when lmplay_open has succeeded.)
 */
enum lmplay_code lmplay_find_sequence(const struct lmplay_image *image, const char *name,
	size_t name_bytes, uint32_t *index);
enum lmplay_code lmplay_find_tensor(const struct lmplay_image *image, const char *name,
	size_t name_bytes, uint32_t *index);

/*
 * lmplay_tensor sets *tensor to a description of the tensor with the given index.
 * lmplay_sequence_name sets *name and *name_bytes to the name of the sequence with the given index;
 * the name is not NUL-terminated. Both return LMPLAY_OK, or LMPLAY_USAGE if there is no such tensor
 * or sequence, or if the image is not verified.
 */
enum lmplay_code lmplay_tensor(const struct lmplay_image *image, uint32_t index,
	struct lmplay_tensor *tensor);
enum lmplay_code lmplay_sequence_name(const struct lmplay_image *image, uint32_t index,
	const char **name, uint32_t *name_bytes);

/* Describes which device an image needs. */
struct lmplay_need {
	const char *board;    /* name of the kind of device, for messages; not NUL-terminated */
	uint32_t board_bytes; /* length of that name, 1 to 255 bytes */
	uint32_t subsystem;   /* PCI subsystem ids, as in struct lmplay_device; 0: any */
	uint64_t bars[LMPLAY_BARS]; /* least size of each BAR in bytes; 0: the BAR is not used */
	uint16_t vendor;      /* PCI vendor id */
	uint16_t device;      /* PCI device id */
};

/*
 * Sets *need to a description of the device that the image needs at the given index, so that a port
 * can find this device on its bus. Returns LMPLAY_OK, or LMPLAY_USAGE if there is no such index or
 * the image is not verified.
 */
enum lmplay_code lmplay_need(const struct lmplay_image *image, uint32_t index,
	struct lmplay_need *need);

/*
 * A device of the machine, as the caller has found it on the bus. The caller has assigned its BARs,
 * and has enabled memory decoding.
 */
struct lmplay_device {
	uint16_t vendor;    /* PCI vendor id: u16 at offset 0 of configuration space */
	uint16_t device;    /* PCI device id: u16 at offset 2 */
	uint32_t subsystem; /* PCI subsystem ids (vendor and device): u32 at offset 0x2c */
	uint64_t bars[LMPLAY_BARS]; /* size of each BAR in bytes; 0: absent, or not memory. A 64-bit BAR
	                               has two elements: its size, followed by 0 */
};

/* Kind of a range that the hook `map` makes accessible. */
enum lmplay_range_kind {
	LMPLAY_RANGE_BAR = 1, /* `size` bytes of BAR `bar`, from `offset` on */
	LMPLAY_RANGE_HOST = 2 /* `size` bytes of memory of the machine that the device reaches by DMA */
};

/* A range that the hook `map` makes accessible. */
struct lmplay_range {
	uint32_t kind;   /* enum lmplay_range_kind */
	uint32_t device; /* index of the device in the image */
	uint32_t window; /* index of the window in the image for which the range is mapped; LMPLAY_NONE
	                    for registers that the player itself needs */
	uint32_t bar;    /* Bar: number of the BAR, 0 to 5; Host: 0 */
	uint64_t offset; /* Bar: offset of the first byte in the BAR; Host: 0 */
	uint64_t size;   /* size in bytes, at least 1 */
	uint64_t fixed_bus;       /* Host: the bus address that the memory must have; 0: any */
	uint32_t write_combining; /* 1: the range is memory; `map` should map it write-combining */
};

/* How a range is accessible. The hook `map` sets this struct. */
struct lmplay_mapping {
	/* If by_hooks is 0: address of the first byte. Its lowest 3 bits must equal those of
	   range.offset. If by_hooks is 1: any number; the player passes it to `load` and `store`. */
	uintptr_t address;
	/* Address at which devices access the first byte by DMA; 0: they cannot access it. A Host range
	   must have a bus address. For a Bar range, set the bus address of the BAR plus range.offset;
	   0 is sufficient unless a Relocate command of the image names the window. */
	uint64_t bus;
	uint32_t by_hooks; /* 0: the player accesses the range by loads and stores at `address`; 1: it
	                      calls the hooks `load` and `store` */
};

/*
 * The functions of a port. The player passes the value of the field `context` to each function, and
 * does not use this value otherwise. A function of type enum lmplay_code returns LMPLAY_OK, or the
 * code with which lmplay_load or the run must fail. The port must fill the struct with zeros first,
 * so that unused functions are NULL. The struct must not change while a replay uses it.
 */
struct lmplay_hooks {
	void *context;

	/*
	 * Makes `range` accessible until lmplay_unload, and sets *mapping. Required. lmplay_load calls
	 * this hook for every window of kind Bar and Host. For a window of kind Tlb, it calls the hook
	 * for the complete TLB window that it has chosen. It also calls the hook for the registers that
	 * program TLB windows and outbound address translation. Ranges may overlap.
	 *
	 * A Bar range does not exceed the size of the BAR in struct lmplay_device. The hook must map
	 * the range as device memory, without a cache, unless write_combining is set. All accesses of
	 * the player to a Bar range are aligned. The hook must fill a Host range with zeros, and align
	 * its first byte to 4096. A Host range must not share a cache line with other data: round its
	 * size up to a multiple of 4096, or at least to a multiple of the size of a cache line.
	 */
	enum lmplay_code (*map)(void *context, const struct lmplay_range *range,
		struct lmplay_mapping *mapping);

	/*
	 * Load or store `width` bytes (1, 2, 4 or 8) at `offset` bytes from the start of a range.
	 * Required if the hook `map` sets mapping.by_hooks to 1; `address` is mapping.address of the
	 * range. All accesses are aligned. `load` must set the bits of *value above the width to zero.
	 * After a failure, return for example LMPLAY_BUS_FAULT or LMPLAY_REFUSED.
	 */
	enum lmplay_code (*load)(void *context, uintptr_t address, uint64_t offset, uint32_t width,
		uint64_t *value);
	enum lmplay_code (*store)(void *context, uintptr_t address, uint64_t offset, uint32_t width,
		uint64_t value);

	/*
	 * Loads `width` bytes (1, 2 or 4) at `offset` (0 to 4095, aligned) of the configuration space
	 * of a device. Required if the image has a Config window: lmplay_load returns LMPLAY_NO_DEVICE
	 * if it is missing. Images cannot store to configuration space.
	 */
	enum lmplay_code (*load_config)(void *context, uint32_t device, uint32_t offset,
		uint32_t width, uint32_t *value);

	/*
	 * Returns the state of a device. Required: otherwise the player could not distinguish a device
	 * that is gone from one whose registers are all ones. The player calls this hook after a load
	 * of all ones, and after an expect or compare that failed. The hook returns
	 *   LMPLAY_DEVICE_GONE  if the vendor id cannot be read, or memory decoding is off;
	 *   LMPLAY_MASTER_OFF   if lmplay_load has enabled bus mastering, but it is off now;
	 *   LMPLAY_DMA_FAULT    if the PCI status register has an error bit that it did not have when
	 *                       lmplay_load enabled bus mastering;
	 *   LMPLAY_OK           otherwise.
	 */
	enum lmplay_code (*query)(void *context, uint32_t device);

	/*
	 * Enables bus mastering of a device if `on` is 1, and disables it if `on` is 0. Before enabling
	 * it, the hook should clear the error bits of the PCI status register. lmplay_load enables bus
	 * mastering last, for devices that need DMA. lmplay_unload disables it. Required if the image
	 * needs DMA: otherwise lmplay_load returns LMPLAY_NO_DEVICE.
	 */
	enum lmplay_code (*set_bus_master)(void *context, uint32_t device, uint32_t on);

	/*
	 * Returns the time of a monotonic clock in nanoseconds. The clock must not jump or wrap during
	 * a run. A resolution of 1 us is sufficient. Required.
	 */
	uint64_t (*now)(void *context);

	/*
	 * Waits for about `nanoseconds`, at most 10 ms; may return earlier or later. Only lmplay_run
	 * calls it. NULL: lmplay_run reads the clock in a loop instead.
	 */
	void (*wait)(void *context, uint64_t nanoseconds);

	/*
	 * Executes a full barrier. When it returns, all earlier loads and stores of devices and of
	 * memory must be complete and visible to devices. No later load or store may have begun. NULL:
	 * the player uses the macro LMPLAY_BARRIER.
	 */
	void (*barrier)(void *context);

	/*
	 * These hooks are necessary if Host ranges are mapped with a cache, and DMA bypasses the cache.
	 * Otherwise they are NULL. `clean` writes changed cache lines back to memory; the player calls
	 * `clean` after it has stored to a Host range. `invalidate` discards cache lines, so that the
	 * next load reads memory; the player calls `invalidate` before it loads from a Host range.
	 * `address` and `size` describe the bytes that the command accesses. The hook must extend this
	 * range to complete cache lines. If a device and the player both write to one cache line
	 * between two fences of an image, cached Host ranges lose data: map them without a cache.
	 */
	void (*clean)(void *context, uintptr_t address, uint64_t size);
	void (*invalidate)(void *context, uintptr_t address, uint64_t size);
	/*
	 * Enables `count` interrupt vectors of a device; `kind` is 1 for MSI and 2 for MSI-X. Nothing
	 * needs to handle the interrupts: mask them if the device can. If `count` is 0, the hook
	 * disables the vectors. Required if the image declares vectors: otherwise lmplay_load returns
	 * LMPLAY_NO_DEVICE. lmplay_load calls it before set_bus_master, lmplay_unload after it.
	 */
	enum lmplay_code (*set_vectors)(void *context, uint32_t device, uint32_t kind,
		uint32_t count);
};

/* Describes how a run ended. If `code` is LMPLAY_OK, all other fields except `ignored` are 0. */
struct lmplay_result {
	enum lmplay_code code;
	enum lmplay_code safe; /* result of the sequence "safe"; has no meaning if safe_ran is 0 */
	uint32_t safe_ran;     /* 1: the sequence "safe" was executed after the failure */
	uint32_t command;      /* index in the image of the command that failed; LMPLAY_NONE: no command
	                          was executed */
	uint32_t ignored;      /* number of failures after which the run continued, because the image
	                          allows them */
	uint64_t got;     /* value that the expect loaded last, or first wrong element of the compare */
	uint64_t want;    /* value or element that the command expected */
	uint64_t mask;    /* bits of `got` and `want` that the command compared */
	uint64_t element; /* index of the first wrong element, in units of the compare's width */
};

/*
 * A loaded image and the state of its run. The caller provides the struct, and must neither read
 * nor change its fields. The caller must not move the struct after lmplay_load.
 */
struct lmplay_replay {
	const struct lmplay_image *image;
	const struct lmplay_hooks *hooks;
	uint8_t *arena;                       /* memory of the tensors, followed by the tables below */
	struct lmplay_window_state *windows;  /* table: where each window is mapped */
	struct lmplay_device_state *devices;  /* table: registers and TLB windows of each device */
	struct lmplay_ring_state *rings;      /* table: where each ring is */
	uint32_t *needed_rings;               /* table: for each sequence the rings that it needs set,
	                                         one bit for each ring */
	uint32_t set_rings;                   /* one bit for each ring; 1: a run has reset it */
	uint32_t odd_laps;                    /* one bit for each ring; 1: it is in an odd lap */
	uint8_t *inputs;                      /* table: one bit for each tensor; 1: runs read the input
	                                         in the arena, not its default data */
	struct lmplay_result result;          /* result of the current run */
	uint64_t limit_ns;                    /* limit_ns of lmplay_run or lmplay_start; 0: none */
	uint64_t end_ns;                      /* time at which the run exceeds its limit */
	uint64_t began_ns;                    /* clock time after the first load of the current poll */
	uint64_t wake_ns;                     /* time at which the current wait ends */
	uint64_t deadline_ns;                 /* deadline of the current poll */
	uint64_t done_bytes;                  /* bytes done of the current copy, fill or compare */
	uint32_t missing_inputs;              /* number of inputs without data */
	uint32_t safe_sequence;               /* index of the sequence "safe", or LMPLAY_NONE */
	uint32_t sequence;                    /* index of the sequence that the run executes */
	uint32_t next;                        /* index of the next command in the image */
	uint32_t return_to;                   /* index of the command after the current Call; 0: no
	                                         sequence is being called */
	uint32_t left_us;                     /* charged time, in us, that may pass before the player
	                                         looks at the clock again */
	uint32_t phase;                       /* what the next step does: PHASE_... in lmplay.c */
	uint32_t polling;                     /* 1: the current Expect has made at least one load */
	uint32_t pending;                     /* code with which the current Expect fails if its next
	                                         load does not meet the condition; LMPLAY_OK: it does
	                                         not fail yet, but waits and loads again */
	uint32_t masters;                     /* one bit for each device; 1: it is a bus master */
	uint32_t flags;                       /* state of the replay: bits REPLAY_LOADED,
	                                         REPLAY_DISABLED, REPLAY_IN_SAFE of lmplay.c */
	uint32_t late_fault;                  /* 1: "safe" has noted a fault that did not end it */
	volatile uint32_t fault;              /* 1: lmplay_fault was called during the run */
	volatile uint32_t stop;               /* 1: lmplay_stop was called during the run */
	volatile uint32_t interrupted;        /* 1: lmplay_interrupt was called */
};

/*
 * Prepares a verified image for runs. lmplay_load checks that the image is for the given devices,
 * chooses TLB windows, and maps all windows with the hook `map`. Then it checks that the processor
 * and the devices can execute each command. Last, it enables bus mastering of the devices that need
 * DMA. lmplay_load executes no command. On a device with tiles, it stores to the registers of
 * outbound address translation if the image has Host windows.
 *
 * `devices` describes the devices of the machine that correspond to the devices of the image, in
 * the order of the image. No device may occur twice. The array is not used after lmplay_load has
 * returned. `arena` has `arena_size` bytes, at least plan.arena_bytes, and its address must be a
 * multiple of plan.align. The replay uses the arena until lmplay_unload.
 *
 * Returns LMPLAY_OK, or a code with *error set: LMPLAY_WRONG_DEVICE if the image is for other
 * devices, if a bus address is too large for a register, or if the image needs accesses of 8 bytes
 * and this processor has none; LMPLAY_REFUSED if a TLB window of the device cannot select the tiles
 * of a command; LMPLAY_NO_DEVICE if a TLB window, a bus address or a hook is missing; LMPLAY_USAGE
 * for wrong arguments, or if the arena is too small or misaligned; or the code that a hook has
 * returned. After a failure, bus mastering is off, and lmplay_load is the only call that `replay`
 * accepts.
 */
enum lmplay_code lmplay_load(struct lmplay_replay *replay, const struct lmplay_image *image,
	const struct lmplay_hooks *hooks, const struct lmplay_device *devices, uint32_t device_count,
	void *arena, size_t arena_size, struct lmplay_error *error);

/*
 * Returns the address in the arena of the input with the index `tensor`. The caller writes the data
 * for the next run to this address. Before the first call for an input, runs read its default data
 * in the image. The first call copies these default data to the arena. From then on, runs read the
 * input in the arena. Returns NULL if there is no such input.
 */
void *lmplay_input(struct lmplay_replay *replay, uint32_t tensor);

/*
 * Returns the address in the arena of the output with the index `tensor`. Runs write its bytes.
 * Before the first run, its bytes are zero. Returns NULL if there is no such output.
 */
const void *lmplay_output(const struct lmplay_replay *replay, uint32_t tensor);

/*
 * Executes the sequence with the index `sequence` to its end, and sets *result. `result` may be
 * NULL. Returns the code of the result. `limit_ns` is the longest permitted time of this run in
 * nanoseconds; 0 means the limit of lmplay_verify. A run that takes longer fails with
 * LMPLAY_RUN_LATE. lmplay_run looks at the clock after at most 1 ms of charged time (section 6.3 of
 * FORMAT.md: about 1 us for each access), or 8 ms if `limit_ns` is 0, and during waits. It ends a
 * copy, fill or compare between two accesses, too, but not a hook that does not return.
 *
 * If a command fails, lmplay_run also executes the sequence "safe", if the image has this sequence
 * and `sequence` was not "safe" itself. It then disables the replay: every later run returns
 * LMPLAY_DISABLED until the image is loaded again. If lmplay_run returns LMPLAY_INPUT_MISSING,
 * LMPLAY_RING_UNSET (the sequence advances a ring that no run has reset), LMPLAY_USAGE (there is no
 * such sequence) or LMPLAY_DISABLED, it has executed no command and has not disabled the replay.
 *
 * While it waits in a poll or a delay, lmplay_run calls the hook `wait`.
 */
enum lmplay_code lmplay_run(struct lmplay_replay *replay, uint32_t sequence, uint64_t limit_ns,
	struct lmplay_result *result);

/*
 * Begins a run with the arguments of lmplay_run, but executes nothing yet: lmplay_step executes the
 * run. The time limit counts from this call. An earlier run that has not ended is abandoned, all
 * rings are unset, and "safe" is not executed. To end such a run properly, call lmplay_stop and
 * lmplay_step first.
 * Returns LMPLAY_OK, LMPLAY_INPUT_MISSING, LMPLAY_RING_UNSET, LMPLAY_USAGE or LMPLAY_DISABLED.
 */
enum lmplay_code lmplay_start(struct lmplay_replay *replay, uint32_t sequence, uint64_t limit_ns);

/*
 * Continues a run in a cyclic task: executes at most `budget` units and returns. A unit is one
 * command, or one load of a poll, or at most LMPLAY_SLICE bytes of a copy, fill or compare.
 * lmplay_step never waits: during a delay, or between two loads of a poll, it returns at once. The
 * budget and the time of one access (0.5 to 1.2 us for a load across PCIe) limit its time: a unit
 * of 1024 bytes has up to 1024 accesses. lmplay_step looks at the clock at its begin, and then as
 * often as lmplay_run; no unit is charged more than the time between two looks.
 *
 * Returns LMPLAY_BUSY until the run has ended. Then it returns the code that lmplay_run would
 * return. After a failure, further steps execute the sequence "safe" first. Calls after the end
 * return the same code again. If lmplay_start was not called, or the budget is 0, lmplay_step
 * returns LMPLAY_USAGE.
 */
enum lmplay_code lmplay_step(struct lmplay_replay *replay, uint32_t budget);

/*
 * Returns the time, by the clock of the hook `now`, at which the next lmplay_step has something to
 * do. A task can sleep until then. Returns 0 if lmplay_step has something to do now, if the run has
 * ended, or if `replay` is NULL.
 */
uint64_t lmplay_next_ns(const struct lmplay_replay *replay);

/* Sets *result to the result of the last run. If the run has not ended yet, result->code is
   LMPLAY_BUSY; if `replay` is NULL, it is LMPLAY_USAGE. If `result` is NULL, nothing happens. */
void lmplay_result(const struct lmplay_replay *replay, struct lmplay_result *result);

/*
 * Reports to the player that an access to a mapped window has failed. The port calls lmplay_fault
 * in its handler of the processor exception, or of the interrupt, that reports an error on the bus.
 * The handler must let the access complete in some way, for example by skipping the instruction.
 * lmplay_fault only sets a flag, and may be called at any time; NULL does nothing. The player
 * checks this flag after each load, before it uses the loaded value, after each call of the hook
 * `query`, before each command, and during waits. The run then fails with LMPLAY_BUS_FAULT. If the
 * failed access is a store, the result may name a later command.
 *
 * The sequence "safe" ends at once only for a fault during a load, a Point or a call of `query`.
 * After any other fault, such as a late one of a posted store, "safe" runs to its end; its result
 * is then LMPLAY_BUS_FAULT, unless it fails for another reason.
 */
void lmplay_fault(struct lmplay_replay *replay);

/*
 * Reports that a device may have changed what a poll waits for: its next load is due now, and not
 * only after its interval. The port may call lmplay_interrupt in the handler of the device's
 * interrupt. lmplay_interrupt only sets a flag, and may be called at any time; NULL does nothing.
 */
void lmplay_interrupt(struct lmplay_replay *replay);

/*
 * Ends the current run from an interrupt or another task. lmplay_stop only sets a flag; NULL does
 * nothing. The run then fails with LMPLAY_RUN_LATE, and the sequence "safe" is executed: before the
 * next command, slice or load of a poll, which is after at most 1 ms of charged time, or 8 ms if
 * limit_ns is 0, or one call of the hook `wait`. lmplay_stop does not end "safe", which ends by
 * itself, by its own failure, or by its time limit. lmplay_run and lmplay_start clear the flag when
 * a run begins.
 */
void lmplay_stop(struct lmplay_replay *replay);

/*
 * Disables the bus mastering that lmplay_load has enabled, then the outbound address translation of
 * these devices, their interrupt vectors, and last the replay. Afterwards the caller may use the
 * arena, and the memory of Host windows, for other purposes. lmplay_unload executes no command. If
 * a run has not ended, call lmplay_stop and lmplay_step first. Returns LMPLAY_OK, the first failure
 * of a hook, or LMPLAY_USAGE if no image is loaded.
 */
enum lmplay_code lmplay_unload(struct lmplay_replay *replay);

#ifdef __cplusplus
}
#endif

#endif
