/*
 * lightmetal: a library that replays Light Metal images on PCIe devices, for C11 and C++11.
 *
 *     lm_handle image;
 *     void *n; const void *result; uint32_t sequence, in, out;
 *
 *     lm_open("model.lmb", &image)                  maps the file, verifies every byte
 *     lm_load(image, NULL, 0, LM_ANY_WINDOW)        opens the devices, reserves all memory
 *     lm_find_sequence(image, "compute", &sequence)
 *     lm_find_tensor(image, "n", &in), lm_input(image, in, 4, &n)
 *     lm_find_tensor(image, "result", &out), lm_output(image, out, 4, &result)
 *     lm_freeze(image)                              prepares for runs that allocate nothing
 *     lm_run(image, sequence)                       repeat: write to n, run, read from result
 *     lm_close(image)
 *
 * Link with liblightmetal.a and -lpthread. README.md in this directory describes how the archive
 * affects the threads, signals and memory of a process.
 *
 * STATUS. Every function except lm_abi returns an enum lm_status: LM_OK, or the positive exit
 * status with which a program that ends for this reason should exit. lm_last_error returns the
 * details. Below the description of each function are the statuses that it may return. Misuse
 * returns LM_USAGE or LM_BAD_IMAGE: a handle that is not open, NULL, an index or size out of range,
 * calls in the wrong order or from two threads at once. Only two kinds of misuse are undefined: to
 * pass a pointer that is neither NULL nor valid, and to use memory of an image after lm_close.
 *
 * THREADS. An image belongs to one thread: the one that calls lm_freeze must also call lm_run, and
 * calls on one image must not overlap (an overlapping call returns LM_USAGE). Different images may
 * run on different threads. lm_open, lm_load, lm_freeze, lm_seal and lm_close wait for each other.
 * No function may be called from a signal handler, or in a child of fork() before exec.
 *
 * MEMORY. lm_run, lm_last_error, lm_find_sequence, lm_find_tensor, lm_image_info, lm_tensor_info,
 * lm_sequence_name, lm_input, lm_output, lm_limit, lm_longest, lm_abi and lm_version allocate
 * nothing. These functions make no system calls of their own, except lm_run, which waits for the
 * devices. lm_open, lm_load, lm_freeze, lm_seal and lm_close may allocate, and the first call of a
 * thread may allocate, too. The caller must not free memory that a function returns.
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

/* Version of this interface; increases with every change of a declaration in this file. lm_abi()
   returns the value with which the archive was built. */
#define LM_ABI 3

/* Handle of an open image: a positive number. After lm_close the handle is not used again, except
   after millions of other images. */
typedef int32_t lm_handle;

/* The handle of no image. For this handle, lm_last_error describes the last failure of a call that
   had no open image, such as lm_open. */
#define LM_NO_IMAGE 0

/* The result of a call. lmrun exits with the same status for the same reason. */
enum lm_status {
	LM_OK = 0,
	LM_USAGE = 64,        /* wrong handle, argument or order of calls, or an input without data */
	LM_BAD_IMAGE = 65,    /* the image is not valid, or a size is not the size of the tensor */
	LM_NO_FILE = 66,      /* the file does not exist */
	LM_NO_DEVICE = 69,    /* the device is absent, in use, or cannot be opened */
	LM_INTERNAL = 70,     /* this library has a defect, the device rejected an access, or an
	                         earlier failure has disabled the image */
	LM_DEVICE_LOST = 71,  /* the device is gone, an access to the device caused a bus error, or
	                         DMA of the device did not reach memory */
	LM_IO = 74,           /* reading a file failed; from lm_run: the image file was truncated */
	LM_LATE = 75,         /* the deadline of a poll passed, or a run took longer than its limit */
	LM_MISMATCH = 76,     /* an expect failed, or an output differs from its golden data */
	LM_DENIED = 77,       /* no permission, an invalid signature, or the process is sealed */
	LM_WRONG_DEVICE = 78  /* the image is for another device */
};

/* The reason of a failure, in more detail than enum lm_status. A number never changes its
   meaning; later versions may add numbers. */
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
 * Describes how a call ended. After a success every field is 0, except command and safe, which
 * are -1, and ignored, which lm_run sets.
 *
 * command counts from 0 over all sequences of the image. The text of lm_last_error counts from 0
 * within the sequence: "command 3 of main".
 */
struct lm_error {
	int32_t status;    /* enum lm_status: the status that the call returned */
	int32_t code;      /* enum lm_code: the reason in more detail */
	int32_t command;   /* index in the image of the command that failed; -1: no command failed */
	int32_t safe;      /* enum lm_code: how the sequence "safe" ended; -1: it did not run */
	uint64_t got;      /* the value that the failing expect, poll or compare loaded last */
	uint64_t want;     /* the value that the failing expect, poll or compare expected */
	uint64_t mask;     /* the bits of got and want that are compared */
	uint64_t element;  /* after a failing compare: index of the first element that differs */
	uint32_t ignored;  /* number of failures that the run ignored because the image allows it;
	                      also set after a success */
	uint32_t reserved; /* always 0 */
};
LM_STATIC_ASSERT(sizeof(struct lm_error) == 56, "lm_error");

/* Bytes of a buffer that is large enough for nearly every text of lm_last_error, which cuts a
   longer text. */
#define LM_TEXT_MAX 512

#define LM_NAME_MAX 255  /* largest length of a name in bytes, without the final zero */
#define LM_DIMS_MAX 8    /* largest number of dimensions of a tensor */
#define LM_DEVICES_MAX 8 /* largest number of devices of an image */

/* The contents of an image. An index of a sequence or tensor counts from 0. */
struct lm_image {
	uint64_t arena_bytes;   /* memory for all tensors: lm_load reserves it, lm_freeze locks it */
	uint64_t host_bytes;    /* memory that the devices can access: lm_load reserves it */
	uint64_t payload_bytes; /* data in the file; lm_open copies only the default data of inputs */
	uint32_t devices;       /* number of devices that the image needs */
	uint32_t sequences;     /* number of sequences, each of which lm_run can execute */
	uint32_t tensors;       /* number of inputs and outputs */
	uint32_t commands;      /* number of commands in all sequences */
};
LM_STATIC_ASSERT(sizeof(struct lm_image) == 40, "lm_image");

/* Role of a tensor: the host writes an input, and lm_run writes an output. */
enum lm_role { LM_INPUT = 1, LM_OUTPUT = 2 };

/* Type of a tensor's elements. All types are little endian. The file uses the same numbers. */
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

/* Describes a tensor of an image. */
struct lm_tensor {
	char name[LM_NAME_MAX + 1]; /* name, followed by at least one zero */
	uint64_t size;              /* size of all elements in bytes */
	uint32_t role;              /* enum lm_role */
	uint32_t dtype;             /* enum lm_dtype: type of an element */
	uint32_t has_data;          /* 1: the image has default data (input) or golden data (output) */
	uint32_t dims;              /* number of dimensions; 0: the tensor is one element */
	uint32_t shape[LM_DIMS_MAX]; /* elements in each dimension; 0 after the first dims entries */
};
LM_STATIC_ASSERT(sizeof(struct lm_tensor) == 312, "lm_tensor");

/* Describes the archive. */
struct lm_version {
	uint64_t schema_hash;  /* hash of the image schema; images with another hash are rejected */
	uint32_t abi;          /* value of LM_ABI with which the archive was built */
	uint16_t format_major; /* major version of the image format that the archive reads */
	uint16_t format_minor; /* minor version of the image format that the archive reads */
};
LM_STATIC_ASSERT(sizeof(struct lm_version) == 16, "lm_version");

/* Returns the value of LM_ABI with which the archive was built. The host should compare it with
   LM_ABI of this header before any other call. */
uint32_t lm_abi(void);

/* Sets *version to the versions of the archive and of the image format. */
int lm_version(struct lm_version *version);

/*
 * Opens an image file: maps it and verifies every byte. path has at most 4095 bytes. *image is set
 * only if the call succeeds. At most 16 images may be open. While the file is open, no program may
 * write to it; to replace the file, rename another file to its name. /proc must be mounted before
 * the first call of a process, because Go reads the bounds of the thread's stack there, only once.
 * LM_NO_FILE, LM_IO, LM_BAD_IMAGE; LM_DENIED: no permission, or the process is sealed;
 * LM_USAGE: 16 images are open.
 */
int lm_open(const char *path, lm_handle *image);

/*
 * Opens an image in memory of the host, such as an image that is linked into the firmware. The
 * address data must be a multiple of 8. The memory must remain valid and unchanged until lm_close.
 */
int lm_open_memory(const void *data, size_t size, lm_handle *image);

/*
 * Opens a file like lm_open if the file was signed with one of the given keys (see `lm sign`). The
 * signature is checked before the image in the file is read. keys: public keys of 64 hex digits,
 * one in each line, at most 4095 bytes; empty lines and lines that begin with # are skipped.
 * LM_DENIED: the file is not signed or is signed with another key, or the archive was built without
 * `--signed`.
 */
int lm_open_signed(const char *path, const char *keys, lm_handle *image);

/* A value for lm_load: the image and the device choose the TLB windows. */
#define LM_ANY_WINDOW (-1)

/*
 * Sets the longest time that a sequence may take in the worst case: with every sequence that it
 * calls, and with every poll lasting until its deadline. Without this call the time is an hour.
 * lm_load rejects an image with a longer sequence (LM_BAD_IMAGE). A run that takes longer by the
 * clock ends in the same way as a run that exceeds the limit of lm_limit. Call this function after
 * lm_open and before lm_load.
 */
int lm_longest(lm_handle image, uint64_t nanoseconds);

/*
 * Opens the devices, in the order of the devices in the image. Checks that the image is for these
 * devices, and reserves everything that runs need. lm_load stores nothing to the BARs of a device.
 * But it may enable memory decoding, and it enables bus mastering if the image lets the device
 * access memory. A call that failed may be repeated.
 *
 * devices: names such as "pci:1e52:401e", "pci:0000:01:00.0", "vfio:0000:01:00.0" or
 *   "tt:/dev/tenstorrent/0"; the call copies them. A name that is NULL means the only device with
 *   the PCI ids in the image, opened through sysfs. If devices is NULL, every name is NULL. Each
 *   device of the image must be another PCI function.
 * count: number of names in devices; must be 0 if and only if devices is NULL.
 * window: number of the hardware's TLB window for the first movable window of the image, 0 to
 *   65534; the next movable windows use the next numbers. LM_ANY_WINDOW: any TLB windows.
 * LM_USAGE: the names or their number are wrong; LM_NO_DEVICE; LM_WRONG_DEVICE; LM_DENIED;
 * LM_BAD_IMAGE: the board does not accept an access, or a sequence may take longer than an hour or
 * than the time of lm_longest.
 */
int lm_load(lm_handle image, const char *const *devices, uint32_t count, int32_t window);

/*
 * Prepares an image for runs that allocate nothing. lm_freeze locks the arena into memory. For the
 * rest of the process, it switches Go's garbage collector off and fixes Go's number of processors.
 * It blocks SIGURG on the calling thread, which must be the thread that calls lm_run.
 * LM_DENIED: RLIMIT_MEMLOCK is below arena_bytes.
 */
int lm_freeze(lm_handle image);

/*
 * Seals the process: from now on, the kernel kills the process at the first system call that could
 * create, map or open anything. This cannot be undone. Before lm_seal, call lm_freeze for every
 * image to run. These system calls remain allowed: read, write, pread64, pwrite64, futex, the
 * sleeps, epoll_pwait, sched_yield, the clocks, return from signals, signal mask and stack, tgkill,
 * getpid, gettid and exit. Therefore the process must not call stdio functions, a malloc that grows
 * the heap, or reboot(2). Afterwards lm_open, lm_load, lm_freeze and lm_seal fail, and lm_close
 * frees no memory.
 * LM_DENIED: the kernel rejects the filter, or a thread already has another filter.
 */
int lm_seal(lm_handle image);

/* Sets *info to the contents of an image. Call this function after lm_open. */
int lm_image_info(lm_handle image, struct lm_image *info);

/*
 * These functions set *sequence or *tensor to the index of the sequence or tensor with a name. Call
 * them after lm_open. LM_USAGE: the image has no sequence or tensor with this name.
 */
int lm_find_sequence(lm_handle image, const char *name, uint32_t *sequence);
int lm_find_tensor(lm_handle image, const char *name, uint32_t *tensor);

/*
 * Copies the name of a sequence and a final zero to name, at most size bytes. A longer name is cut.
 * Call this function after lm_open.
 */
int lm_sequence_name(lm_handle image, uint32_t sequence, char *name, size_t size);

/* Sets *info to the description of a tensor. Call this function after lm_open. */
int lm_tensor_info(lm_handle image, uint32_t tensor, struct lm_tensor *info);

/*
 * Sets *data to the address of an input's bytes in the arena. The host writes these bytes, and each
 * lm_run reads them. The first call fills them with the default data, or with zeros if the image
 * has no default data. If the host does not call lm_input, runs read the default data. size must be
 * the size of the tensor in bytes. *data is a multiple of 64 and is valid until lm_close. Call this
 * function after lm_load.
 * LM_BAD_IMAGE: size is not the size of the tensor; LM_USAGE: the tensor is an output.
 */
int lm_input(lm_handle image, uint32_t tensor, size_t size, void **data);

/*
 * Sets *data to the address of an output's bytes in the arena. lm_run writes these bytes, and the
 * host reads them between runs. Before the first run the bytes are zero; after a failed run they
 * are incomplete. size must be the size of the tensor in bytes. *data is a multiple of 64 and is
 * valid until lm_close. Call this function after lm_load.
 * LM_BAD_IMAGE: size is not the size of the tensor; LM_USAGE: the tensor is an input.
 */
int lm_output(lm_handle image, uint32_t tensor, size_t size, const void **data);

/*
 * Sets the limit of each later run in nanoseconds. A run that takes longer ends with LM_LATE and
 * LM_CODE_RUN_LATE. 0 removes the limit; the time of lm_longest still applies. Call this function
 * after lm_load.
 */
int lm_limit(lm_handle image, uint64_t nanoseconds);

/*
 * Executes a sequence and returns when the sequence has ended. Every wait in a sequence has a
 * deadline. After a failure lm_run also executes the sequence "safe", if the image has one, and
 * disables the image: each further run returns LM_INTERNAL with LM_CODE_DISABLED until the host has
 * closed, opened and loaded the image again. Call this function after lm_freeze.
 * LM_DEVICE_LOST, LM_LATE, LM_MISMATCH, LM_INTERNAL; LM_IO: the image file was truncated;
 * LM_USAGE: an input has no default data and lm_input was not called (LM_CODE_INPUT_MISSING).
 */
int lm_run(lm_handle image, uint32_t sequence);

/*
 * Describes how the last call on an image ended; lm_last_error itself does not count as a call. For
 * LM_NO_IMAGE it describes the last failure of a call without an open image. error and text may be
 * NULL. text receives one line without a newline but with a final zero, cut to size bytes. Example,
 * here in two lines:
 *   poll deadline passed: command 3 of main: got 0x81, wanted 0x0 under mask 0x1;
 *   sequence safe: done
 * LM_USAGE and an empty text: no open image has this handle, or another thread is in a call on the
 * image.
 */
int lm_last_error(lm_handle image, struct lm_error *error, char *text, size_t size);

/*
 * Closes an image and its devices, and frees the memory. The handle and all pointers from lm_input
 * and lm_output become invalid, even if the call fails. lm_close switches bus mastering off. It
 * changes no other register of the devices; to change registers, run a sequence of the image
 * before. LM_IO: a system call failed.
 */
int lm_close(lm_handle image);

#ifdef __cplusplus
}
#endif
#endif
