// What programs do around their accesses to a BAR.
//
//	edges FILE SCENARIO [ARGUMENTS]
//
// Each prints the accesses that the record is to have, and what it found.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 1 << 20 };

static int fd;
static char **arguments;

static volatile uint32_t *map(int of) {
	void *p = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, of, 0);
	if (p == MAP_FAILED)
		exit(1);
	return p;
}

static void store(volatile uint32_t *p, unsigned at, uint32_t v) {
	p[at / 4] = v;
	printf("= W %x 4 %02x%02x%02x%02x\n", at, v & 255, v >> 8 & 255, v >> 16 & 255, v >> 24);
}

static void load(volatile uint32_t *p, unsigned at) {
	uint32_t v = p[at / 4];
	printf("= R %x 4 %02x%02x%02x%02x\n", at, v & 255, v >> 8 & 255, v >> 16 & 255, v >> 24);
}

static int do_memfd(void) {
	int memory = memfd_create("card", 0);
	if (ftruncate(memory, SIZE))
		return 2;
	volatile uint32_t *p = map(memory);
	store(p, 16, 77);
	load(p, 16);
	return pwrite(memory, "word", 4, 32) != 4;
}

// A descriptor to another process, a ring of requests, and the memory as a file.
static int do_past(void) {
	int pair[2];
	char one = 1, control[CMSG_SPACE(sizeof fd)] = {0}, setup[120] = {0};
	struct iovec vector = {&one, 1};
	struct msghdr message = {
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control,
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	store(map(fd), 4, 1);
	syscall(SYS_io_uring_setup, 1, setup);
	unsigned long context = 0;
	syscall(SYS_io_setup, 1, &context);
	int memory = open("/proc/self/mem", O_RDWR);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || sendmsg(pair[0], &message, 0) != 1)
		return 3;
	return memory < 0 ? 3 : 0;
}

// System calls on a file that stands for a BAR.
static int do_moves(void) {
	uint32_t v = 9;
	store(map(fd), 4, 1);
	return pwrite(fd, &v, 4, 64) != 4 || pwrite(dup(fd), &v, 4, 68) != 4 ||
		preadv2(fd, &(struct iovec){&v, 4}, 1, 64, 0) != 4;
}

// What the kernel moves between the file and another one.
static int do_between(void) {
	int ends[2];
	store(map(fd), 4, 1);
	off_t at = 0;
	return pipe(ends) || sendfile(ends[1], fd, &at, 4) != 4 ||
		splice(ends[0], 0, fd, &(loff_t){64}, 4, 0) != 4 ||
		copy_file_range(fd, &(loff_t){0}, fd, &(loff_t){512}, 4, 0) != 4;
}

// The first thread ends before another opens and maps the file.
static void *follower(void *first) {
	pthread_join(*(pthread_t *)first, 0);
	int again = open(arguments[1], O_RDWR);
	volatile uint32_t *p = map(again);
	store(p, 8, 5);
	load(p, 8);
	fflush(stdout);
	exit(0);
}

static int do_leader(void) {
	static pthread_t first, second;
	first = pthread_self();
	pthread_create(&second, 0, follower, &first);
	pthread_exit(0);
}

static int do_debugger(void) {
	int status;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 ? errno : 0);
	waitpid(child, &status, 0);
	printf("traced: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	store(map(fd), 8, 2);
	return 0;
}

static int do_rights(void) {
	printf("user %d\n", geteuid());
	store(map(fd), 12, 3);
	return 0;
}

static int do_ones(void) {
	volatile uint32_t *p = map(fd);
	memset((void *)p, 0xff, 8);
	load(p, 0);
	while (p[1] != 0xffffffff)
		;
	return 7;
}

static int do_dies(void) {
	store(map(fd), 20, 5);
	fflush(stdout);
	abort();
}

// Two devices at once. One is opened again after it was closed, and a protection key
// removes the access to it and restores it.
static int do_several(char **arguments) {
	int other = open(arguments[3], O_RDWR);
	volatile uint32_t *p = map(fd), *q = map(other);
	store(p, 0, 1);
	store(q, 4, 2);
	munmap((void *)p, SIZE);
	close(fd);
	fd = open(arguments[1], O_RDWR);
	p = map(fd);
	syscall(SYS_pkey_mprotect, p, SIZE, PROT_NONE, -1);
	syscall(SYS_pkey_mprotect, p, SIZE, PROT_READ | PROT_WRITE, -1);
	store(p, 8, 3);
	load(q, 4);
	return 0;
}

static int do_waits(void) {
	store(map(fd), 24, 6);
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}

// Runs a program for which the system forbids tracing.
static int do_forbidden(char **program) {
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof code / sizeof *code, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 8;
	execv(program[0], program);
	return 9;
}

// A part of the mapping shows another part of the file; then all of it shows its own part again.
static int do_remaps(void) {
	volatile uint32_t *p = map(fd);
	store(p, 0, 1);
	if (remap_file_pages((void *)p, 8192, 0, 5, 0))
		return 2;
	p[1] = 7;
	printf("= W %x 4 07000000\n", 5 * 4096 + 4);
	p[1024] = 8;
	printf("= W %x 4 08000000\n", 6 * 4096);
	if (remap_file_pages((void *)p, 4096, 0, 0, 0))
		return 3;
	store(p, 8, 9);
	return 0;
}

// The mapping then shows a part of the file that was not mapped before.
static int do_remapsbeyond(void) {
	volatile uint32_t *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	store(p, 0, 1);
	if (remap_file_pages((void *)p, 4096, 0, 5, 0))
		return 2;
	p[1] = 7;
	store(p, 4096, 9);
	return 0;
}

// A child that has not got the mapping, and one that has.
static int do_dontfork(void) {
	volatile uint32_t *p = map(fd), *q = map(fd);
	int status;
	madvise((void *)p, SIZE, MADV_DONTFORK);
	fflush(stdout);
	if (fork() == 0) {
		q[1] = 3;
		p[2] = 4;
		_exit(0);
	}
	wait(&status);
	printf("= W 4 4 03000000\nthe child ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	store(p, 12, 5);
	return 0;
}

// Children in strict mode: one makes permitted calls only, the others forbidden ones, too.
static int do_strict(void) {
	volatile uint32_t *p = map(fd);
	for (int how = 0; how < 3; how++) {
		int status;
		fflush(stdout);
		if (fork() == 0) {
			if (how == 1 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0)
				: prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0))
				_exit(100);
			p[how] = how + 1;
			if (write(1, "written\n", 8) != 8 || how > 0)
				syscall(SYS_getpid);
			syscall(SYS_exit, 7);
		}
		wait(&status);
		printf("= W %x 4 %02x000000\nthe child ended by %d with %d\n", 4 * how, how + 1,
			WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		       WIFEXITED(status) ? WEXITSTATUS(status) : 0);
	}
	return 0;
}

// Passes pointers to the mapping in system calls, and ignores the results.
static int do_pointers(void) {
	volatile char *p = (volatile char *)map(fd);
	int ends[2], sockets[2];
	struct iovec vector[2] = {{&ends, 4}, {(void *)(p + 64), 4}};
	struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
	store((volatile uint32_t *)p, 0, 1);
	if (pipe(ends) || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets))
		return 2;
	int n = write(ends[1], (void *)p, 4) + write(ends[1], (void *)(p + 4), 4) +
		read(open("/dev/zero", O_RDONLY), (void *)(p + 8), 4) +
	        (writev(ends[1], vector + 1, 1) != 4) + (sendmsg(sockets[0], &message, 0) != 8) +
		(syscall(SYS_getrandom, p + 32, 8, 0) != 8);
	printf("%d\n", n);
	return 0;
}

int main(int count, char **given) {
	arguments = given;
	fd = open(arguments[1], O_RDWR);
	const struct {
		const char *name;
		int (*run)(void);
	} all[] = {{"memfd", do_memfd}, {"past", do_past}, {"moves", do_moves}, {"between", do_between},
		{"leader", do_leader}, {"debugger", do_debugger}, {"rights", do_rights}, {"ones", do_ones},
		{"dies", do_dies}, {"waits", do_waits}, {"remaps", do_remaps},
		{"remapsbeyond", do_remapsbeyond}, {"dontfork", do_dontfork}, {"strict", do_strict},
		{"pointers", do_pointers}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(arguments[2], all[i].name))
			return all[i].run();
	if (!strcmp(arguments[2], "several"))
		return do_several(arguments);
	return count > 3 ? do_forbidden(arguments + 3) : 64;
}
