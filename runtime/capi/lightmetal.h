/*
 * lightmetal: a library that replays Light Metal images on PCIe devices, for C11 and C++11.
 *
 * An image is a file that contains data, and commands for devices, such as stores to registers. A
 * sequence is a list of commands with a name; lm_run executes one sequence. A tensor is an array of
 * numbers. The commands copy an input tensor to a device, and copy data from a device to an output
 * tensor. The arena is the memory of all tensors.
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
 * STATUS. Every function except lm_abi returns an enum lm_status. A program that ends because of a
 * failure should use it as its exit status. lm_last_error describes the failure in detail. The
 * description of a function ends with the failures that are specific to it.
 *
 * Misuse returns LM_USAGE or LM_BAD_IMAGE: a handle that is not open, NULL, an index or size out of
 * range, a call in the wrong order or from two threads at once. Only a pointer that is neither NULL
 * nor valid, and memory of an image after lm_close, have undefined behaviour.
 *
 * THREADS. The thread that calls lm_freeze for an image must also call lm_run for this image. Calls
 * on one image must not overlap: an overlapping call returns LM_USAGE. Different images may run on
 * different threads. lm_open, lm_load, lm_freeze, lm_seal and lm_close wait for each other.
 * No function may be called from a signal handler, or in a child of fork() before exec.
 *
 * MEMORY. These functions allocate nothing: lm_run, lm_last_error, lm_find_sequence,
 * lm_find_tensor, lm_image_info, lm_tensor_info, lm_sequence_name, lm_input, lm_output, lm_limit,
 * lm_longest, lm_abi and lm_version. Of these functions only lm_run makes system calls, for example
 * to wait for a device. lm_open, lm_load, lm_freeze, lm_seal and lm_close may allocate. The first
 * call that a thread makes may allocate and make system calls, whatever the function is. The caller
 * must not free memory that a function returns.
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

/* Version of this interface, which increases with every change of a declaration in this file. */
#define LM_ABI 5

/* Handle of an open image: a positive number. A handle that lm_close has closed can become the
   handle of another image only after millions of other images have been opened. */
typedef int32_t lm_handle;

/* A handle that never belongs to an image. For this handle, lm_last_error describes the most recent
   failure of a call that had no open image, such as lm_open. */
#define LM_NO_IMAGE 0

/* The result of a call, and exit status of lmrun. */
enum lm_status {
	LM_OK = 0,
	LM_USAGE = 64,        /* wrong handle, argument or order of calls; from lm_run: an input has no
	                         data, or no run has reset a ring */
	LM_BAD_IMAGE = 65,    /* the image is not valid, or a size is not the size of the tensor */
	LM_NO_FILE = 66,      /* the file does not exist */
	LM_NO_DEVICE = 69,    /* the device is absent, in use, or cannot be opened; from lm_run: the
	                         device cannot access memory, because bus mastering is off */
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

/* The reason for a failure, in more detail than enum lm_status. A number never changes its
   meaning; later versions may add numbers. An expect is a command that loads a value and checks a
   condition. A poll is an expect that repeats this until the condition is true or its deadline
   passes. A compare is a command that compares data on the device with golden (expected) data. */
enum lm_code {
	LM_CODE_OK = 0,              /* the call succeeded */
	LM_CODE_USAGE = 1,           /* wrong handle, argument or order of calls */
	LM_CODE_BAD_IMAGE = 2,       /* the file is not a complete, valid image */
	LM_CODE_NO_FILE = 3,         /* the file does not exist */
	LM_CODE_NO_DEVICE = 4,       /* the device does not exist or cannot be opened */
	LM_CODE_INTERNAL = 5,        /* this library has a defect */
	LM_CODE_DEVICE_GONE = 6,     /* the device does not answer: loads from it return all ones */
	LM_CODE_BUS_FAULT = 7,       /* an access to the device caused a bus error */
	LM_CODE_IO = 8,              /* reading a file failed */
	LM_CODE_DEADLINE_PASSED = 9, /* the condition of a poll did not become true in time */
	LM_CODE_EXPECT_FAILED = 10,  /* the condition of an expect was false */
	LM_CODE_COMPARE_FAILED = 11, /* data on the device differ from the golden data */
	LM_CODE_DENIED = 12,         /* no permission, an invalid signature, or a sealed process */
	LM_CODE_WRONG_DEVICE = 13,   /* the image is for another device */
	LM_CODE_REFUSED = 14,        /* the device or its mock rejected an access */
	LM_CODE_BAD_TENSOR = 15,     /* a size is not the size of the tensor */
	LM_CODE_INPUT_MISSING = 16,  /* an input has no default data, and lm_input was not called */
	LM_CODE_DISABLED = 17,       /* an earlier failure disabled the image; open it again */
	LM_CODE_RUN_LATE = 18,       /* the run took longer than its limit */
	LM_CODE_MASTER_OFF = 19,     /* the device cannot access memory: bus mastering is off */
	LM_CODE_DMA_FAULT = 20,      /* DMA of the device did not reach memory */
	LM_CODE_RING_UNSET = 21      /* the sequence advances a ring that no run has reset */
};

/*
 * Describes how a call ended. After a success, the fields `command` and `safe` are -1. All other
 * fields are then 0, except that `ignored` may be larger than 0 if the call was lm_run.
 *
 * The field `command` counts the commands of all sequences of the image from 0. The text of
 * lm_last_error counts the commands of one sequence from 0: "main, command 3".
 */
struct lm_error {
	int32_t status;    /* enum lm_status: the status that the call returned */
	int32_t code;      /* enum lm_code: the reason in more detail */
	int32_t command;   /* index in the image of the command that failed; -1: no command failed */
	int32_t safe;      /* enum lm_code: how the sequence "safe" ended; -1: it did not run */
	uint64_t got;      /* the value that the failed expect, poll or compare loaded last */
	uint64_t want;     /* the value that the failed expect, poll or compare expected; for a counter:
	                      the value that the counter should have reached or passed */
	uint64_t mask;     /* bits of `got` and `want` that the command compared */
	uint64_t element;  /* if a compare failed: index of the first element that differs; an element
	                      has the width of one access */
	uint32_t ignored;  /* number of failures after which the run continued, because the image
	                      allows them; also set after a success */
	uint32_t reserved; /* always 0 */
};
LM_STATIC_ASSERT(sizeof(struct lm_error) == 56, "lm_error");

/* A buffer size, in bytes, that is sufficient for nearly all texts of lm_last_error. The function
   cuts a longer text. */
#define LM_TEXT_MAX 512

#define LM_NAME_MAX 255  /* largest length of a name in bytes, not counting the terminating NUL */
#define LM_DIMS_MAX 8    /* largest number of dimensions of a tensor */
#define LM_DEVICES_MAX 8 /* largest number of devices of an image */

/* Describes the contents of an image. The first sequence of an image has the index 0, and so does
   the first tensor. */
struct lm_image {
	uint64_t arena_bytes;   /* memory for all tensors; lm_load reserves it, lm_freeze locks it */
	uint64_t host_bytes;    /* memory that the devices access by DMA; lm_load reserves it */
	uint64_t payload_bytes; /* data in the file; lm_open copies only default data of inputs to
	                           memory, and runs read all other data from the mapped file */
	uint32_t devices;       /* number of devices that the image needs */
	uint32_t sequences;     /* number of sequences, each of which lm_run can execute */
	uint32_t tensors;       /* number of inputs, outputs and scratch tensors */
	uint32_t commands;      /* number of commands in all sequences */
};
LM_STATIC_ASSERT(sizeof(struct lm_image) == 40, "lm_image");

/* Role of a tensor. The caller writes an input, and lm_run writes an output. Only lm_run uses
   scratch: for values that it loads and stores. */
enum lm_role { LM_INPUT = 1, LM_OUTPUT = 2, LM_SCRATCH = 3 };

/* Type of the elements of a tensor. All types are little endian. Image files use the same
   numbers for the types. */
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
	char name[LM_NAME_MAX + 1]; /* name, followed by at least one NUL */
	uint64_t size;              /* size of all elements in bytes */
	uint32_t role;              /* enum lm_role */
	uint32_t dtype;             /* enum lm_dtype: type of an element */
	uint32_t has_data;          /* 1: the image has default data (input) or golden data (output) */
	uint32_t dims;              /* number of dimensions; 0: the tensor is one element */
	uint32_t shape[LM_DIMS_MAX]; /* elements in each dimension; 0 after the first `dims` entries */
};
LM_STATIC_ASSERT(sizeof(struct lm_tensor) == 312, "lm_tensor");

/* Describes the version of the archive. */
struct lm_version {
	uint64_t schema_hash;  /* hash of the image schema; lm_open rejects images with another hash */
	uint32_t abi;          /* value of LM_ABI with which the archive was built */
	uint16_t format_major; /* major version of the image format that the archive reads */
	uint16_t format_minor; /* largest minor version of this format that the archive reads */
};
LM_STATIC_ASSERT(sizeof(struct lm_version) == 16, "lm_version");

/* Returns LM_ABI of the archive. The caller should first check that it is that of this header. */
uint32_t lm_abi(void);

/* Sets *version to the versions of the archive and of the image format. */
int lm_version(struct lm_version *version);

/*
 * Opens an image file, maps it, verifies every byte, and sets *image to its handle. The string
 * `path` has at most 4095 bytes. At most 16 images may be open. Until lm_close, no program may
 * write to the file; to replace the file, rename another file to its name. /proc must be mounted
 * before the first call of any function: Go then reads the bounds of the thread's stack from
 * /proc/self/maps.
 * LM_NO_FILE: the file does not exist, or /proc is not mounted; LM_IO; LM_BAD_IMAGE;
 * LM_DENIED: no permission, or the process is sealed; LM_USAGE: 16 images are open.
 */
int lm_open(const char *path, lm_handle *image);

/*
 * Opens an image in memory, for example one that is linked into the firmware, and verifies every
 * byte. `data` must be a multiple of 8, and must remain valid and unchanged until lm_close.
 * LM_BAD_IMAGE; LM_DENIED: the process is sealed; LM_USAGE: 16 images are open.
 */
int lm_open_memory(const void *data, size_t size, lm_handle *image);

/*
 * Opens a file like lm_open, but only if it was signed with one of the given keys (see `lm sign`),
 * which is checked before the image is verified. The string `keys` has at most 4095 bytes, and one
 * public key of 64 hex digits in each line. A range of versions may follow: with `versions 3-`, the
 * key may sign only versions from 3 on. Empty lines and lines that begin with # are skipped.
 * LM_DENIED: the file is not signed, or is signed with another key, or the key may not sign the
 * version of the image, or the archive was built without `--signed`.
 */
int lm_open_signed(const char *path, const char *keys, lm_handle *image);

/*
 * Opens a file like lm_open_signed, but only if the version of the image is at least `version`. The
 * signature contains the version of the image (see `lm sign --version`); without one, it is 0.
 * LM_DENIED: as for lm_open_signed, or the version is lower.
 */
int lm_open_signed_at_least(const char *path, const char *keys, uint32_t version, lm_handle *image);

/* As `window` of lm_load: the image and the device choose TLB windows. */
#define LM_ANY_WINDOW (-1)

/*
 * Sets the longest time that each sequence of an image may take, instead of one hour. lm_load
 * returns LM_BAD_IMAGE if the worst case of a sequence is longer, in which every poll of it, and of
 * the sequences that it calls, lasts until its deadline. A run that takes longer ends with LM_LATE
 * and LM_CODE_RUN_LATE. Call this function before lm_load. lm_limit does not reject the image.
 */
int lm_longest(lm_handle image, uint64_t nanoseconds);

/*
 * Opens the devices of the image, checks that the image is for these devices, and reserves
 * everything that runs need. lm_load stores nothing to the BARs of a device, but it may enable
 * memory decoding. After lm_load has failed, the caller may call it again.
 *
 * devices: the name of each device, in the order of the devices in the image. Examples are
 *   "pci:1e52:401e", "pci:0000:01:00.0", "vfio:0000:01:00.0" and "tt:/dev/tenstorrent/0". If a name
 *   is NULL, lm_load opens the only device with the PCI ids in the image: through VFIO if vfio-pci
 *   is bound to the device, and otherwise through sysfs. If devices is NULL, lm_load opens every
 *   device in this way. No two names may name the same PCI function. lm_load copies the names.
 * count: number of names in devices; 0 if and only if devices is NULL.
 * window: number, from 0 to 65534, of the device's first TLB window that the image uses; the second
 *   one has the next number, and so on. A TLB window is a range of a BAR that the device maps to an
 *   address inside the chip. If window is LM_ANY_WINDOW, the image and the device choose.
 * LM_USAGE: the names or their number are wrong; LM_NO_DEVICE; LM_WRONG_DEVICE; LM_DENIED;
 * LM_BAD_IMAGE: memory is not sufficient, or a sequence may take longer than one hour or the time
 * that lm_longest has set.
 */
int lm_load(lm_handle image, const char *const *devices, uint32_t count, int32_t window);

/*
 * Prepares an image for runs that allocate nothing: locks the commands and the arena into memory,
 * switches Go's garbage collector off, fixes the number of processors that Go uses, and blocks
 * SIGURG on the calling thread, which must later call lm_run. These settings remain until the
 * process ends.
 * LM_DENIED: the limit RLIMIT_MEMLOCK is too small for the commands and the arena.
 */
int lm_freeze(lm_handle image);

/*
 * Seals the process: a filter on all threads (seccomp), which cannot be removed, makes the kernel
 * kill the process at the first system call that could create, map or open anything. `image` may be
 * any frozen image. Before lm_seal, call lm_freeze for every image that will run.
 *
 * These system calls remain allowed: read, write, pread64, pwrite64, futex, nanosleep,
 * clock_nanosleep, epoll_pwait, sched_yield, restart_syscall, clock_gettime, gettimeofday,
 * rt_sigreturn, rt_sigprocmask, sigaltstack, tgkill, getpid, gettid, exit and exit_group. So the
 * process must not call stdio functions, a malloc that grows the heap, or reboot(2). lm_open,
 * lm_load, lm_freeze and lm_seal fail in a sealed process, and lm_close frees no memory.
 * LM_DENIED: the kernel rejects the filter, or a thread has a seccomp filter of its own.
 */
int lm_seal(lm_handle image);

/* Sets *info to a description of the image. */
int lm_image_info(lm_handle image, struct lm_image *info);

/*
 * Find a sequence or tensor by its name, and set *sequence or *tensor to its index.
 * LM_USAGE: the image has no sequence or tensor with this name.
 */
int lm_find_sequence(lm_handle image, const char *name, uint32_t *sequence);
int lm_find_tensor(lm_handle image, const char *name, uint32_t *tensor);

/*
 * Copies the name of a sequence, with a terminating NUL, to the buffer `name` of `size` bytes. If
 * the buffer is too small, the name is cut.
 */
int lm_sequence_name(lm_handle image, uint32_t sequence, char *name, size_t size);

/* Sets *info to a description of the tensor. */
int lm_tensor_info(lm_handle image, uint32_t tensor, struct lm_tensor *info);

/*
 * Sets *data to the address of the bytes of an input tensor in the arena: a multiple of 64, valid
 * until lm_close. The caller writes these bytes, and each lm_run reads them. Initially they are the
 * default data, or zeros. Without a call of lm_input, runs use the default data. `size` must be the
 * size of the tensor in bytes. Call this function after lm_load.
 * LM_BAD_IMAGE: size is not the size of the tensor; LM_USAGE: the tensor is not an input.
 */
int lm_input(lm_handle image, uint32_t tensor, size_t size, void **data);

/*
 * Sets *data to the address of the bytes of an output tensor in the arena, as lm_input does. lm_run
 * writes these bytes, and the caller reads them between runs. Before the first run they are zero.
 * After a failed run they may be incomplete. Call this function after lm_load.
 * LM_BAD_IMAGE: size is not the size of the tensor; LM_USAGE: the tensor is not an output.
 */
int lm_output(lm_handle image, uint32_t tensor, size_t size, const void **data);

/*
 * Limits the time of each later run; 0 removes this limit. A run that takes longer ends with
 * LM_LATE and LM_CODE_RUN_LATE. The limit of lm_longest (one hour by default) always applies too.
 * Call this function after lm_load.
 */
int lm_limit(lm_handle image, uint64_t nanoseconds);

/*
 * Executes a sequence, and returns when it has ended; each of its waits has a deadline. Call this
 * function after lm_freeze. The first call enables bus mastering if the image lets the device
 * access memory.
 *
 * If a command fails, lm_run also executes the sequence with the name "safe", if the image has one,
 * and disables the image: each further run returns LM_INTERNAL with LM_CODE_DISABLED. To continue,
 * the caller must close the image and then open, load and freeze it again.
 * LM_DEVICE_LOST, LM_LATE, LM_MISMATCH, LM_INTERNAL; LM_NO_DEVICE: bus mastering is off; LM_DENIED:
 * this user may not enable bus mastering; LM_IO: the image file was truncated; LM_USAGE: an input
 * has no default data, and lm_input was not called for it (LM_CODE_INPUT_MISSING), or no run has
 * reset a ring that the sequence advances (LM_CODE_RING_UNSET).
 */
int lm_run(lm_handle image, uint32_t sequence);

/*
 * Describes how the last call on an image ended; lm_last_error itself does not count as a call. For
 * the handle LM_NO_IMAGE it describes the most recent failure of a call without an open image. The
 * struct *error receives numbers. The buffer `text` of `size` bytes receives one line of text, with
 * a terminating NUL but without a newline. If the buffer is too small, the text is cut. Both
 * pointers may be NULL. An example of a text, broken into two lines here:
 *   poll deadline passed: main, command 3: poll.4 w0+0x20 & 0x1 == 0x0: got 0x81 after 1 s
 *   (bits that differ: 0); then sequence safe ran: done
 * w0 is window 0 of the image: this library does not read the names of windows.
 * LM_USAGE, with an empty text: no open image has this handle, or another thread is in a call on
 * the image.
 */
int lm_last_error(lm_handle image, struct lm_error *error, char *text, size_t size);

/*
 * Closes an image and its devices, and frees the memory. The handle, and all pointers from lm_input
 * and lm_output, become invalid even if the call fails. lm_close switches bus mastering off, and
 * changes no other register of the devices. To change other registers before lm_close, run a
 * sequence that changes them.
 * LM_IO: a system call failed.
 */
int lm_close(lm_handle image);

#ifdef __cplusplus
}
#endif
#endif
