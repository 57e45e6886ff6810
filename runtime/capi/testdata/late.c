/*
 * `late IMAGE DEVICE` seals a process in which a thread of Go begins late, for archive_test.go. It
 * exits with 0 if the archive waits for this thread before the seal. Otherwise the kernel kills it.
 * The program must be linked dynamically, because it replaces pthread_create.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lightmetal.h"

/* The function of the second thread that Go starts: sysmon. On the first one, Go initializes
   itself. */
static int go_threads;
static void *(*late_routine)(void *);
static void *late_argument;
static atomic_bool is_sealed, has_begun;

/* Returns the time of the monotonic clock in milliseconds. */
static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* Makes a system call that the seal does not allow, as the C library does when a thread begins, and
   then runs the thread. This happens after the seal, or after 50 ms if that comes first. */
static void *begin_late(void *unused)
{
	(void)unused;
	for (int64_t start = now_ms(); !is_sealed && now_ms() - start < 50;)
		sched_yield();
	getppid();
	has_begun = true;
	return late_routine(late_argument);
}

/* Go calls this function instead of the function of the C library, which it calls. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
    void *argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *address = dlsym(RTLD_NEXT, "pthread_create");
	memcpy(&create, &address, sizeof create);
	if (++go_threads != 2)
		return create(thread, attributes, routine, argument);
	late_routine = routine;
	late_argument = argument;
	return create(thread, attributes, begin_late, NULL);
}

/* Ends the program with 1 if a call of the archive has failed. */
static void check(int32_t code, const char *call)
{
	char text[LM_TEXT_MAX] = "";
	if (code == LM_OK)
		return;
	lm_last_error(LM_NO_IMAGE, NULL, text, sizeof text);
	printf("%s: %d %s\n", call, (int)code, text);
	_exit(1);
}

int main(int argc, char **argv)
{
	lm_handle image = 0;
	const char *device = argc == 3 ? argv[2] : "";
	check(argc == 3 ? lm_open(argv[1], &image) : LM_USAGE, "lm_open");
	check(lm_load(image, &device, 1, LM_ANY_WINDOW), "lm_load");
	check(lm_freeze(image), "lm_freeze");
	check(lm_seal(image), "lm_seal");
	is_sealed = true;
	while (!has_begun)
		sched_yield();
	return 0;
}
