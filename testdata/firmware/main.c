/*
 * Firmware that replays two workloads, frame by frame, each frame with new
 * input: /edu.lmb on QEMU's edu device, /twoop.lmb on a model of a Wormhole. Copy
 * it and change the jobs.
 *
 * It is the machine's only program. Process 1 mounts what is needed, runs each
 * job as a process of its own, prints how it ended, and powers off.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <spawn.h>
#include <unistd.h>

#include "lightmetal.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Prints a line without stdio, whose system calls a sealed process does not
 * survive; snprintf with numbers and strings makes none. */
__attribute__((format(printf, 1, 2)))
static void say(const char *format, ...)
{
	char line[LM_TEXT_MAX + 64];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (n > (int)sizeof line - 1)
		n = sizeof line - 1;
	if (n > 0 && write(1, line, (size_t)n) < 0)
		return; /* there is no other place for a message */
}

/* Says why the last call on an image failed, and passes its status on. */
static int failed(lm_handle image, const char *what, int status)
{
	char text[LM_TEXT_MAX] = "";
	lm_last_error(image, NULL, text, sizeof text);
	say("firmware: %s: %s\n", what, text);
	return status;
}

/* An image and the sequence of it that makes a frame. */
struct workload {
	lm_handle image;
	uint32_t sequence;
};

/* Opens and loads an image. Until here nothing was stored to the device. */
static int prepare(struct workload *w, const char *path, const char *device, const char *sequence)
{
	int status;
	if (lm_abi() != LM_ABI) {
		say("firmware: lightmetal.h and liblightmetal.a are of different versions\n");
		return LM_INTERNAL;
	}
	if ((status = lm_open(path, &w->image)) != LM_OK)
		return failed(LM_NO_IMAGE, path, status);
	if ((status = lm_load(w->image, &device, 1, LM_ANY_WINDOW)) != LM_OK ||
	    (status = lm_find_sequence(w->image, sequence, &w->sequence)) != LM_OK)
		return failed(w->image, path, status);
	return LM_OK;
}

/* The pointers to inputs and outputs are valid until lm_close. */
static int input(struct workload *w, const char *name, size_t size, void **data)
{
	uint32_t tensor;
	int status = lm_find_tensor(w->image, name, &tensor);
	if (status == LM_OK)
		status = lm_input(w->image, tensor, size, data);
	return status == LM_OK ? LM_OK : failed(w->image, name, status);
}

static int output(struct workload *w, const char *name, size_t size, const void **data)
{
	uint32_t tensor;
	int status = lm_find_tensor(w->image, name, &tensor);
	if (status == LM_OK)
		status = lm_output(w->image, tensor, size, data);
	return status == LM_OK ? LM_OK : failed(w->image, name, status);
}

/* 1000 factorials on a real device, in a sealed process. The name of the device
 * is NULL: the only one with the PCI ids in the image. */
static int factorials(void)
{
	struct workload w;
	void *n;
	const void *result;
	int status;
	if ((status = prepare(&w, "/edu.lmb", NULL, "compute")) != LM_OK ||
		(status = input(&w, "n", 4, &n)) != LM_OK ||
		(status = output(&w, "result", 4, &result)) != LM_OK)
		return status;
	if ((status = lm_freeze(w.image)) != LM_OK || (status = lm_seal(w.image)) != LM_OK)
		return failed(w.image, "freezing", status);
	for (uint32_t frame = 0; frame < 1000; frame++) {
		uint32_t number = frame % 13, got, want = 1; /* 12! is the last that fits */
		for (uint32_t i = 2; i <= number; i++)
			want *= i;
		memcpy(n, &number, sizeof number);
		if ((status = lm_run(w.image, w.sequence)) != LM_OK)
			return failed(w.image, "edu", status);
		memcpy(&got, result, sizeof got);
		if (frame % 100 == 12 || got != want)
			say("firmware: edu frame %u: %u! = %u\n", frame, number, got);
		if (got != want)
			return LM_MISMATCH;
	}
	say("firmware: edu: 1000 frames right\n");
	return lm_close(w.image);
}

/* 10 frames of d = relu(a + b - 100) by a core of a Wormhole: with "card" on the
 * command line a real one, else the mock of `./build.sh archive --mock`, which
 * allocates, so that there is no seal. */
static const char *wormhole = "mock:wormhole";

static int sums(void)
{
	enum { elements = 256 };
	struct workload w;
	void *a, *b;
	const void *d;
	int status;
	if ((status = prepare(&w, "/twoop.lmb", wormhole, "main")) != LM_OK ||
		(status = input(&w, "a", 4 * elements, &a)) != LM_OK ||
		(status = input(&w, "b", 4 * elements, &b)) != LM_OK ||
		(status = output(&w, "d", 4 * elements, &d)) != LM_OK)
		return status;
	if ((status = lm_freeze(w.image)) != LM_OK)
		return failed(w.image, "freezing", status);
	int32_t *left = a, *right = b;
	const int32_t *got = d;
	for (int32_t frame = 0; frame < 10; frame++) {
		int64_t total = 0;
		for (int32_t i = 0; i < elements; i++) {
			left[i] = 7 * i - 100 * frame;
			right[i] = 50 * frame - 3 * i;
		}
		if ((status = lm_run(w.image, w.sequence)) != LM_OK)
			return failed(w.image, "twoop", status);
		for (int32_t i = 0; i < elements; i++) {
			int32_t sum = left[i] + right[i] - 100, want = sum > 0 ? sum : 0;
			total += got[i];
			if (got[i] != want) {
				say("firmware: twoop frame %d: d[%d] = %d, want %d\n", frame, i, got[i], want);
				return LM_MISMATCH;
			}
		}
		say("firmware: twoop frame %d: right, sum %lld\n", frame, (long long)total);
	}
	return lm_close(w.image);
}

static const struct job {
	const char *name;
	int (*run)(void);
} jobs[] = {{"edu", factorials}, {"twoop", sums}};

/* Runs this program again for one job and returns its exit status. A child of
 * fork has no Go threads, and can only exec. */
static int child(const char *job)
{
	char *const argv[] = {"firmware", (char *)job, wormhole ? NULL : "card", NULL};
	char *const environment[] = {NULL};
	pid_t pid;
	int status;
	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environment) != 0)
		return LM_INTERNAL;
	while (waitpid(-1, &status, 0) != pid)
		; /* process 1 inherits orphans */
	if (WIFSIGNALED(status))
		say("firmware: %s was ended by signal %d\n", job, WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : LM_INTERNAL;
}

/* Process 1. It makes no lm_ call, so that /proc is there before the first. */
static int init(void)
{
	static const struct {
		const char *kind, *path;
	} mounts[] = {{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}};
	int status = LM_OK;
	for (size_t i = 0; i < COUNT(mounts); i++) {
		mkdir(mounts[i].path, 0755);
		/* The kernel may have done it. */
		mount(mounts[i].kind, mounts[i].path, mounts[i].kind, 0, NULL);
	}
	for (size_t i = 0; i < COUNT(jobs) && status == LM_OK; i++)
		status = child(jobs[i].name);
	say("lmrun: exit %d\n", status);
	sync();
	reboot(RB_POWER_OFF);
	return status;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[argc - 1], "card") == 0)
		wormhole = NULL;
	if (getpid() == 1)
		return init();
	for (size_t i = 0; i < COUNT(jobs); i++)
		if (argc > 1 && strcmp(argv[1], jobs[i].name) == 0)
			return jobs[i].run();
	say("usage: firmware edu|twoop [card], or as process 1 with [card]\n");
	return LM_USAGE;
}
