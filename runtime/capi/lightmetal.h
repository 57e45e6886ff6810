/*
 * lightmetal: replays Light Metal images on PCIe devices, for C11 and C++11.
 *
 *     lm_handle image;
 *     void *n; const void *result; uint32_t sequence, in, out;
 *
 *     lm_open("model.lmb", &image)                  maps the file, verifies every byte
 *     lm_load(image, NULL, 0, LM_ANY_WINDOW)        opens the devices, reserves all memory
 *     lm_find_sequence(image, "compute", &sequence)
 *     lm_find_tensor(image, "n", &in), lm_input(image, in, 4, &n)
 *     lm_find_tensor(image, "result", &out), lm_output(image, out, 4, &result)
 *     lm_freeze(image)                              from here on nothing is allocated
 *     lm_run(image, sequence)                       as often as wanted: write *n, run, read *result
 *     lm_close(image)
 *
 * Link with liblightmetal.a and -lpthread. README.md in this directory describes what the archive
 * does to a process: threads, signals, memory.
 *
 * STATUS. Every function except lm_abi returns an enum lm_status: LM_OK, or the positive exit
 * status with which a program that ends for this reason should exit. lm_last_error returns the
 * details. Misuse (a handle that is not open, NULL, an index or size out of range, calls in the
 * wrong order or from two threads at once) returns LM_USAGE or LM_BAD_IMAGE and is never undefined,
 * with two exceptions: a pointer that is neither NULL nor valid, and memory used after lm_close.
 *
 * THREADS. An image belongs to one thread: the one that calls lm_freeze must also call lm_run, and
 * calls on one image must not overlap (an overlapping call returns LM_USAGE). Different images may
 * run on different threads. lm_open, lm_load, lm_freeze, lm_seal and lm_close wait for each other.
 * No function may be called from a signal handler, or in a child of fork() before exec.
 *
 * MEMORY. lm_run, lm_last_error, lm_find_sequence, lm_find_tensor, lm_image_info, lm_tensor_info,
 * lm_sequence_name, lm_input, lm_output, lm_limit, lm_longest, lm_abi and lm_version allocate
 * nothing and make no system call of their own, except that lm_run waits. lm_open, lm_load,
 * lm_freeze, lm_seal and lm_close may allocate, and so may the first call of a thread. The caller
 * frees nothing that is returned.
 */
#ifndef LIGHTMETAL_H
#define LIGHTMETAL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define LM_STATIC_ASSERT static_assert
#else
#define LM_STATIC_ASSERT _Static_assert
#endif

/* Grows with every change of this file. lm_abi() returns the value of the archive. */
#define LM_ABI 3

/* An open image: a small positive number, never used again after lm_close. */
typedef int32_t lm_handle;

/* No image: lm_last_error then returns failures of calls that had no open image. */
#define LM_NO_IMAGE 0

/* How a call ended: the exit status of lmrun for the same reason. */
enum lm_status {
	LM_OK = 0,
	LM_USAGE = 64,        /* wrong handle, order or argument, or an input without data */
	LM_BAD_IMAGE = 65,    /* no valid image, or data of another size than the tensor's */
	LM_NO_FILE = 66,      /* there is no such file */
	LM_NO_DEVICE = 69,    /* the device is absent, in use, or cannot be opened */
	LM_INTERNAL = 70,     /* a defect of this library, an access that the device rejects, or a
	                         run of an image that an earlier failure has disabled */
	LM_DEVICE_LOST = 71,  /* the device is gone, an access to it was a bus error, or its DMA did
	                         not reach memory */
	LM_IO = 74,           /* reading a file failed; of lm_run: the image file was cut short */
	LM_LATE = 75,         /* the deadline of a poll, or the limit of a run, passed */
	LM_MISMATCH = 76,     /* an expect failed, or output differs from its golden data */
	LM_DENIED = 77,       /* not permitted */
	LM_WRONG_DEVICE = 78  /* the image is for another device */
};

/* The reason, in more detail than the status. The numbers never change their meaning. */
enum lm_code {
	LM_CODE_OK = 0,
	LM_CODE_USAGE = 1,
	LM_CODE_BAD_IMAGE = 2,
	LM_CODE_NO_FILE = 3,
	LM_CODE_NO_DEVICE = 4,
	LM_CODE_INTERNAL = 5,
	LM_CODE_DEVICE_GONE = 6,
	LM_CODE_BUS_FAULT = 7,
	LM_CODE_IO = 8,
	LM_CODE_DEADLINE_PASSED = 9,
	LM_CODE_EXPECT_FAILED = 10,
	LM_CODE_COMPARE_FAILED = 11,
	LM_CODE_DENIED = 12,
	LM_CODE_WRONG_DEVICE = 13,
	LM_CODE_REFUSED = 14,
	LM_CODE_BAD_TENSOR = 15,
	LM_CODE_INPUT_MISSING = 16,
	LM_CODE_DISABLED = 17,
	LM_CODE_RUN_LATE = 18,
	LM_CODE_MASTER_OFF = 19,
	LM_CODE_DMA_FAULT = 20
};

/*
 * How a call ended. After success every field is 0, except command and safe, which are -1, and
 * ignored after a run.
 *
 * command is the index in the image, counted from 0 over all sequences. The text of lm_last_error
 * counts within the sequence: "command 3 of main".
 */
struct lm_error {
	int32_t status;    /* enum lm_status: what the call returned */
	int32_t code;      /* enum lm_code */
	int32_t command;   /* index in the image of the failing command, -1: none was executed */
	int32_t safe;      /* enum lm_code: how the sequence "safe" ended, -1: it did not run */
	uint64_t got;      /* the value that an expect or poll loaded last, or of a comparison */
	uint64_t want;     /* the value that was expected */
	uint64_t mask;     /* the bits of both that count */
	uint64_t element;  /* of a comparison: index of the first element that differs */
	uint32_t ignored;  /* failures that the image says to ignore, also after success */
	uint32_t reserved; /* 0 */
};
LM_STATIC_ASSERT(sizeof(struct lm_error) == 56, "lm_error");

/* A buffer of this many bytes holds nearly every text; a longer one is cut. */
#define LM_TEXT_MAX 512

#define LM_NAME_MAX 255 /* bytes of a name, without the final zero */
#define LM_DIMS_MAX 8
#define LM_DEVICES_MAX 8

/* The contents of an image. Indices count from 0. */
struct lm_image {
	uint64_t arena_bytes;   /* memory for all tensors: lm_load reserves it, lm_freeze locks it */
	uint64_t host_bytes;    /* memory that the device can access: lm_load reserves it */
	uint64_t payload_bytes; /* data in the file; lm_open copies only the default data of inputs */
	uint32_t devices;
	uint32_t sequences;
	uint32_t tensors;
	uint32_t commands;
};
LM_STATIC_ASSERT(sizeof(struct lm_image) == 40, "lm_image");

enum lm_role { LM_INPUT = 1, LM_OUTPUT = 2 };

/* Type of an element; all are little endian. Numbers are those of the file. */
enum lm_dtype {
	LM_INT8 = 1,
	LM_UINT8 = 2,
	LM_INT16 = 3,
	LM_UINT16 = 4,
	LM_INT32 = 5,
	LM_UINT32 = 6,
	LM_INT64 = 7,
	LM_UINT64 = 8,
	LM_FLOAT16 = 9,
	LM_BFLOAT16 = 10,
	LM_FLOAT32 = 11,
	LM_FLOAT64 = 12
};

struct lm_tensor {
	char name[LM_NAME_MAX + 1]; /* ends with a zero */
	uint64_t size;              /* bytes of all elements */
	uint32_t role;              /* enum lm_role */
	uint32_t dtype;             /* enum lm_dtype */
	uint32_t has_data;          /* 1: the image has default data (input) or golden data (output) */
	uint32_t dims;              /* dimensions in shape, 0: one element */
	uint32_t shape[LM_DIMS_MAX];
};
LM_STATIC_ASSERT(sizeof(struct lm_tensor) == 312, "lm_tensor");

struct lm_version {
	uint64_t schema_hash;  /* of the images this archive reads; no other is accepted */
	uint32_t abi;          /* LM_ABI when the archive was made */
	uint16_t format_major; /* of the images */
	uint16_t format_minor;
};
LM_STATIC_ASSERT(sizeof(struct lm_version) == 16, "lm_version");

/* Returns LM_ABI of the archive. A host compares it with its own before any other call. */
uint32_t lm_abi(void);

int lm_version(struct lm_version *version);

/*
 * Maps a file and verifies every byte of it. path has at most 4095 bytes. *image is set only if
 * the call succeeds. At most 16 images may be open. The file must not be written to while it is
 * open: replace it by a rename. /proc must be mounted before the first call of a process, because
 * Go reads there, once, where the stack of the thread ends.
 * LM_NO_FILE, LM_DENIED, LM_IO; LM_BAD_IMAGE; LM_USAGE: 16 are open; LM_DENIED: sealed.
 */
int lm_open(const char *path, lm_handle *image);

/*
 * Opens an image in memory of the host, such as one linked into the firmware. data must be a
 * multiple of 8, and stay valid and unchanged until lm_close.
 */
int lm_open_memory(const void *data, size_t size, lm_handle *image);

/*
 * Opens a file like lm_open, if one of these public keys has signed it; `lm sign` signs. The
 * signature is checked before anything else in the file is read. keys: one key of 64 hex digits a
 * line, at most 4095 bytes; empty lines and lines that begin with # are skipped.
 * LM_DENIED: not signed, signed by another key, or the archive was built without `--signed`.
 */
int lm_open_signed(const char *path, const char *keys, lm_handle *image);

/* Image and device choose the TLB windows. */
#define LM_ANY_WINDOW (-1)

/*
 * Sets how long a sequence may take in the worst case, with every call included and every poll
 * lasting until its deadline. Without this call it is an hour. lm_load rejects an image with a
 * longer sequence (LM_BAD_IMAGE); a run that takes longer by the clock ends like one beyond
 * lm_limit. After lm_open, before lm_load.
 */
int lm_longest(lm_handle image, uint64_t nanoseconds);

/*
 * Opens the devices, one for each device of the image in its order, checks that they are those
 * that the image is for, and reserves everything that runs need. It stores nothing to a device's
 * BARs, but may enable its memory decoding, and its bus mastering if the image lets it access
 * memory. A call that failed may be repeated.
 *
 * devices: names such as "pci:1e52:401e", "pci:0000:01:00.0", "vfio:0000:01:00.0" or
 *   "tt:/dev/tenstorrent/0", which are copied. NULL as a name, or as devices, means the only
 *   device with the PCI ids in the image, opened through sysfs. Each device of the image needs a
 *   PCI function of its own.
 * count: length of devices; 0 if and only if devices is NULL.
 * window: number of the TLB window to use for the first movable window of the image, 0 to 65534;
 *   further ones use the numbers after it. Or LM_ANY_WINDOW.
 * LM_USAGE: names or number of the devices; LM_NO_DEVICE; LM_WRONG_DEVICE;
 * LM_BAD_IMAGE: an access that the board does not accept, or a sequence that may take longer than
 * an hour, or than lm_longest allows; LM_DENIED.
 */
int lm_load(lm_handle image, const char *const *devices, uint32_t count, int32_t window);

/*
 * Prepares for runs that allocate nothing: it locks the arena into memory, turns Go's garbage
 * collector off and fixes Go's number of processors, both for the whole process and for good, and
 * blocks SIGURG on the calling thread, which must be the one that runs the image.
 * LM_DENIED: RLIMIT_MEMLOCK is below arena_bytes.
 */
int lm_freeze(lm_handle image);

/*
 * Makes the kernel kill the whole process, with all its threads, at the first system call that
 * could create, map or open something. This cannot be undone. Call lm_freeze first for every image
 * that is to run. Still allowed are read, write, pread64, pwrite64, futex, the sleeps,
 * epoll_pwait, sched_yield, the clocks, return from signals, signal mask and stack, tgkill,
 * getpid, gettid and exit; so no stdio, no malloc that grows and no reboot(2). Afterwards lm_open,
 * lm_load, lm_freeze and lm_seal fail, and lm_close frees no memory.
 * LM_DENIED: the kernel refuses, or a thread already has another filter.
 */
int lm_seal(lm_handle image);

/* After lm_open. */
int lm_image_info(lm_handle image, struct lm_image *info);

/* LM_USAGE: the image has no sequence or tensor of that name. After lm_open. */
int lm_find_sequence(lm_handle image, const char *name, uint32_t *sequence);
int lm_find_tensor(lm_handle image, const char *name, uint32_t *tensor);

/* Copies the name of a sequence, cut to size bytes with a final zero. After lm_open. */
int lm_sequence_name(lm_handle image, uint32_t sequence, char *name, size_t size);

int lm_tensor_info(lm_handle image, uint32_t tensor, struct lm_tensor *info);

/*
 * Returns the bytes of an input in the arena, which the host writes and each lm_run reads. The
 * first call copies the default data there, or zeros if the image has none; without a call runs
 * read the default data. size is the number of bytes that the host will write and must be the
 * tensor's. *data is a multiple of 64 and valid until lm_close. After lm_load.
 * LM_BAD_IMAGE: another size; LM_USAGE: the tensor is an output.
 */
int lm_input(lm_handle image, uint32_t tensor, size_t size, void **data);

/*
 * Returns the bytes of an output in the arena, which lm_run writes and the host reads between
 * runs. The rules of lm_input apply. They are zero before the first run; after a failed run they
 * are incomplete.
 */
int lm_output(lm_handle image, uint32_t tensor, size_t size, const void **data);

/*
 * Limits how long each later run may take, in nanoseconds; 0: as long as lm_longest allows. A run
 * that takes longer ends with LM_LATE and LM_CODE_RUN_LATE. After lm_load.
 */
int lm_limit(lm_handle image, uint64_t nanoseconds);

/*
 * Executes a sequence and returns when it has ended; every wait in it has a deadline. After a
 * failure the sequence "safe" runs, if the image has one, and the image is disabled: each further
 * run returns LM_INTERNAL with LM_CODE_DISABLED, until the image is closed, opened and loaded
 * again. After lm_freeze.
 * LM_DEVICE_LOST, LM_LATE, LM_MISMATCH, LM_INTERNAL; LM_IO: the image file was cut short;
 * LM_USAGE: an input has no default data and lm_input was not called (LM_CODE_INPUT_MISSING).
 */
int lm_run(lm_handle image, uint32_t sequence);

/*
 * Returns how the last call on the image ended, not counting lm_last_error itself; for LM_NO_IMAGE
 * the last failure of a call without an open image. error and text may be NULL. text receives one
 * line without a newline, cut to size bytes with a final zero, such as
 *   poll deadline passed: command 3 of main: got 0x81, wanted 0x0 under mask 0x1;
 *   sequence safe: done
 * LM_USAGE, and an empty text: no open image has the handle, or another thread is in a call on it.
 */
int lm_last_error(lm_handle image, struct lm_error *error, char *text, size_t size);

/*
 * Closes an image with its devices and frees its memory. Pointers from lm_input and lm_output
 * become invalid, and so does the handle, whatever the call returns. It ends bus mastering and
 * leaves the registers of the devices as they are; to change them, run a sequence of the image
 * first. LM_IO: the kernel refused.
 */
int lm_close(lm_handle image);

#ifdef __cplusplus
}
#endif
#endif
