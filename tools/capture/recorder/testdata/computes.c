// Computes with what it loads from a mapped file, by instructions that take
// their operand from memory, and prints the results.
//
//	computes FILE
//	computes FILE stops|traps
//	computes FILE exec N
//	computes FILE unmaps|refuses|ends
//
// stops, traps: eight threads compute, while the first thread stops the program as Ctrl-Z
// does, or sends them SIGTRAP. exec: the first thread computes, and another thread runs
// the program again, N times. unmaps: the program unmaps the page in which the recorder
// executes instructions. refuses: the kernel permits no such page. ends: the first thread
// has ended before another thread computes.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char *bar;
static volatile sig_atomic_t ticks;
static sigjmp_buf back;

static void tick(int s) { ticks++; }
static void zero(int s, siginfo_t *info, void *context) { siglongjmp(back, 1 + info->si_code); }

static double compute(volatile uint32_t *place) {
	double sum = 0;
	for (int i = 1; i <= 200; i++) {
		uint64_t bits, whole = 1000000007, rest = 0;
		float f = (float)i;
		*place = 7 * i;
		asm volatile("popcnt %1, %k0" : "=r"(bits) : "m"(*place));
		asm volatile("addss %1, %0" : "+x"(f) : "m"(*place));
		asm volatile("divl %2" : "+a"(whole), "+d"(rest) : "m"(*place) : "cc");
		asm volatile("shll $3, %0; imull $5, %0, %k1" : "+m"(*place), "=r"(whole) : : "cc");
		sum += (double)bits + f + (double)rest + (double)whole;
	}
	return sum;
}

// Changes words that all threads change, by atomic instructions.
static void together(void) {
	uint32_t *place = (uint32_t *)(bar + 3072), *lock = (uint32_t *)(bar + 3136);
	for (int i = 0; i < 50; i++) {
		__atomic_fetch_add(place, 1, __ATOMIC_SEQ_CST);
		__atomic_or_fetch(place + 1, 1 << (i % 32), __ATOMIC_SEQ_CST);
		while (__atomic_exchange_n(lock, 1, __ATOMIC_SEQ_CST))
			;
		place[2] += 3;
		__atomic_store_n(lock, 0, __ATOMIC_SEQ_CST);
		uint32_t was = 5;
		__atomic_compare_exchange_n(place + 3, &was, 6, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
}

static void *thread(void *at) {
	static double sums[8];
	sums[(long)at] = compute((volatile uint32_t *)(bar + 64 * (long)at));
	together();
	return &sums[(long)at];
}

static volatile int came, computing = 8;
static void count_it(int s) { __atomic_fetch_add(&came, 1, __ATOMIC_SEQ_CST); }

static void *computer(void *at) {
	static double sums[8];
	sums[(long)at] = compute((volatile uint32_t *)(bar + 64 * (long)at));
	__atomic_fetch_sub(&computing, 1, __ATOMIC_SEQ_CST);
	while (computing >= 0) // until all signals are sent
		sched_yield();
	return &sums[(long)at];
}

static int do_signals(int number) {
	pthread_t threads[8];
	for (long i = 0; i < 8; i++)
		pthread_create(&threads[i], 0, computer, (void *)i);
	if (number == SIGTRAP) {
		signal(SIGTRAP, count_it);
		for (int i = 0; i < 200; i++) {
			pthread_kill(threads[i % 8], SIGTRAP);
			// The kernel joins a SIGTRAP that is sent with a tracer's own of the same moment.
			for (int n = 0; n < 1000 && came <= i; n++)
				sched_yield();
		}
	} else {
		kill(getpid(), number);
		signal(number, count_it); // counts the signal that stops the program
	}
	while (computing > 0)
		sched_yield();
	computing = -1;
	for (int i = 0; i < 8; i++) {
		void *sum;
		pthread_join(threads[i], &sum);
		printf("%f\n", *(double *)sum);
	}
	// The kernel chooses the thread that takes the stop, before or after the handler is set.
	printf("came: %d\n", number == SIGTRAP ? came > 0 : came > 1);
	return 0;
}

static void *last(void *first) {
	if (first)
		pthread_join(*(pthread_t *)first, 0);
	printf("%f\n", compute((volatile uint32_t *)bar));
	fflush(stdout);
	return 0;
}

static int do_page(const char *how) {
	static pthread_t first;
	pthread_t other;
	if (!strcmp(how, "ends")) {
		first = pthread_self();
		pthread_create(&other, 0, last, &first);
		pthread_exit(0);
	}
	if (!strcmp(how, "refuses") && prctl(65, 1, 0, 0, 0)) // PR_SET_MDWE, Linux 6.3
		return 77;
	last(0);
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char rights[8], line[512];
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && !strcmp(rights, "rwxp"))
			munmap((void *)start, end - start);
	last(0);
	return 0;
}

static char **self;

static void *anew(void *nothing) {
	while (!came)
		sched_yield();
	execv("/proc/self/exe", self);
	_exit(9);
}

static int do_exec(char **arguments) {
	pthread_t other;
	char left[16];
	int n = atoi(arguments[3]);
	snprintf(left, sizeof left, "%d", n - 1);
	arguments[3] = left, self = arguments;
	if (n > 0)
		pthread_create(&other, 0, anew, 0);
	do {
		printf("%f\n", compute((volatile uint32_t *)bar));
		came = 1;
	} while (n > 0);
	return 0;
}

int main(int count, char **arguments) {
	int fd = open(arguments[1], O_RDWR);
	bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	alarm(count > 2 ? 1000 : 0); // a signal that is lost is waited for
	if (count > 3)
		return do_exec(arguments);
	if (count > 2 && (!strcmp(arguments[2], "stops") || !strcmp(arguments[2], "traps")))
		return do_signals(strcmp(arguments[2], "stops") ? SIGTRAP : SIGTSTP);
	if (count > 2)
		return do_page(arguments[2]);
	signal(SIGALRM, tick);
	struct itimerval every = {{0, 500}, {0, 500}};
	setitimer(ITIMER_REAL, &every, 0);
	pthread_t threads[8];
	for (long i = 0; i < 8; i++)
		pthread_create(&threads[i], 0, thread, (void *)i);
	for (int i = 0; i < 8; i++) {
		void *sum;
		pthread_join(threads[i], &sum);
		printf("%f\n", *(double *)sum);
	}
	const uint32_t *place = (uint32_t *)(bar + 3072);
	printf("together %u %x %u %u\n", place[0], place[1], place[2], place[3]);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		printf("child %f\n", compute((volatile uint32_t *)(bar + 1024)));
		fflush(stdout);
		_exit(3);
	}
	int status;
	while (waitpid(child, &status, 0) < 0)
		;
	printf("child %d\n", WEXITSTATUS(status));
	every.it_value.tv_usec = every.it_interval.tv_usec = 0;
	setitimer(ITIMER_REAL, &every, 0);

	struct sigaction action = {.sa_sigaction = zero, .sa_flags = SA_SIGINFO};
	sigaction(SIGFPE, &action, 0);
	volatile uint32_t *none = (volatile uint32_t *)(bar + 2048);
	int code = sigsetjmp(back, 1);
	if (code == 0) {
		uint32_t low = 5, high = 0;
		asm volatile("divl %2" : "+a"(low), "+d"(high) : "m"(*none) : "cc");
	}
	printf("by zero: %d\n", code);
	code = sigsetjmp(back, 1);
	if (code == 0) {
		uint32_t unmasked = 0x1f80 & ~0x200; // MXCSR: division by zero
		float number = 1;
		asm volatile("ldmxcsr %2; divss %1, %0" : "+x"(number) : "m"(*none), "m"(unmasked));
	}
	printf("a number by zero: %d\n", code);
	return 0;
}
