/*
 * A C program that calls the archive, for archive_test.go. `host SCENARIO ARGS...` runs one
 * scenario, and exits with 0 if all checks of the scenario pass. It is linked with the archive that
 * contains mock devices.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../testdata/firmware/fault_log.h"
#include "lightmetal.h"

static int wrong; /* number of checks that failed */

/* Checks that got is equal to want. If not, prints the line, the expression and both numbers. The
   program exits after ten failed checks. */
#define IS(got, want) is(__LINE__, #got, (long long)(got), (long long)(want))
static void is(int line, const char *what, long long got, long long want)
{
	if (got == want)
		return;
	char text[LM_TEXT_MAX] = "";
	lm_last_error(LM_NO_IMAGE, NULL, text, sizeof text);
	printf("host.c:%d: %s is %lld, want %lld (last failure without an image: %s)\n", line, what,
	    got, want, text);
	if (++wrong == 10)
		exit(1);
}

/* Ends the program because a system call failed, and prints errno. */
static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Returns the time of the monotonic clock in nanoseconds. */
static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Opens, loads and freezes an image on a mock, and returns its handle. */
static lm_handle ready(const char *path, const char *device)
{
	lm_handle image = 0;
	IS(lm_open(path, &image), LM_OK);
	IS(lm_load(image, &device, 1, LM_ANY_WINDOW), LM_OK);
	IS(lm_freeze(image), LM_OK);
	return image;
}

/* Returns the index of the sequence with a name. */
static uint32_t sequence(lm_handle image, const char *name)
{
	uint32_t index = 9999;
	IS(lm_find_sequence(image, name, &index), LM_OK);
	return index;
}

/* Scenario layout: prints the sizes and offsets of all structs in lightmetal.h, as the C compiler
   computes them. */
#define STRUCT(s) printf(#s " %zu\n", sizeof(struct s))
#define FIELD(s, f) \
	printf(#s " " #f " %zu %zu\n", offsetof(struct s, f), sizeof(((struct s *)0)->f))

static void layout(char **args)
{
	(void)args;
	STRUCT(lm_error);
	FIELD(lm_error, status);
	FIELD(lm_error, code);
	FIELD(lm_error, command);
	FIELD(lm_error, safe);
	FIELD(lm_error, got);
	FIELD(lm_error, want);
	FIELD(lm_error, mask);
	FIELD(lm_error, element);
	FIELD(lm_error, ignored);
	FIELD(lm_error, reserved);
	STRUCT(lm_image);
	FIELD(lm_image, arena_bytes);
	FIELD(lm_image, host_bytes);
	FIELD(lm_image, payload_bytes);
	FIELD(lm_image, devices);
	FIELD(lm_image, sequences);
	FIELD(lm_image, tensors);
	FIELD(lm_image, commands);
	STRUCT(lm_tensor);
	FIELD(lm_tensor, name);
	FIELD(lm_tensor, size);
	FIELD(lm_tensor, role);
	FIELD(lm_tensor, dtype);
	FIELD(lm_tensor, has_data);
	FIELD(lm_tensor, dims);
	FIELD(lm_tensor, shape);
	STRUCT(lm_version);
	FIELD(lm_version, schema_hash);
	FIELD(lm_version, abi);
	FIELD(lm_version, format_major);
	FIELD(lm_version, format_minor);
}

/* Scenario misuse GOOD BAD: passes every wrong argument to every function. GOOD is the path of a
   valid image, BAD the path of an invalid one. */
static void misuse(char **args)
{
	lm_handle image = 0, other = 0;
	struct lm_image info;
	struct lm_tensor described;
	struct lm_error error;
	struct lm_version version;
	uint32_t index;
	void *in = NULL;
	const void *out = NULL;
	char text[64], longest[5000];
	const char *nobody[] = {"mock:nobody"}, *none[] = {NULL}, *edu[] = {"mock:edu"},
	           *endless[] = {longest}, *nine[9] = {NULL};
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;

	IS(lm_abi(), LM_ABI);
	IS(lm_version(NULL), LM_USAGE);
	IS(lm_version(&version), LM_OK);
	IS(version.abi, LM_ABI);
	IS(version.format_major, 3);

	IS(lm_open(NULL, &image), LM_USAGE);
	IS(lm_open(args[0], NULL), LM_USAGE);
	IS(lm_open(longest, &image), LM_USAGE);
	IS(lm_open("/nowhere", &image), LM_NO_FILE);
	IS(lm_open("/tmp", &image), LM_BAD_IMAGE);
	IS(lm_open(args[1], &image), LM_BAD_IMAGE);
	IS(lm_open_signed(NULL, "", &image), LM_USAGE);
	IS(lm_open_signed(args[0], NULL, &image), LM_USAGE);
	IS(lm_open_signed(args[0], longest, &image), LM_USAGE);
	IS(lm_open_signed(args[0], "", NULL), LM_USAGE);
	IS(lm_open_signed_at_least(NULL, "", 1, &image), LM_USAGE);
	IS(lm_open_signed_at_least(args[0], "not a key", 1, &image), LM_DENIED);
	IS(lm_open_signed(args[0], "not a key", &image), LM_DENIED);
	IS(lm_open_memory(NULL, 100, &image), LM_USAGE);
	IS(lm_open_memory(longest, 100, NULL), LM_USAGE);
	IS(lm_open_memory(longest, 0, &image), LM_BAD_IMAGE);
	IS(lm_open_memory(longest, (size_t)-1, &image), LM_USAGE);
	IS(lm_open_memory(longest, sizeof longest, &image), LM_BAD_IMAGE);
	IS(image, 0);
	IS(lm_last_error(LM_NO_IMAGE, &error, text, sizeof text), LM_OK);
	IS(error.status, LM_BAD_IMAGE);
	IS(error.code, LM_CODE_BAD_IMAGE);
	IS(error.command, -1);
	IS(strncmp(text, "bad image: ", 11), 0);
	IS(lm_last_error(LM_NO_IMAGE, NULL, NULL, 0), LM_OK);
	IS(lm_last_error(LM_NO_IMAGE, NULL, NULL, 100), LM_OK);
	text[1] = 'x';
	IS(lm_last_error(LM_NO_IMAGE, NULL, text, 1), LM_OK);
	IS(text[0] == 0 && text[1] == 'x', 1);

	static const lm_handle handles[] = {0, -1, 1, 2, 15, 17, 31, 32, 33, INT32_MIN, INT32_MAX};
	for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
		lm_handle h = handles[i];
		IS(lm_load(h, NULL, 0, LM_ANY_WINDOW), LM_USAGE);
		IS(lm_freeze(h), LM_USAGE);
		IS(lm_seal(h), LM_USAGE);
		IS(lm_image_info(h, &info), LM_USAGE);
		IS(lm_find_sequence(h, "main", &index), LM_USAGE);
		IS(lm_find_tensor(h, "n", &index), LM_USAGE);
		IS(lm_sequence_name(h, 0, text, sizeof text), LM_USAGE);
		IS(lm_tensor_info(h, 0, &described), LM_USAGE);
		IS(lm_input(h, 0, 4, &in), LM_USAGE);
		IS(lm_output(h, 1, 4, &out), LM_USAGE);
		IS(lm_limit(h, 0), LM_USAGE);
		IS(lm_longest(h, 0), LM_USAGE);
		IS(lm_run(h, 0), LM_USAGE);
		IS(lm_close(h), LM_USAGE);
		if (h != LM_NO_IMAGE)
			IS(lm_last_error(h, &error, text, sizeof text), LM_USAGE);
	}

	IS(lm_open(args[0], &image), LM_OK);
	IS(lm_run(image, 0), LM_USAGE);
	IS(lm_freeze(image), LM_USAGE);
	IS(lm_seal(image), LM_USAGE);
	IS(lm_input(image, 0, 4, &in), LM_USAGE);
	IS(lm_output(image, 1, 4, &out), LM_USAGE);
	IS(lm_limit(image, 0), LM_USAGE);
	IS(lm_load(image, NULL, 1, LM_ANY_WINDOW), LM_USAGE);
	IS(lm_load(image, edu, 0, LM_ANY_WINDOW), LM_USAGE); /* a name, but count is 0 */
	IS(lm_load(image, NULL, 0, LM_ANY_WINDOW), LM_NO_DEVICE); /* opens the device by PCI ids */
	IS(lm_load(image, nine, 9, LM_ANY_WINDOW), LM_USAGE);
	IS(lm_load(image, edu, UINT32_MAX, LM_ANY_WINDOW), LM_USAGE);
	IS(lm_load(image, nine, 2, LM_ANY_WINDOW), LM_USAGE);
	IS(lm_load(image, endless, 1, LM_ANY_WINDOW), LM_USAGE);
	IS(lm_load(image, none, 1, LM_ANY_WINDOW), LM_NO_DEVICE);
	IS(lm_load(image, nobody, 1, LM_ANY_WINDOW), LM_USAGE);
	IS(lm_load(image, edu, 1, -2), LM_USAGE);
	IS(lm_load(image, edu, 1, 65535), LM_USAGE);
	IS(lm_load(image, edu, 1, LM_ANY_WINDOW), LM_OK);
	IS(lm_load(image, edu, 1, LM_ANY_WINDOW), LM_USAGE);
	IS(lm_run(image, 0), LM_USAGE);
	IS(lm_seal(image), LM_USAGE);
	IS(lm_freeze(image), LM_OK);
	IS(lm_freeze(image), LM_USAGE);

	IS(lm_image_info(image, NULL), LM_USAGE);
	IS(lm_image_info(image, &info), LM_OK);
	IS(info.devices, 1);
	IS(info.tensors, 2);
	IS(lm_find_sequence(image, NULL, &index), LM_USAGE);
	IS(lm_find_sequence(image, "main", NULL), LM_USAGE);
	IS(lm_find_sequence(image, "", &index), LM_USAGE);
	IS(lm_find_sequence(image, "n", &index), LM_USAGE);
	IS(lm_find_sequence(image, longest, &index), LM_USAGE);
	IS(lm_find_tensor(image, NULL, &index), LM_USAGE);
	IS(lm_find_tensor(image, "n", NULL), LM_USAGE);
	IS(lm_find_tensor(image, "main", &index), LM_USAGE);
	IS(lm_sequence_name(image, info.sequences, text, sizeof text), LM_USAGE);
	IS(lm_sequence_name(image, 0, NULL, sizeof text), LM_USAGE);
	IS(lm_sequence_name(image, 0, text, 0), LM_USAGE);
	IS(lm_sequence_name(image, 0, text, sizeof text), LM_OK);
	IS(strcmp(text, "main"), 0);
	IS(lm_tensor_info(image, 2, &described), LM_USAGE);
	IS(lm_tensor_info(image, UINT32_MAX, &described), LM_USAGE);
	IS(lm_tensor_info(image, 0, NULL), LM_USAGE);
	IS(lm_tensor_info(image, 0, &described), LM_OK);
	IS(strcmp(described.name, "n"), 0);
	IS(described.role == LM_INPUT && described.dtype == LM_UINT32 && described.has_data == 1 &&
	        described.dims == 1 && described.shape[0] == 1,
	    1);
	IS(lm_input(image, 0, 4, NULL), LM_USAGE);
	IS(lm_input(image, 0, 5, &in), LM_BAD_IMAGE);
	IS(lm_input(image, 0, 0, &in), LM_BAD_IMAGE);
	IS(lm_input(image, 1, 4, &in), LM_USAGE);
	IS(lm_input(image, 2, 4, &in), LM_USAGE);
	IS(lm_output(image, 1, 4, NULL), LM_USAGE);
	IS(lm_output(image, 0, 4, &out), LM_USAGE);
	IS(lm_output(image, 1, 8, &out), LM_BAD_IMAGE);
	IS(lm_last_error(image, &error, NULL, 0), LM_OK);
	IS(error.code, LM_CODE_BAD_TENSOR);
	IS(in == NULL && out == NULL, 1);
	IS(lm_limit(image, UINT64_MAX), LM_USAGE);
	IS(lm_run(image, info.sequences), LM_USAGE);
	IS(lm_run(image, UINT32_MAX), LM_USAGE);

	/* After all this misuse, the image can still be run. */
	IS(lm_input(image, 0, 4, &in), LM_OK);
	IS(lm_output(image, 1, 4, &out), LM_OK);
	IS((uintptr_t)in % 64 == 0 && (uintptr_t)out % 64 == 0, 1);
	uint32_t number = 5, result;
	memcpy(in, &number, 4);
	IS(lm_run(image, sequence(image, "compute")), LM_OK);
	memcpy(&result, out, 4);
	IS(result, 120);

	IS(lm_open(args[0], &other), LM_OK);
	IS(other == image, 0);
	IS(lm_close(image), LM_OK);
	IS(lm_close(image), LM_USAGE);
	IS(lm_run(image, 0), LM_USAGE);
	IS(lm_close(other), LM_OK);
}

/* Scenario status PATH DEVICE SEQUENCE STATUS CODE: a run of SEQUENCE fails with STATUS, and
   lm_last_error reports STATUS and CODE. Prints the text of lm_last_error. */
static void status(char **args)
{
	struct lm_error error;
	char text[LM_TEXT_MAX];
	lm_handle image = ready(args[0], args[1]);
	IS(lm_run(image, sequence(image, args[2])), atoi(args[3]));
	IS(lm_find_sequence(image, args[2], NULL), LM_USAGE);
	IS(lm_last_error(image, &error, text, sizeof text), LM_OK);
	IS(error.status, LM_USAGE); /* describes lm_find_sequence, the last call, and not lm_run */
	IS(lm_run(image, 0), LM_INTERNAL);
	IS(lm_last_error(image, &error, text, sizeof text), LM_OK);
	IS(error.code, LM_CODE_DISABLED);
	IS(lm_close(image), LM_OK);

	image = ready(args[0], args[1]);
	IS(lm_run(image, sequence(image, args[2])), atoi(args[3]));
	IS(lm_last_error(image, &error, text, sizeof text), LM_OK);
	IS(error.status, atoi(args[3]));
	IS(error.code, atoi(args[4]));
	printf("%s\n", text);
	IS(lm_close(image), LM_OK);
}

/* Scenario cut PATH DEVICE: the image file is truncated while it is mapped. The next run reads the
   missing part, in a sealed process, and must return LM_IO. */
static void cut(char **args)
{
	struct lm_error error;
	lm_handle image = ready(args[0], args[1]);
	uint32_t frame = sequence(image, "main");
	IS(lm_run(image, frame), LM_OK);
	if (truncate(args[0], 4096) != 0)
		die(args[0]);
	IS(lm_seal(image), LM_OK);
	int bad = lm_run(image, frame) != LM_IO;
	bad += lm_last_error(image, &error, NULL, 0) != LM_OK;
	bad += error.code != LM_CODE_IO || error.command != 1;
	bad += lm_run(image, frame) != LM_INTERNAL || lm_close(image) != LM_OK;
	_exit(bad);
}

/* Scenario memory PATH: opens and runs an image in memory (lm_open_memory). */
static void memory(char **args)
{
	lm_handle image = 0;
	const char *device = "mock:edu";
	uint32_t in, out, number = 6, result;
	void *n;
	const void *r;
	int fd = open(args[0], O_RDONLY);
	char *data = aligned_alloc(8, 1 << 16);
	ssize_t size = read(fd, data, 1 << 16);
	if (size <= 0)
		die(args[0]);
	IS(lm_open_memory(data + 1, (size_t)size, &image), LM_BAD_IMAGE);
	IS(lm_open_memory(data, (size_t)size, &image), LM_OK);
	IS(lm_load(image, &device, 1, LM_ANY_WINDOW), LM_OK);
	IS(lm_freeze(image), LM_OK);
	IS(lm_find_tensor(image, "n", &in), LM_OK);
	IS(lm_find_tensor(image, "result", &out), LM_OK);
	IS(lm_input(image, in, 4, &n), LM_OK);
	IS(lm_output(image, out, 4, &r), LM_OK);
	memcpy(n, &number, 4);
	IS(lm_run(image, sequence(image, "compute")), LM_OK);
	memcpy(&result, r, 4);
	IS(result, 720);
	IS(lm_close(image), LM_OK);
	free(data);
}

/* Scenario signed PATH KEYS VERSION STATUS: with KEYS, lm_open_signed_at_least returns STATUS for
   VERSION, and lm_open_signed returns it if VERSION is 0. */
static void is_signed(char **args)
{
	lm_handle image = 0;
	uint32_t version = (uint32_t)atoi(args[2]);
	int status = atoi(args[3]);
	IS(lm_open_signed_at_least(args[0], args[1], version, &image), status);
	IS(image != 0, status == 0);
	IS(lm_close(image), image != 0 ? LM_OK : LM_USAGE);
	if (version == 0) {
		image = 0;
		IS(lm_open_signed(args[0], args[1], &image), status);
		IS(lm_close(image), image != 0 ? LM_OK : LM_USAGE);
	}
	IS(lm_open(args[0], &image), LM_OK); /* lm_open does not check the signature */
}

/* Sets three numbers: objects and bytes that Go has allocated so far, and garbage collections. Only
   the archive with mock devices contains this function. */
extern void lm_mock_allocations(uint64_t *objects, uint64_t *bytes, uint64_t *collections);

/* Scenario million PATH DEVICE seal|noseal: executes a million runs, optionally in a sealed
   process, and checks that Go allocated nothing. */
static void million(char **args)
{
	uint64_t before[3], after[3];
	void *data;
	const void *out;
	uint32_t in, index;
	int bad = 0;
	lm_handle image = ready(args[0], args[1]);
	uint32_t frame = sequence(image, "frame"), empty = sequence(image, "empty"),
	         sleeps = sequence(image, "sleeps");
	IS(lm_find_tensor(image, "a", &in), LM_OK);
	IS(lm_find_tensor(image, "d", &index), LM_OK);
	IS(lm_input(image, in, 4, &data), LM_OK);
	IS(lm_output(image, index, 4, &out), LM_OK);
	IS(lm_run(image, frame), LM_OK); /* at the first store to a page, the mock allocates the page */
	volatile uint32_t *a = data;
	const volatile uint32_t *d = out;
	lm_mock_allocations(&before[0], &before[1], &before[2]); /* the first call allocates */
	if (strcmp(args[2], "seal") == 0)
		IS(lm_seal(image), LM_OK);
	lm_mock_allocations(&before[0], &before[1], &before[2]);
	char text[LM_TEXT_MAX];
	struct lm_error error;
	for (uint32_t i = 0; i < 1000000; i++) {
		*a = i;
		bad += lm_run(image, i % 2 ? frame : empty) != LM_OK;
		bad += i % 2 && *d != i;
		if (i % 1000 == 0) {
			bad += lm_run(image, sleeps) != LM_OK;
			bad += lm_last_error(image, &error, text, sizeof text) != LM_OK;
			bad += lm_find_tensor(image, "a", &in) != LM_OK;
		}
	}
	lm_mock_allocations(&after[0], &after[1], &after[2]);
	if (bad || memcmp(before, after, sizeof before) != 0) {
		int n = snprintf(text, sizeof text,
		    "%d failures; objects %llu, bytes %llu, collections %llu in a million runs\n", bad,
		    (unsigned long long)(after[0] - before[0]), (unsigned long long)(after[1] - before[1]),
		    (unsigned long long)(after[2] - before[2]));
		_exit(write(1, text, (size_t)n) != n || 1);
	}
	if (strcmp(args[2], "seal") == 0) {
		bad += lm_open(args[0], &image) != LM_DENIED ||
		       lm_load(image, NULL, 0, LM_ANY_WINDOW) != LM_USAGE;
		bad +=
		    lm_seal(image) != LM_DENIED || lm_close(image) != LM_OK || lm_close(image) != LM_USAGE;
		_exit(bad);
	}
	IS(lm_close(image), LM_OK);
}

/* Scenario cost PATH DEVICE: measures the time of lm_abi, of lm_run with an empty sequence, and of
   lm_find_tensor, in nanoseconds. */
static void cost(char **args)
{
	enum { runs = 200000, rounds = 7 };
	lm_handle image = ready(args[0], args[1]);
	uint32_t empty = sequence(image, "empty"), found = 0;
	double best[3] = {1e9, 1e9, 1e9};
	for (int round = 0; round < rounds; round++) {
		int64_t t0 = now();
		for (int i = 0; i < runs; i++)
			found += lm_abi();
		int64_t t1 = now();
		for (int i = 0; i < runs; i++)
			found += (uint32_t)lm_run(image, empty);
		int64_t t2 = now();
		for (int i = 0; i < runs; i++)
			found += (uint32_t)lm_find_tensor(image, "a", &found);
		int64_t t3 = now();
		double took[3] = {
		    (double)(t1 - t0) / runs, (double)(t2 - t1) / runs, (double)(t3 - t2) / runs};
		for (int i = 0; i < 3; i++)
			best[i] = took[i] < best[i] ? took[i] : best[i];
	}
	printf("ns, best of %d rounds: ", rounds);
	printf("lm_abi %.1f, lm_run of an empty sequence %.1f, lm_find_tensor %.1f\n", best[0],
	    best[1], best[2]);
}

/* Scenario process PATH DEVICE: prints the signals, threads and memory of the process at the start
   of main and after lm_freeze, and then all signal actions that are not the default. */
static void process(char **args)
{
	char line[256];
	FILE *f;
	printf("main");
	for (int step = 0; step < 2; step++) {
		if (step == 1) {
			ready(args[0], args[1]);
			printf("frozen");
		}
		if (!(f = fopen("/proc/thread-self/status", "r")))
			die("/proc/thread-self/status");
		while (fgets(line, sizeof line, f))
			for (int i = 0; i < 6; i++) {
				static const char *const keys[] = {
				    "SigBlk:", "SigIgn:", "SigCgt:", "Threads:", "VmRSS:", "VmSize:"};
				size_t n = strlen(keys[i]);
				if (strncmp(line, keys[i], n) == 0)
					printf(" %s%ld", keys[i],
					    i < 3 ? strtol(line + n, NULL, 16) : strtol(line + n, NULL, 10));
			}
		fclose(f);
		printf("\n");
	}
	for (int s = 1; s < 65; s++) {
		struct sigaction a;
		if (syscall(SYS_rt_sigaction, s, NULL, NULL, 8) != 0 || sigaction(s, NULL, &a) != 0 ||
		    a.sa_handler == SIG_DFL)
			continue;
		printf("signal %d onstack %d siginfo %d restart %d\n", s, !!(a.sa_flags & SA_ONSTACK),
		    !!(a.sa_flags & SA_SIGINFO), !!(a.sa_flags & SA_RESTART));
	}
}

static volatile sig_atomic_t caught, faults;
static struct sigaction gos; /* Go's handler of bus errors */

/* A signal handler that counts its calls. */
static void count(int s)
{
	(void)s;
	caught++;
}

/* A handler of the C program for bus errors. It counts the error, and then calls Go's handler. */
static void chain(int s, siginfo_t *info, void *context)
{
	faults++;
	gos.sa_sigaction(s, info, context);
}

/* Scenario signals PATH DEVICE: signal handlers of the C program are called during runs. A handler
   of the C program for bus errors can pass the signal to Go's handler. */
static void signals(char **args)
{
	struct sigaction a = {.sa_flags = SA_ONSTACK | SA_RESTART};
	a.sa_handler = count;
	lm_handle image = ready(args[0], args[1]);
	uint32_t frame = sequence(image, "main");
	if (sigaction(SIGUSR1, &a, NULL) || sigaction(SIGALRM, &a, NULL) ||
	    sigaction(SIGPROF, &a, NULL))
		die("sigaction");
	for (int i = 0; i < 1000; i++) {
		kill(getpid(), i % 2 ? SIGUSR1 : SIGPROF); /* any thread may receive it, also Go's */
		if (i == 500)
			alarm(1);
		IS(lm_run(image, frame), LM_OK);
	}
	struct timespec tick = {0, 1000000};
	for (int i = 0; i < 5000 && caught < 3; i++)
		nanosleep(&tick, NULL);
	IS(caught >= 3, 1);

	struct sigaction mine = {.sa_flags = SA_ONSTACK | SA_SIGINFO};
	mine.sa_sigaction = chain;
	if (sigaction(SIGBUS, &mine, &gos) || truncate(args[0], 4096) != 0)
		die("SIGBUS");
	IS(lm_run(image, frame), LM_IO);
	IS(faults >= 1, 1);
	IS(lm_close(image), LM_OK);
}

/* Scenario crash: a memory fault in C code kills the process, although Go has a signal handler. */
static void crash(char **args)
{
	(void)args;
	IS(lm_abi(), LM_ABI);
	volatile int *volatile nowhere = (int *)8;
	*nowhere = 1;
}

/* Parameters and result of one thread. */
struct work {
	const char *path, *device;
	size_t stack; /* size of the thread's stack in bytes */
	int status;   /* status of the first call that failed, or LM_OK */
};

/* A thread that opens an image, executes 20000 runs, and closes the image. */
static void *worker(void *data)
{
	struct work *w = data;
	lm_handle image = 0;
	w->status = lm_open(w->path, &image);
	if (w->status == LM_OK)
		w->status = lm_load(image, &w->device, 1, LM_ANY_WINDOW);
	if (w->status == LM_OK)
		w->status = lm_freeze(image);
	uint32_t frame;
	if (w->status == LM_OK)
		w->status = lm_find_sequence(image, "frame", &frame);
	for (int i = 0; i < 20000 && w->status == LM_OK; i++)
		w->status = lm_run(image, frame);
	if (w->status == LM_OK)
		w->status = lm_close(image);
	return NULL;
}

/* Scenario threads PATH DEVICE: four threads run an image each. Their stacks have 64 KiB to 512
   KiB. */
static void threads(char **args)
{
	pthread_t ids[4];
	struct work works[4];
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < 4; i++) {
			pthread_attr_t attributes;
			works[i] = (struct work){args[0], args[1], (size_t)64 << 10 << i, -1};
			pthread_attr_init(&attributes);
			if (pthread_attr_setstacksize(&attributes, works[i].stack) ||
			    pthread_create(&ids[i], &attributes, worker, &works[i]))
				die("a thread");
		}
		for (int i = 0; i < 4; i++) {
			pthread_join(ids[i], NULL);
			IS(works[i].status, LM_OK);
		}
	}
}

/* Settings of one thread that the archive must not change. */
struct thread_settings {
	int policy, priority, nice, slack;
	cpu_set_t cpus;
	sigset_t blocked;
};

/* Reads the settings of the calling thread. */
static void read_settings(struct thread_settings *o)
{
	struct sched_param p;
	memset(o, 0, sizeof *o);
	if (pthread_getschedparam(pthread_self(), &o->policy, &p) ||
	    sched_getaffinity(0, sizeof o->cpus, &o->cpus) ||
	    pthread_sigmask(SIG_BLOCK, NULL, &o->blocked))
		die("settings of a thread");
	o->priority = p.sched_priority;
	o->nice = getpriority(PRIO_PROCESS, 0); /* on Linux, the value of this thread */
	o->slack = prctl(PR_GET_TIMERSLACK);
}

static pthread_barrier_t frozen;

/* A thread that changes all its settings, and then checks that lm_freeze and lm_run on another
   thread do not change them. */
static void *other_thread(void *changed)
{
	struct thread_settings before, after;
	struct sched_param none = {0};
	int first = 0;
	read_settings(&before);
	while (!CPU_ISSET(first, &before.cpus))
		first++;
	CPU_ZERO(&before.cpus);
	CPU_SET(first, &before.cpus);
	sigaddset(&before.blocked, SIGUSR2);
	if (sched_setaffinity(0, sizeof before.cpus, &before.cpus) ||
	    pthread_sigmask(SIG_BLOCK, &before.blocked, NULL) ||
	    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none) ||
	    setpriority(PRIO_PROCESS, 0, before.nice < 14 ? before.nice + 5 : 19) ||
	    prctl(PR_SET_TIMERSLACK, 12345))
		die("settings of the other thread");
	read_settings(&before);
	pthread_barrier_wait(&frozen);
	pthread_barrier_wait(&frozen);
	read_settings(&after);
	*(int *)changed = memcmp(&before, &after, sizeof before) != 0;
	return NULL;
}

/* Reads the actions of all signals. */
static void actions(struct sigaction *of)
{
	memset(of, 0, 65 * sizeof *of);
	for (int s = 1; s < 65; s++)
		sigaction(s, NULL, &of[s]); /* fails for 32 and 33, which the C library uses */
}

/* Scenario own PATH DEVICE: lm_freeze and lm_run do not change the threads, signal actions and
   scheduling of the C program. The only change is that lm_freeze blocks SIGURG on its thread. */
static void own(char **args)
{
	static struct sigaction act_before[65], act_after[65];
	struct sigaction a = {.sa_flags = SA_ONSTACK, .sa_handler = count};
	struct thread_settings before, after;
	pthread_t other;
	int changed = -1;
	lm_handle image = 0;
	IS(lm_open(args[0], &image), LM_OK);
	IS(lm_load(image, (const char *const *)&args[1], 1, LM_ANY_WINDOW), LM_OK);
	if (sigaction(SIGUSR1, &a, NULL) || sigaction(SIGTERM, &a, NULL) ||
	    signal(SIGHUP, SIG_IGN) == SIG_ERR || pthread_barrier_init(&frozen, NULL, 2) ||
	    pthread_create(&other, NULL, other_thread, &changed))
		die("a host");
	pthread_barrier_wait(&frozen);
	actions(act_before);
	read_settings(&before);
	IS(lm_freeze(image), LM_OK);
	uint32_t frame = sequence(image, "frame");
	for (int i = 0; i < 10000; i++)
		IS(lm_run(image, frame), LM_OK);
	read_settings(&after);
	actions(act_after);
	pthread_barrier_wait(&frozen);
	pthread_join(other, NULL);
	IS(changed, 0);
	for (int s = 1; s < 65; s++) {
		IS(act_after[s].sa_flags, act_before[s].sa_flags);
		IS(act_after[s].sa_handler == act_before[s].sa_handler, 1);
		/* Compare 8 bytes, because the kernel has 64 signals. */
		IS(memcmp(&act_before[s].sa_mask, &act_after[s].sa_mask, 8), 0);
	}
	IS(sigismember(&after.blocked, SIGURG), 1);
	sigaddset(&before.blocked, SIGURG);
	IS(memcmp(&before, &after, sizeof before), 0);
}

/* Scenario spawn PATH DEVICE: fork followed by exec works, even after lm_freeze. */
static void spawn(char **args)
{
	int ended;
	ready(args[0], args[1]);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	IS(waitpid(pid, &ended, 0), pid);
	IS(ended, 0);
}

/* Scenario blind PATH: /proc is missing at the first call. lm_open fails, even if /proc exists
   afterwards. Prints the text of lm_last_error. */
static void blind(char **args)
{
	lm_handle image;
	char text[LM_TEXT_MAX];
	IS(lm_abi(), LM_ABI);
	if (mkdir("/proc", 0755) || mkdir("/proc/self", 0755) ||
	    close(open("/proc/self/maps", O_CREAT | O_WRONLY, 0644)))
		die("/proc");
	IS(lm_open(args[0], &image), LM_NO_FILE);
	IS(lm_last_error(LM_NO_IMAGE, NULL, text, sizeof text), LM_OK);
	printf("%s\n", text);
}

/* Scenario record PATH DEVICE FILE: records a failed run in FILE, in a sealed process. */
static void record(char **args)
{
	struct fault_log log;
	uint8_t preamble[16];
	int fd = open(args[0], O_RDONLY);
	if (fd < 0 || read(fd, preamble, sizeof preamble) != sizeof preamble)
		die(args[0]);
	if (fault_log_open(&log, args[2], preamble[12] | preamble[13] << 8 | preamble[14] << 16 |
	    (uint32_t)preamble[15] << 24) != 0)
		die(args[2]);
	lm_handle image = ready(args[0], args[1]);
	uint32_t fails = sequence(image, "expect"), good = sequence(image, "main");
	IS(lm_run(image, good), LM_OK); /* at the first store to a page, the mock allocates the page */
	IS(lm_seal(image), LM_OK);
	IS(lm_run(image, fails), LM_MISMATCH);
	IS(fault_log_append(&log, image, 1), 0);
}

/* Scenario owner IMAGE DEVICE: loads an image on a device that another image uses. */
static void owner(char **args)
{
	const char *device = args[1];
	lm_handle first = 0, second = 0;
	IS(lm_open(args[0], &first), LM_OK);
	IS(lm_open(args[0], &second), LM_OK);
	IS(lm_load(first, &device, 1, LM_ANY_WINDOW), LM_OK);
	IS(lm_load(second, &device, 1, LM_ANY_WINDOW), LM_NO_DEVICE);
	char text[LM_TEXT_MAX];
	IS(lm_last_error(second, NULL, text, sizeof text), LM_OK);
	IS(strstr(text, "a replay already uses the device") != NULL, 1);
	IS(lm_close(first), LM_OK);
	IS(lm_load(second, &device, 1, LM_ANY_WINDOW), LM_OK);
	IS(lm_close(second), LM_OK);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(char **);
		int args;
	} scenarios[] = {
	    {"layout", layout, 0},
	    {"misuse", misuse, 2},
	    {"status", status, 5},
	    {"cut", cut, 2},
	    {"memory", memory, 1},
	    {"signed", is_signed, 4},
	    {"million", million, 3},
	    {"cost", cost, 2},
	    {"process", process, 2},
	    {"signals", signals, 2},
	    {"crash", crash, 0},
	    {"threads", threads, 2},
	    {"own", own, 2},
	    {"spawn", spawn, 2},
	    {"blind", blind, 1},
	    {"record", record, 3},
	    {"owner", owner, 2},
	};
	for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
		if (argc > 1 && strcmp(argv[1], scenarios[i].name) == 0 && argc == 2 + scenarios[i].args) {
			scenarios[i].run(argv + 2);
			return wrong != 0;
		}
	printf("usage: host SCENARIO ARGS\n");
	return 64;
}
