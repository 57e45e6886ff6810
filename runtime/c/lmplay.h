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
 *     lmplay_plan(&image, &plan)                          how much memory is needed
 *     lmplay_verify(&image, arena, arena_size, 0, &error) checks every byte
 *     lmplay_load(&replay, &image, &hooks, devices, count, arena, arena_size, &error)
 *                                                         maps the windows
 *     lmplay_find_sequence(&image, "compute", 7, &sequence)
 *     lmplay_find_tensor(&image, "n", 1, &in), lmplay_find_tensor(&image, "result", 6, &out)
 *     lmplay_input(&replay, in), lmplay_output(&replay, out)    addresses of their bytes
 *     lmplay_run(&replay, sequence, 0, &result)           repeat: write input, run, read output
 *     lmplay_unload(&replay)                              stops the DMA of the devices
 *
 * WHAT IT NEEDS. The functions memcpy, memset and memcmp, and nothing else of a C library. It
 * allocates no memory, calls no function recursively, and has no writable global data. All state
 * is in structs and in an arena that the caller provides. The processor must be little endian.
 *
 * THE IMAGE. The bytes of the image may lie in read-only flash. Their address must be a multiple
 * of 8. They must not change from lmplay_open until after the last call for the image: what was
 * verified is what runs. The player stores nothing to them.
 *
 * HOOKS. A port fills in struct lmplay_hooks: functions that map a window, read a clock and so on.
 * Hooks must not call functions of this header for the same replay, except lmplay_fault and
 * lmplay_stop. PORTING.md in this directory describes how to write a port.
 *
 * CALLS. Calls for one replay must not overlap, again except lmplay_fault and lmplay_stop, which
 * an interrupt or a handler of a processor exception may call. Different replays may run at the
 * same time on different processors if they use different devices. Two replays may share an image.
 *
 * TIME. Times are in microseconds (us) in images and in nanoseconds (ns) at the hooks.
 *
 * WHAT IT DOES NOT DO. It does not check signatures (section 8 of FORMAT.md), except that a
 * signature is undamaged. It has no fault guard: if a load or store of a mapped window raises a
 * processor exception, the port must handle the exception and call lmplay_fault. runtime/SAFETY.md
 * lists what holds for this player.
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
 *   LMPLAY_VERIFY        0: leave out lmplay_verify and all checks of lmplay_open but that of the
 *                        preamble, for images that are verified elsewhere, by `lm verify` or a
 *                        boot loader. Then damaged images have undefined behaviour.
 *   LMPLAY_TEXT          0: leave out the texts of struct lmplay_error: place and reason are "".
 *   LMPLAY_BOARD_name    0: leave out the rules and layouts of one board: EDU, IVSHMEM, NVME,
 *                        WORMHOLE or BLACKHOLE. Its PCI ids stay known. Therefore an image for
 *                        such a device cannot bring rules of its own: its accesses to BARs are
 *                        rejected.
 *   LMPLAY_ACCESS_64     0: the processor has no loads and stores of 8 bytes that are one access
 *                        of a device. The default is 1 if pointers have 64 bits. If it is 0,
 *                        lmplay_load rejects an image with an access of 8 bytes to a mapped
 *                        window; the hooks `load` and `store` may still make such accesses.
 *   LMPLAY_LOAD8(address), LMPLAY_LOAD16, LMPLAY_LOAD32, LMPLAY_LOAD64
 *   LMPLAY_STORE8(address, value), LMPLAY_STORE16, LMPLAY_STORE32, LMPLAY_STORE64
 *                        one volatile access of exactly this width to a device, at an address of
 *                        type uintptr_t. The value of a load, and `value`, are of type uintN_t.
 *   LMPLAY_BARRIER()     full barrier, if the hook `barrier` is NULL; the default knows arm, arm64,
 *                        RISC-V and x86
 *   LMPLAY_CRC32C(sum, bytes, size)
 *                        CRC-32C of bytes that follow bytes whose CRC-32C is `sum`, as a uint32_t;
 *                        for a processor or a unit that computes it
 *   LMPLAY_SLICE         bytes of a copy, fill or compare that count as one unit of the budget of
 *                        lmplay_step; a multiple of 64, 1024 by default
 */
#ifdef LMPLAY_CONFIG
#include LMPLAY_CONFIG
#endif

/* Version of this interface. The number increases with every change of a declaration. */
#define LMPLAY_ABI 2

#define LMPLAY_DEVICES_MAX 8 /* largest number of devices of an image */
#define LMPLAY_DIMS_MAX 8    /* largest number of dimensions of a tensor */
#define LMPLAY_BARS 6        /* number of BARs of a device */
#define LMPLAY_FIELDS 10     /* number of fields of an envelope: a struct, then vectors */

/* Index in struct lmplay_error and struct lmplay_result if there is no such element. */
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
	                               longer than the limit, or the machine is too small */
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
	LMPLAY_BUSY = 255           /* lmplay_step: the run has not ended yet. Never a failure */
};

/*
 * Returns the exit status of a program that ends because of `code`, as lmrun has it: 0 done, 64
 * usage, 65 bad image, 69 device unavailable, 70 internal, 71 device lost, 75 deadline passed, 76
 * mismatch, 78 other device. A number that is not a code returns 70.
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

/* A vector of the envelope. */
struct lmplay_vector {
	const void *elements;
	uint32_t count;
};

/*
 * An opened image. The caller provides the struct, and must neither read nor change its fields.
 * It stays valid as long as the bytes of the image do.
 */
struct lmplay_image {
	const uint8_t *bytes;    /* first byte of the image */
	uint64_t envelope_bytes; /* size of the envelope */
	uint64_t payload_bytes;  /* size of the payload */
	uint64_t file_bytes;     /* size of the image, without a signature */
	uint64_t arena_bytes;    /* size of all tensors */
	uint64_t host_bytes;     /* size of all Host windows */
	uint64_t limit_us;       /* longest permitted time of a sequence and of a run */
	struct lmplay_vector vectors[LMPLAY_FIELDS]; /* by the number of the field in image.fbs */
	uint32_t state; /* which calls have succeeded for the image */
};

/*
 * Finds the parts of an image in `size` bytes, from the address `bytes` on. Checks the preamble,
 * the checksum of the envelope, that all parts lie inside the envelope, and their counts; and that
 * a signature, if there is one, is undamaged. Needs no memory but the struct, and reads the
 * envelope once. `bytes` may have any contents. If LMPLAY_VERIFY is 0, it checks only the preamble,
 * and the contents must be those of a valid image.
 *
 * Returns LMPLAY_OK, LMPLAY_BAD_IMAGE with *error set, or LMPLAY_USAGE if an address is NULL or not
 * a multiple of 8. `error` may be NULL here and in all other functions.
 */
enum lmplay_code lmplay_open(struct lmplay_image *image, const void *bytes, size_t size,
	struct lmplay_error *error);

/* What an image needs. Sizes are in bytes. */
struct lmplay_plan {
	uint64_t verify_bytes; /* memory that lmplay_verify uses; free again when it returns */
	uint64_t arena_bytes;  /* memory that lmplay_load uses until after the last run; at least
	                          verify_bytes, so that one arena of this size serves both calls */
	uint64_t tensor_bytes; /* the part of arena_bytes that contains the tensors */
	uint64_t host_bytes;   /* memory that the hook `map` provides for Host windows; each window is
	                          rounded up to a multiple of 4096 */
	uint64_t payload_bytes; /* data in the image */
	uint32_t align;         /* the address of the arena must be a multiple of this number: 64 */
	uint32_t devices;       /* number of devices, windows, sequences, tensors and commands */
	uint32_t windows;
	uint32_t sequences;
	uint32_t tensors;
	uint32_t commands;
};

/*
 * Sets *plan to what the image needs. The sizes may exceed the memory of any machine: a size that
 * does not fit in size_t cannot be provided. Returns LMPLAY_OK, or LMPLAY_USAGE if lmplay_open has
 * not succeeded for the image.
 */
enum lmplay_code lmplay_plan(const struct lmplay_image *image, struct lmplay_plan *plan);

/* Longest time of a sequence and of a run, in us, if lmplay_verify gets limit_us 0: an hour. */
#define LMPLAY_LIMIT_DEFAULT_US 3600000000u

/*
 * Checks every byte of an image, as FORMAT.md requires: tables, commands, checksums of the payload.
 * It also rejects an image with a sequence whose longest time (section 6.3) exceeds `limit_us`
 * microseconds; 0 means LMPLAY_LIMIT_DEFAULT_US. The same limit then applies to each run, by the
 * clock. `work` is the address of `work_size` bytes, at least plan.verify_bytes, and a multiple of
 * plan.align. lmplay_verify has no use for the memory after it has returned.
 *
 * Takes time proportional to the size of the image. Returns LMPLAY_OK, LMPLAY_BAD_IMAGE with *error
 * set, or LMPLAY_USAGE if lmplay_open has not succeeded or the memory is too small or misaligned.
 */
enum lmplay_code lmplay_verify(struct lmplay_image *image, void *work, size_t work_size,
	uint64_t limit_us, struct lmplay_error *error);

/* Role of a tensor. The caller writes an input, and a run writes an output. */
enum lmplay_role { LMPLAY_INPUT = 1, LMPLAY_OUTPUT = 2 };

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
	const char *name;       /* UTF-8 without control characters, in the image; not NUL-terminated */
	uint32_t name_bytes;    /* length of the name, 1 to 255 bytes */
	uint32_t role;          /* enum lmplay_role */
	uint32_t dtype;         /* enum lmplay_dtype */
	uint32_t dims;          /* number of dimensions, 0 to 8; 0: the tensor is one element */
	uint64_t size;          /* size of all elements in bytes */
	const void *data;       /* default data (input) or golden data (output) in the image, or NULL */
	uint32_t shape[LMPLAY_DIMS_MAX]; /* elements in each dimension; 0 after the first `dims` */
};

/*
 * Find a sequence or a tensor by its name, which has `name_bytes` bytes, and set *index to its
 * index in the image. If several have the name, it is the first of them. Return LMPLAY_OK, or
 * LMPLAY_USAGE if the image has none with this name or is not open. If the image is not verified,
 * LMPLAY_USAGE (unless LMPLAY_VERIFY is 0).
 */
enum lmplay_code lmplay_find_sequence(const struct lmplay_image *image, const char *name,
	size_t name_bytes, uint32_t *index);
enum lmplay_code lmplay_find_tensor(const struct lmplay_image *image, const char *name,
	size_t name_bytes, uint32_t *index);

/*
 * Set *tensor to the description of tensor `index`, or *name and *name_bytes to the name of
 * sequence `index`, which is not NUL-terminated. Return LMPLAY_OK, or LMPLAY_USAGE if there is no
 * such element or the image is not verified.
 */
enum lmplay_code lmplay_tensor(const struct lmplay_image *image, uint32_t index,
	struct lmplay_tensor *tensor);
enum lmplay_code lmplay_sequence_name(const struct lmplay_image *image, uint32_t index,
	const char **name, uint32_t *name_bytes);

/* Describes which device an image needs. */
struct lmplay_need {
	const char *board;    /* name of the kind of device, for messages; not NUL-terminated */
	uint32_t board_bytes; /* length of that name, 1 to 255 bytes */
	uint32_t subsystem;   /* as in struct lmplay_device; 0: any */
	uint64_t bars[LMPLAY_BARS]; /* least size of each BAR in bytes; 0: the BAR is not used */
	uint16_t vendor;      /* PCI ids */
	uint16_t device;
};

/*
 * Sets *need to what device `index` of the image must be, so that a port can find it on its bus.
 * Returns LMPLAY_OK, or LMPLAY_USAGE as lmplay_tensor does.
 */
enum lmplay_code lmplay_need(const struct lmplay_image *image, uint32_t index,
	struct lmplay_need *need);

/*
 * A device of the machine, as the caller has found it on the bus. The caller has assigned its BARs,
 * and has enabled memory decoding.
 */
struct lmplay_device {
	uint16_t vendor;    /* u16 at offset 0 of configuration space */
	uint16_t device;    /* u16 at offset 2 */
	uint32_t subsystem; /* u32 at offset 0x2c */
	uint64_t bars[LMPLAY_BARS]; /* size of each BAR in bytes; 0: absent, or not memory. A 64-bit BAR
	                               has its size at its first number, and 0 at the next one */
};

/* What a range is that the hook `map` makes accessible. */
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
	uint32_t write_combining; /* 1: the range is memory, and a write-combining mapping is welcome */
};

/* How a range is accessible. */
struct lmplay_mapping {
	/* Address of the first byte, a multiple of the widest access (8) if the offset of the range in
	   its BAR is one. If by_hooks is 1: any number that the hooks `load` and `store` understand. */
	uintptr_t address;
	/* Address at which devices reach the first byte by DMA; 0: they do not reach it. A Host range
	   needs one. For a Bar range it is the address that the BAR has on the bus, plus the offset,
	   and only an image that relocates with the window needs it. */
	uint64_t bus;
	uint32_t by_hooks; /* 1: the hooks `load` and `store` make all accesses; 0: the player does */
};

/*
 * The functions of a port. `context` is the value of the field with this name, which the player
 * does not use. Functions that return enum lmplay_code return LMPLAY_OK or the code with which the
 * load or the run shall fail. Set fields to NULL that may be NULL and are not needed, for example
 * by zeroing the struct first. The struct must not change while a replay uses it.
 */
struct lmplay_hooks {
	void *context;

	/*
	 * Makes `range` accessible until lmplay_unload, and sets *mapping. lmplay_load calls it for
	 * every window of kind Bar and Host; for a Tlb window, it calls it for the whole TLB window of
	 * the device that the player has chosen; and for the registers that program TLB windows and
	 * outbound address translation. Ranges may overlap. Required.
	 *
	 * A Bar range lies inside the BAR, by the size in struct lmplay_device. It must be mapped as
	 * device memory, without a cache, unless write_combining is set. The player makes only aligned
	 * accesses to it. A Host range must be filled with zeros. Its first byte must be aligned to
	 * 4096, and its memory must be rounded up to a multiple of 4096, or at least to lines of the
	 * cache, so that nothing else shares a line with it.
	 */
	enum lmplay_code (*map)(void *context, const struct lmplay_range *range,
		struct lmplay_mapping *mapping);

	/*
	 * Access `width` bytes (1, 2, 4 or 8) at `offset` bytes from the start of a range whose mapping
	 * has by_hooks 1. `address` is mapping.address. The accesses are aligned. `load` sets *value,
	 * with zeros above the width. For example, the code of a failure is LMPLAY_BUS_FAULT or
	 * LMPLAY_REFUSED. Required if a mapping has by_hooks 1.
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
	 * Reports the state of a device: LMPLAY_OK; LMPLAY_DEVICE_GONE if its vendor id does not read
	 * back or memory decoding is off; and if lmplay_load has enabled bus mastering of the device,
	 * also LMPLAY_MASTER_OFF if it is off, and LMPLAY_DMA_FAULT if the PCI status register has an
	 * error bit that it did not have when bus mastering was enabled. Called after a load of all
	 * ones and after an expect or compare that failed. Required: without it, a device that is gone
	 * looks like one whose registers are all ones.
	 */
	enum lmplay_code (*query)(void *context, uint32_t device);

	/*
	 * Enables (`on` 1) or disables (`on` 0) bus mastering of a device. lmplay_load enables it last,
	 * for devices that need DMA; lmplay_unload disables it. Enabling should clear the error bits
	 * of the PCI status register first. Required if the image needs DMA: lmplay_load returns
	 * LMPLAY_NO_DEVICE if it is missing.
	 */
	enum lmplay_code (*set_bus_master)(void *context, uint32_t device, uint32_t on);

	/*
	 * Returns the time of a monotonic clock in nanoseconds. The clock must not jump or wrap during
	 * a run. A resolution of 1 us is sufficient. Required.
	 */
	uint64_t (*now)(void *context);

	/*
	 * Waits for about `nanoseconds`, at most 100 ms; may return earlier or later. Only lmplay_run
	 * calls it. NULL: lmplay_run reads the clock in a loop instead.
	 */
	void (*wait)(void *context, uint64_t nanoseconds);

	/*
	 * Executes a full barrier: returns after every earlier load and store, of devices and of
	 * memory, is complete and visible to devices; later ones begin after it. NULL: the macro
	 * LMPLAY_BARRIER.
	 */
	void (*barrier)(void *context);

	/*
	 * For machines on which DMA does not see the caches, if Host ranges are mapped with a cache.
	 * `clean` writes changed lines back to memory; the player calls it after it has stored to a
	 * Host range. `invalidate` discards lines, so that the next load reads memory; the player calls
	 * it before it loads from a Host range. `address` and `size` are the bytes that the command
	 * accesses; the hook rounds to lines. NULL: nothing is needed. A device and the player must not
	 * both write bytes of the same line between two fences; if images do that, map Host ranges
	 * without a cache.
	 */
	void (*clean)(void *context, uintptr_t address, uint64_t size);
	void (*invalidate)(void *context, uintptr_t address, uint64_t size);
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
	uint64_t mask;    /* the command compared only these bits of `got` and `want` */
	uint64_t element; /* index of the first wrong element; its width is that of the compare */
};

/*
 * A loaded image and the state of its run. The caller provides the struct, and must neither read
 * nor change its fields. It must not be moved after lmplay_load.
 */
struct lmplay_replay {
	const struct lmplay_image *image;
	const struct lmplay_hooks *hooks;
	uint8_t *arena;                       /* memory of the tensors, then of the tables */
	struct lmplay_window_state *windows;  /* where each window is mapped */
	struct lmplay_device_state *devices;  /* registers and TLB windows of each device */
	uint8_t *inputs;                      /* one bit for each tensor: its data are in the arena */
	struct lmplay_result result;          /* of the run */
	uint64_t limit_ns;                    /* longest permitted time of this run */
	uint64_t end_ns;                      /* time at which the run exceeds its limit */
	uint64_t began_ns;                    /* time of the first load of a poll */
	uint64_t wake_ns;                     /* time at which the present wait ends */
	uint64_t deadline_ns;                 /* time at which the present poll ends */
	uint64_t done_bytes;                  /* progress of the present copy, fill or compare */
	uint32_t missing_inputs;              /* number of inputs without data */
	uint32_t safe_sequence;               /* index of the sequence "safe", or LMPLAY_NONE */
	uint32_t sequence;                    /* that the run executes */
	uint32_t next;                        /* index of the next command */
	uint32_t return_to;                   /* index of the command after the Call; 0: no Call */
	uint32_t until_clock;                 /* commands before the clock is read again */
	uint32_t phase;                       /* what the next step does */
	uint32_t polling;                     /* 1: the present Expect has made a load */
	uint32_t pending;                     /* code with which the present command fails next */
	uint32_t masters;                     /* one bit for each device that is a bus master */
	uint32_t flags;                       /* which calls have succeeded */
	volatile uint32_t fault;              /* set by lmplay_fault */
	volatile uint32_t stop;               /* set by lmplay_stop */
};

/*
 * Prepares a verified image for runs. Checks that the image is for the given devices, chooses TLB
 * windows, maps all windows with the hook `map`, checks that each command can be executed here,
 * and enables bus mastering of the devices that need it. Executes no command. On a device with
 * tiles and Host windows, it stores to the registers of outbound address translation.
 *
 * `devices` has `device_count` elements, as many as the image has devices and in the same order; no
 * device may occur twice. lmplay_load has no use for it after it has returned. `arena` has
 * `arena_size` bytes, at least plan.arena_bytes; its address is a multiple of plan.align. The
 * replay uses it until lmplay_unload.
 *
 * Returns LMPLAY_OK, or a code with *error set: LMPLAY_WRONG_DEVICE if the image is for other
 * devices, or a bus address or an access does not fit; LMPLAY_REFUSED if the device cannot express
 * a tile range; LMPLAY_NO_DEVICE if a TLB window, a bus address or a hook is missing;
 * LMPLAY_BAD_IMAGE if the arena is too small; LMPLAY_USAGE for wrong arguments; or the code of a
 * hook. After a failure bus mastering is off, and `replay` accepts only lmplay_load.
 */
enum lmplay_code lmplay_load(struct lmplay_replay *replay, const struct lmplay_image *image,
	const struct lmplay_hooks *hooks, const struct lmplay_device *devices, uint32_t device_count,
	void *arena, size_t arena_size, struct lmplay_error *error);

/*
 * Returns the address of the bytes of input `tensor` in the arena, whose size is that of the
 * tensor. The caller writes the data for the next run to them. Until the first call for an input,
 * runs read the default data in the image; the first call copies these data to the arena, and from
 * then on runs read the arena. Returns NULL if there is no such input.
 */
void *lmplay_input(struct lmplay_replay *replay, uint32_t tensor);

/*
 * Returns the address of the bytes of output `tensor` in the arena, which runs write. They are zero
 * before the first run. Returns NULL if there is no such output.
 */
const void *lmplay_output(const struct lmplay_replay *replay, uint32_t tensor);

/*
 * Executes sequence `sequence` to its end, and sets *result, which may be NULL. Returns
 * result->code. `limit_ns` is the longest permitted time of this run in nanoseconds; 0 means the
 * limit of lmplay_verify. A run that takes longer fails with LMPLAY_RUN_LATE; a single copy or
 * a hook that does not return is not interrupted.
 *
 * If a command fails, the sequence "safe" runs, if the image has one, and the replay is disabled:
 * every later run returns LMPLAY_DISABLED until the image is loaded again. A run of "safe" itself
 * that fails does not run "safe" again. LMPLAY_INPUT_MISSING, LMPLAY_USAGE (no such sequence) and
 * LMPLAY_DISABLED execute no command and do not disable the replay.
 *
 * While it waits for a deadline or a delay, lmplay_run calls the hook `wait`.
 */
enum lmplay_code lmplay_run(struct lmplay_replay *replay, uint32_t sequence, uint64_t limit_ns,
	struct lmplay_result *result);

/*
 * Begins a run that lmplay_step continues: what lmplay_run does, without executing anything yet.
 * The limit counts from this call. A run that was begun earlier and has not ended is abandoned
 * without running "safe"; call lmplay_stop and lmplay_step instead to end it properly.
 * Returns LMPLAY_OK, LMPLAY_INPUT_MISSING, LMPLAY_USAGE or LMPLAY_DISABLED.
 */
enum lmplay_code lmplay_start(struct lmplay_replay *replay, uint32_t sequence, uint64_t limit_ns);

/*
 * Continues a run in a cyclic task: executes at most `budget` units and returns. A unit is one
 * command; one load of a poll; or LMPLAY_SLICE bytes of a copy, fill or compare. A step never
 * waits: while a delay or the pause between two loads of a poll lasts, it returns at once. With the
 * time of one access (0.5 to 1.2 us for a load across PCIe) the budget bounds the time of a step.
 *
 * Returns LMPLAY_BUSY until the run has ended, then the code that lmplay_run would return; the
 * sequence "safe" runs in steps, too, before the failure is returned. Calls after the end return
 * the same code again. Before lmplay_start, or with a budget of 0, it returns LMPLAY_USAGE.
 */
enum lmplay_code lmplay_step(struct lmplay_replay *replay, uint32_t budget);

/*
 * Returns the time of the hook `now` at which the next lmplay_step has something to do, so that a
 * task can sleep until then; 0: it has something to do now, or the run has ended.
 */
uint64_t lmplay_next_ns(const struct lmplay_replay *replay);

/* Sets *result to how the last run ended, or has gone so far: then result->code is LMPLAY_BUSY. */
void lmplay_result(const struct lmplay_replay *replay, struct lmplay_result *result);

/*
 * Records that an access to a mapped window failed: the port calls it in the handler of a processor
 * exception or of an interrupt that reports an error on the bus. The handler must let the access
 * complete in some way, for example by skipping the instruction. The run then fails with
 * LMPLAY_BUS_FAULT at the command that it executes when it notices, before it uses a loaded value;
 * an error of a store may be reported later than the store, at another command. lmplay_fault only
 * sets a flag, and may be called at any time.
 */
void lmplay_fault(struct lmplay_replay *replay);

/*
 * Ends the present run from an interrupt or another task: the run fails with LMPLAY_RUN_LATE before
 * the next command or load of a poll, and "safe" runs. Has no effect if no run is in progress.
 * Only sets a flag. lmplay_start clears it.
 */
void lmplay_stop(struct lmplay_replay *replay);

/*
 * Disables bus mastering of the devices that lmplay_load has enabled, and then their outbound
 * address translation. Disables the replay. The memory of Host windows may be reused afterwards,
 * and so may the arena. Executes no command: if a run has not ended, call lmplay_stop and
 * lmplay_step first. Returns LMPLAY_OK or the first failure of the hook `set_bus_master`.
 */
enum lmplay_code lmplay_unload(struct lmplay_replay *replay);

#ifdef __cplusplus
}
#endif

#endif
