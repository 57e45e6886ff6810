// Computes with what it loads from a mapped file, by instructions that take
// their operand from memory, and prints what comes out.
//
//	computes FILE
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
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

// Takes turns with all threads at one place, by the instructions of atomics.
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

int main(int count, char **arguments) {
	int fd = open(arguments[1], O_RDWR);
	bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
	return 0;
}
