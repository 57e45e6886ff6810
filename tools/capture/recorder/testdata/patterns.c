// Accesses to a mapped file, as programs make them to a BAR.
//
//	patterns FILE SCENARIO
//
// Scenario "volatile" prints each access as the recorder is to see it. All
// print what they computed, which has to be the same without the recorder.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 20 };

static const char *path, *self;
static int fd;

static void *map_at(void *at, size_t length, int prot, int flags, off_t offset) {
	void *p = mmap(at, length, prot, MAP_SHARED | flags, fd, offset);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static uint8_t *map(void) { return map_at(0, SIZE, PROT_READ | PROT_WRITE, 0, 0); }

static void line(char kind, size_t offset, int size, uint64_t v) {
	printf("= %c %zx %d ", kind, offset, size);
	for (int i = 0; i < size; i++)
		printf("%02x", (unsigned)(v >> 8 * i & 0xff));
	printf("\n");
}

#define STORE(type, offset, v)                                                                     \
	(*(volatile type *)(p + (offset)) = (v), line('W', offset, sizeof(type), (type)(v)))
#define LOAD(type, offset) line('R', offset, sizeof(type), *(volatile type *)(p + (offset)))

static int do_volatile(void) {
	uint8_t *p = map();
	for (int i = 0; i < 16; i++) {
		STORE(uint8_t, 256 * i + 1, 17 * i);
		STORE(uint16_t, 256 * i + 2, 0x1234 * i);
		STORE(uint32_t, 256 * i + 4, 0x89abcdefu * i);
		STORE(uint64_t, 256 * i + 8, 0x0123456789abcdefull * i);
		LOAD(uint64_t, 256 * i);
		LOAD(uint32_t, 256 * i + 4);
		LOAD(uint16_t, 256 * i + 2);
		LOAD(uint8_t, 256 * i + 15);
	}
	STORE(uint32_t, 0x8003, 0x11223344); // not aligned
	LOAD(uint32_t, 0x8003);
	atomic_store_explicit((_Atomic uint32_t *)(p + 0x9000), 5, memory_order_release);
	line('W', 0x9000, 4, 5);
	line('R', 0x9000, 4, atomic_load((_Atomic uint32_t *)(p + 0x9000)));
	*(volatile uint32_t *)(p + 0x9000) |= 8;
	line('R', 0x9000, 4, 5);
	line('W', 0x9000, 4, 13);
	return 0;
}

struct block {
	uint64_t a[5];
	uint32_t b;
	uint8_t c[12];
};

static uint32_t sum(const uint8_t *b, size_t n) {
	uint32_t s = 1;
	for (size_t i = 0; i < n; i++)
		s = s * 16777619u ^ b[i];
	return s;
}

// Copies of all lengths and both alignments, into the BAR, out of it and in it.
static int do_bulk(void) {
	static uint8_t from[16384], to[16384];
	uint8_t *p = map();
	uint32_t s = 0;
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = i * 7 + i / 256;
	for (size_t n = 0; n < 300; n += n < 70 ? 1 : 13)
		for (size_t at = 0; at < 5; at += 3) {
			memcpy(p + at, from + 1, n);
			memset(p + 1024 + at, (int)n, n);
			memset(p + 2048 + at, 0, n);
			memmove(p + 512 + at, p + at, n);
			memcpy(to, p + 512 + at, n);
			s = s * 31 + sum(to, n) + (memcmp(p + at, from + 1, n) == 0) +
				(memcmp(p + at, from, n) < 0);
		}
	for (size_t n = 4096; n <= sizeof from; n *= 2) {
		memcpy(p + 65536, from, n);
		memcpy(to, p + 65536, n);
		memmove(p + 65539, p + 65536, n - 3);
		s = s * 31 + sum(to, n);
	}
	struct block one = {{1, 2, 3, 4, 5}, 6, {7}}, two;
	*(struct block *)(p + 4096) = one;
	two = *(struct block *)(p + 4096);
	strcpy((char *)p + 8192, "a string of some length, to be measured and found");
	s = s * 31 + sum((uint8_t *)&two, sizeof two) + strlen((char *)p + 8192) +
		(strchr((char *)p + 8192, 'm') - (char *)p);
	// Loops that compilers make vectors of.
	float *f = (float *)(p + 16384);
	uint32_t *w = (uint32_t *)(p + 32768), total = 0;
	for (int i = 0; i < 500; i++)
		f[i] = i * 0.5f;
	for (int i = 0; i < 500; i++)
		w[i] = i * 3;
	for (int i = 0; i < 500; i++)
		total += w[i];
	printf("sum %08x total %u\n", s, total);
	return 0;
}

static void *thread(void *argument) {
	volatile uint32_t *p = argument;
	for (int i = 0; i < 200; i++) {
		p[0] = i;
		p[1] += p[0];
	}
	return 0;
}

static int do_threads(void) {
	uint8_t *p = map();
	pthread_t t[20];
	for (int i = 0; i < 20; i++)
		pthread_create(&t[i], 0, thread, p + 4096 * i);
	for (int i = 0; i < 20; i++)
		pthread_join(t[i], 0);
	for (int i = 0; i < 20; i++)
		printf("%u ", *(volatile uint32_t *)(p + 4096 * i + 4));
	printf("\n");
	return 0;
}

static int do_mappings(void) {
	uint8_t *p = map(), *q = map_at(0, 8192, PROT_READ | PROT_WRITE, 0, 4096);
	STORE(uint32_t, 4096, 1);
	*(volatile uint32_t *)q += 1; // the same place
	line('R', 4096, 4, 1), line('W', 4096, 4, 2);
	if (mprotect(p, SIZE, PROT_READ) || mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE))
		return 1;
	STORE(uint32_t, 4100, 3);
	LOAD(uint32_t, 4096);
	// Memory and BAR in one call.
	uint8_t *area = mmap(0, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	map_at(area + 4096, 4096, PROT_READ, MAP_FIXED, 8192);
	if (mprotect(area, 3 * 4096, PROT_READ | PROT_WRITE))
		return 2;
	area[0] = 1, area[8192] = 2;
	*(volatile uint8_t *)(area + 4096) = 9;
	line('W', 8192, 1, 9);
	*(volatile uint16_t *)(area + 8191) = 0x0201; // half of it in the BAR
	line('W', 12287, 1, 1);
	uint8_t *r = mremap(q, 8192, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, area);
	if (r != area)
		return 3;
	*(volatile uint32_t *)r = 7;
	line('W', 4096, 4, 7);
	// Over a BAR comes memory, which is not recorded.
	mmap(area + 4096, 4096, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	area[4096] = 77;
	munmap(p + 4096, 4096);
	LOAD(uint32_t, 8192);
	munmap(p, SIZE);
	uint8_t *o = map_at(0, 4096, PROT_WRITE, MAP_POPULATE, 0); // write-only
	*(volatile uint32_t *)(o + 16) = 5;
	line('W', 16, 4, 5);
	// Read-only, of a descriptor that is read-only, too.
	int ro = open(path, O_RDONLY);
	if (mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0) != MAP_FAILED)
		return 4;
	uint8_t *s = mmap(0, 16, PROT_READ, MAP_SHARED, ro, 0);
	close(ro);
	line('R', 16, 4, *(volatile uint32_t *)(s + 16));
	return 0;
}

static int do_children(void) {
	uint8_t *p = map();
	STORE(uint32_t, 0, 1);
	fflush(stdout);
	int status;
	if (fork() == 0) {
		STORE(uint32_t, 4, 2);
		munmap(p, SIZE);
		fflush(stdout);
		execl(self, self, path, "exec", (char *)0);
		_exit(9);
	}
	wait(&status);
	if (vfork() == 0) {
		*(volatile uint32_t *)(p + 8) = 3;
		_exit(0);
	}
	line('W', 8, 4, 3);
	LOAD(uint32_t, 8); // still mapped here
	fflush(stdout);
	printf("status %d\n", WEXITSTATUS(status));
	return 0;
}

static int do_exec(void) {
	uint8_t *p = map();
	STORE(uint32_t, 12, 4);
	return 5;
}

static volatile int ticks;
static void tick(int s) { (void)s, ticks++; }

static int do_signals(void) {
	volatile uint32_t *p = (void *)map();
	struct itimerval often = {{0, 100}, {0, 100}};
	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often, 0);
	for (int i = 0; i < 2000; i++)
		p[0] += 1, p[1] = i;
	do
		p[2] = 1;
	while (ticks < 5);
	setitimer(ITIMER_REAL, &(struct itimerval){0}, 0);
	printf("%u\n", p[0]);
	return 0;
}

static void *seen;
static void fault(int s, siginfo_t *info, void *context) {
	(void)context;
	printf("signal %d code %d at +%zx\n", s, info->si_code,
		(size_t)((char *)info->si_addr - (char *)seen));
	fflush(stdout);
	_exit(3);
}

// A store to a read-only mapping, and a store beyond the end of the file, are the
// program's own faults.
static int do_fault(int bus) {
	struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &a, 0);
	sigaction(SIGBUS, &a, 0);
	seen = map_at(0, bus ? 2 * SIZE : SIZE, bus ? PROT_READ | PROT_WRITE : PROT_READ, 0, 0);
	*(volatile uint32_t *)((char *)seen + (bus ? SIZE + 8 : 8)) = 1;
	return 0;
}

// An instruction that the recorder does not know: of x87, or exclusive.
static int do_unknown(void) {
	uint8_t *p = map();
	*(volatile uint32_t *)p = 1;
#ifdef __x86_64__
	asm volatile("fildl %0; fld1; faddp; fistpl %0" : "+m"(*(volatile uint32_t *)p));
#else
	atomic_fetch_add((_Atomic uint32_t *)p, 1);
#endif
	printf("%u\n", *(volatile uint32_t *)p);
	return 0;
}

static int do_forever(void) {
	volatile uint32_t *p = (void *)map();
	printf("ready\n");
	fflush(stdout);
	while (p[0] != 1)
		;
	return 0;
}

// A system call with a pointer to a BAR: the kernel cannot access the BAR.
static int do_call(void) {
	uint8_t *p = map();
	return write(1, p, 16) == 16 ? 0 : 4;
}

int main(int count, char **arguments) {
	if (count != 3)
		return 64;
	self = arguments[0], path = arguments[1];
	fd = open(path, O_RDWR);
	const struct {
		const char *name;
		int (*run)(void);
	} all[] = {{"volatile", do_volatile}, {"bulk", do_bulk}, {"threads", do_threads},
		{"mappings", do_mappings}, {"children", do_children}, {"exec", do_exec},
		{"signals", do_signals}, {"unknown", do_unknown}, {"forever", do_forever},
		{"call", do_call}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(arguments[2], all[i].name))
			return all[i].run();
	if (!strcmp(arguments[2], "readonly"))
		return do_fault(0);
	if (!strcmp(arguments[2], "bus"))
		return do_fault(1);
	if (!strcmp(arguments[2], "none"))
		return 6;
	raise(SIGTERM);
	return 64;
}
