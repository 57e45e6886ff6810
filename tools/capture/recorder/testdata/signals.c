// Handlers of signals in a program that accesses a BAR.
//
//	signals FILE
//
// It prints what the handlers found; the exit status is 0 if all is right.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile uint32_t *bar;
static volatile sig_atomic_t traps;

static void fault(int signal, siginfo_t *info, void *context) {
	printf("%d at %p, code %d\n", signal, info->si_code > 0 ? info->si_addr : 0, info->si_code > 0);
	siglongjmp(back, 1);
}

static void trap(int signal) { traps++; }

static void set(int signal, void *handler, int flags) {
	struct sigaction a = {.sa_flags = flags};
	a.sa_sigaction = handler;
	sigaction(signal, &a, 0);
}

static void query(const char *when) {
	struct sigaction s, t;
	sigaction(SIGSEGV, 0, &s);
	sigaction(SIGTRAP, 0, &t);
	printf("%s: %d %d, flags %x\n", when, s.sa_sigaction == fault, t.sa_handler == trap,
		(unsigned)s.sa_flags & 0x7fffffff);
}

static void faults(void) {
	if (!sigsetjmp(back, 1))
		*(volatile int *)64 = 1;
	if (!sigsetjmp(back, 1))
		raise(SIGSEGV);
	raise(SIGTRAP);
}

// reach accesses the BAR with signals blocked: by moves, and by arithmetic.
static void *reach(void *unused) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bar[1] = 5;
	(void)bar[1];
	__sync_fetch_and_add(&bar[2], 3);
	bar[3] = bar[2] * 7;
	pthread_sigmask(SIG_SETMASK, &before, 0);
	return 0;
}

int main(int count, char **arguments) {
	int fd = open(arguments[1], O_RDWR), status;
	setvbuf(stdout, 0, _IONBF, 0);
	bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	set(SIGSEGV, fault, SA_SIGINFO | SA_NODEFER);
	set(SIGTRAP, trap, 0);
	reach(0);
	query("one thread");
	faults();
	pthread_t other;
	pthread_create(&other, 0, reach, 0);
	pthread_join(other, 0);
	faults();
	reach(0);
	if (fork() == 0) {
		query("child");
		faults();
		_exit(0);
	}
	wait(&status);
	printf("the child ended with %d\n", status);
	reach(0);
	mprotect((void *)bar, 4096, PROT_READ);
	if (!sigsetjmp(back, 1))
		bar[1] = 6; // the program's own fault, at a BAR
	mprotect((void *)bar, 4096, PROT_READ | PROT_WRITE);
	set(SIGSEGV, SIG_IGN, 0);
	reach(0);
	raise(SIGSEGV);
	printf("ignored\n");
	set(SIGSEGV, fault, SA_SIGINFO | SA_RESETHAND);
	reach(0);
	if (!sigsetjmp(back, 1))
		raise(SIGSEGV);
	query("once");
	printf("%d traps\n", traps);
	return 0;
}
