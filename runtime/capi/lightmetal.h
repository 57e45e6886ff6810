/*
 * lightmetal: replay of Light Metal binaries, for C11 and C++11.
 *
 *     lm_handle image;
 *     void *n; const void *result; uint32_t sequence, in, out;
 *
 *     lm_open("model.lmb", &image)                  maps the file, verifies every byte
 *     lm_load(image, NULL, 0, LM_ANY_WINDOW)        opens the devices, reserves everything
 *     lm_find_sequence(image, "compute", &sequence)
 *     lm_find_tensor(image, "n", &in), lm_input(image, in, 4, &n)
 *     lm_find_tensor(image, "result", &out), lm_output(image, out, 4, &result)
 *     lm_freeze(image)                              nothing is allocated after this
 *     lm_run(image, sequence)                       as often as wanted: write *n, run, read *result
 *     lm_close(image)
 *
 * Link with liblightmetal.a and -lpthread; README.md beside this file tells
 * what the archive does to a process: threads, signals, memory.
 *
 * STATUS. Every function but lm_abi returns an enum lm_status: LM_OK, or the
 * exit status that a program which ends for that reason should have. It is
 * positive. lm_last_error tells more. Misuse (a handle that is not open, NULL,
 * an index or size out of range, calls in the wrong order or from two threads at
 * once) is LM_USAGE or LM_BAD_IMAGE, never undefined, with two exceptions: a
 * pointer that is neither NULL nor valid, and memory used after lm_close.
 *
 * THREADS. One image belongs to one thread: the one that calls lm_freeze must be
 * the one that calls lm_run, and calls on one image must not overlap (one that
 * does is refused with LM_USAGE). Different images may run on different
 * threads. lm_open, lm_load, lm_freeze, lm_seal and lm_close wait for each
 * other. No function may be called from a signal handler, or in a child of
 * fork() before exec.
 *
 * MEMORY. lm_run, lm_last_error, lm_find_sequence, lm_find_tensor, lm_image_info,
 * lm_tensor_info, lm_sequence_name, lm_input, lm_output, lm_limit, lm_longest,
 * lm_abi and lm_version allocate nothing and make no system call of their own (lm_run: but
 * for waiting). lm_open, lm_load, lm_freeze, lm_seal and lm_close do, and so may
 * the first call that a thread makes. Nothing returned is to be freed.
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

/* Grows with every change of what is in this file. lm_abi() gives the archive's. */
#define LM_ABI 2

/* An open image: a small positive number, never used again after lm_close. */
typedef int32_t lm_handle;

/* No image: what lm_last_error takes for failures of calls that had none. */
#define LM_NO_IMAGE 0

/* How a call ended: the exit status of lmrun for the same reason. */
enum lm_status {
	LM_OK = 0,
	LM_USAGE = 64,        /* the call makes no sense: handle, order, argument, or an input without data */
	LM_BAD_IMAGE = 65,    /* no valid image, or data of another size than the tensor's */
	LM_NO_FILE = 66,      /* there is no such file */
	LM_NO_DEVICE = 69,    /* the device is not there, is in use, or cannot be opened */
	LM_INTERNAL = 70,     /* a defect of this library, an access the device refuses, or an image disabled by a failure */
	LM_DEVICE_LOST = 71,  /* the device is gone, answered with a bus error, or its DMA did not reach memory */
	LM_IO = 74,           /* reading a file failed; of lm_run: the image file was cut short */
	LM_LATE = 75,         /* a poll's deadline, or the limit of a run, passed */
	LM_MISMATCH = 76,     /* an expect failed, or a range differs from its golden data */
	LM_DENIED = 77,       /* not permitted */
	LM_WRONG_DEVICE = 78  /* the image is for another device */
};

/* Why, in finer steps than the status. The numbers never change their meaning. */
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

/* What happened. Everything is 0 after a call that ended well, but command -1,
 * safe -1, and ignored after a run. */
struct lm_error {
	int32_t status;    /* enum lm_status, what the call returned */
	int32_t code;      /* enum lm_code */
	int32_t command;   /* index in the image of the command that failed, -1: none was carried out */
	int32_t safe;      /* enum lm_code: how the sequence "safe" ended, -1: it did not run */
	uint64_t got;      /* what a poll or expect loaded last, or a comparison at element */
	uint64_t want;
	uint64_t mask;
	uint64_t element;  /* of a comparison: the first that differs */
	uint32_t ignored;  /* failures that the image says to pass over, in a good run too */
	uint32_t reserved; /* 0 */
};
LM_STATIC_ASSERT(sizeof(struct lm_error) == 56, "lm_error");

/* A buffer of this many bytes holds nearly every text; a longer one is cut. */
#define LM_TEXT_MAX 512

#define LM_NAME_MAX 255 /* bytes of a name, without the final zero */
#define LM_DIMS_MAX 8
#define LM_TARGETS_MAX 8

/* What an image is made of. Indices count from 0. */
struct lm_image {
	uint64_t arena_bytes;   /* taken by lm_load for all tensors, locked by lm_freeze */
	uint64_t host_bytes;    /* taken by lm_load for memory that the device reaches */
	uint64_t payload_bytes; /* data in the file; of a file, lm_open
	                           copies those of recorded inputs alone */
	uint32_t targets;       /* devices */
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
	uint32_t recorded;          /* 1: the image has default data (input) or golden data (output) */
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

/* LM_ABI of the archive. A host compares it with its own before anything else. */
uint32_t lm_abi(void);

int lm_version(struct lm_version *version);

/*
 * Maps a file and verifies every byte of it. path: at most 4095 bytes. *image is set only on
 * LM_OK. 16 images may be open at once. The file must not be written to while it is
 * open: replace it by rename. /proc must be mounted before a process's first
 * call: Go reads there where the thread's stack ends, once.
 * LM_NO_FILE, LM_DENIED, LM_IO; LM_BAD_IMAGE; LM_USAGE: 16 are open; LM_DENIED: sealed.
 */
int lm_open(const char *path, lm_handle *image);

/*
 * The same for an image in the host's memory, such as one linked into the
 * firmware. data is a multiple of 8 and stays valid and unchanged until lm_close.
 */
int lm_open_memory(const void *data, size_t size, lm_handle *image);

/*
 * lm_open for a file that one of these public keys has signed; `lm sign` signs. The
 * signature is looked at before anything in the file is believed. keys: 64 hex
 * digits a line; empty lines and lines that begin with # do not count; at most
 * 4095 bytes.
 * LM_DENIED: not signed, by another key, or the archive was made without
 * `--signed` and cannot tell.
 */
int lm_open_signed(const char *path, const char *keys, lm_handle *image);

/* A hardware window is chosen by image and device. */
#define LM_ANY_WINDOW (-1)

/*
 * Allows sequences that may take this many nanoseconds at worst, calls
 * multiplied out, with every poll until its deadline; without this call it is an
 * hour. lm_load refuses an image with a sequence beyond, LM_BAD_IMAGE. A run that
 * takes longer by the clock ends as one beyond lm_limit. After lm_open, before lm_load.
 */
int lm_longest(lm_handle image, uint64_t nanoseconds);

/*
 * Opens the devices, one for each target of the image in order, holds them
 * against the image, and takes all that runs need. Stores nothing to a device's
 * BARs, but may switch its memory decoding on, and its bus mastering where the image
 * has it reach memory. A call that failed may be repeated.
 *
 * devices: names such as "pci:1e52:401e", "pci:0000:01:00.0", "vfio:0000:01:00.0"
 *   or "tt:/dev/tenstorrent/0", kept by nobody; a NULL among them, or in their
 *   place, stands for the only device with the PCI ids in the image, through
 *   sysfs. count: length of devices, 0 where it is NULL and only there. Each
 *   target needs a device of its own.
 * window: the hardware window that the first TLB window must sit in, further
 *   ones in those after it, 0..65534, or LM_ANY_WINDOW.
 * LM_USAGE: name or number of devices; LM_NO_DEVICE; LM_WRONG_DEVICE;
 * LM_BAD_IMAGE: an access that the board does not accept, or a sequence that may
 * take longer than an hour, or than lm_longest allows; LM_DENIED.
 */
int lm_load(lm_handle image, const char *const *devices, uint32_t count, int32_t window);

/*
 * Makes the process ready for runs that allocate nothing: locks the arena into
 * memory, switches Go's garbage collector off and fixes its number of
 * processors, both for the whole process and for good, and blocks SIGURG on the
 * calling thread, which is from now on the one that runs the image.
 * LM_DENIED: RLIMIT_MEMLOCK is below arena_bytes.
 */
int lm_freeze(lm_handle image);

/*
 * Makes the kernel kill the whole process, all its threads, at the first system
 * call that could make, map or open something, for good. Comes after the
 * lm_freeze of every image that is to run. What stays allowed: read, write,
 * pread64, pwrite64, futex, the sleeps, epoll_pwait, sched_yield, the clocks,
 * signal return, mask and stack, tgkill, getpid, gettid, exit. That is no stdio,
 * no malloc that grows, no reboot(2). lm_open, lm_load, lm_freeze and lm_seal are
 * refused from then on, and lm_close gives no memory back.
 * LM_DENIED: the kernel refuses, or a thread has a filter of its own.
 */
int lm_seal(lm_handle image);

/* After lm_open. */
int lm_image_info(lm_handle image, struct lm_image *info);

/* LM_USAGE: the image has no sequence or tensor of that name. After lm_open. */
int lm_find_sequence(lm_handle image, const char *name, uint32_t *sequence);
int lm_find_tensor(lm_handle image, const char *name, uint32_t *tensor);

/* The name of a sequence, with a final zero, cut to size bytes. After lm_open. */
int lm_sequence_name(lm_handle image, uint32_t sequence, char *name, size_t size);

int lm_tensor_info(lm_handle image, uint32_t tensor, struct lm_tensor *info);

/*
 * The bytes of an input, in the arena: the host writes them, each lm_run reads
 * them. The first call puts the recorded default there, if there is one, else
 * they are zero; without any call runs take the recorded default. size is the
 * number of bytes that the host will write and must be the tensor's.
 * *data is a multiple of 64 and valid until lm_close. After lm_load.
 * LM_BAD_IMAGE: another size; LM_USAGE: it is an output.
 */
int lm_input(lm_handle image, uint32_t tensor, size_t size, void **data);

/*
 * The bytes of an output, in the arena: lm_run writes them, the host reads them
 * between runs. Same rules as lm_input; zero before the first run. After a run
 * that failed they are whatever came until then.
 */
int lm_output(lm_handle image, uint32_t tensor, size_t size, const void **data);

/*
 * Limits how long each later run may take, in nanoseconds; 0: what lm_longest
 * allows. A run that takes longer ends with LM_LATE and LM_CODE_RUN_LATE. After lm_load.
 */
int lm_limit(lm_handle image, uint64_t nanoseconds);

/*
 * Carries out a sequence. It returns when the sequence has ended; every wait in it has
 * a bound. After a failure the sequence "safe" runs, if the image has one, and
 * the image stays disabled: each further run is LM_INTERNAL with
 * LM_CODE_DISABLED; to go on, close it, open it and load it again. After lm_freeze.
 * LM_DEVICE_LOST, LM_LATE, LM_MISMATCH, LM_INTERNAL; LM_USAGE: an input
 * has neither recorded data nor had lm_input called (LM_CODE_INPUT_MISSING).
 */
int lm_run(lm_handle image, uint32_t sequence);

/*
 * How the last call on the image ended, lm_last_error not counted, or for LM_NO_IMAGE
 * the last failure of a call that had no open image. Either of error
 * and text may be NULL. text gets one line without a newline, cut to size bytes
 * with a final zero, or none where no image has the handle or another thread is in
 * a call on it (LM_USAGE), such as
 *   poll deadline passed: command 3 of main: got 0x81, wanted 0x0 under mask 0x1; sequence safe: done
 */
int lm_last_error(lm_handle image, struct lm_error *error, char *text, size_t size);

/*
 * Ends with an image: its devices are closed and its memory given back. Pointers
 * from lm_input and lm_output are invalid then, and so is the handle, whatever the call
 * returns. It stops devices from mastering the bus and does not touch their registers;
 * run a sequence of the image's own for that first. LM_IO: the kernel refused.
 */
int lm_close(lm_handle image);

#ifdef __cplusplus
}
#endif
#endif
