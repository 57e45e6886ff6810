/* This program implements both sides of a ring (RING.md). It can write the inputs of lmrun to a
 * ring, or read the outputs of lmrun from a ring. It needs C11 and Linux.
 *
 *   ring_peer write FILE SLOT_BYTES SLOTS < DATA     write until DATA ends
 *   ring_peer read FILE SLOT_BYTES SLOTS > DATA      read until the ring is closed
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct ring {
	char magic[8];
	uint64_t slot_bytes, slots;
	_Atomic uint32_t closed;
	char pad1[36];
	_Atomic uint64_t written;
	char pad2[56];
	_Atomic uint64_t read;
	char pad3[4096 - 136];
	unsigned char data[];
};
_Static_assert(offsetof(struct ring, written) == 64, "RING.md");
_Static_assert(offsetof(struct ring, read) == 128, "RING.md");
_Static_assert(offsetof(struct ring, data) == 4096, "RING.md");

/* Returns the distance between two adjacent slots in the file, in bytes. */
static uint64_t stride(uint64_t slot_bytes) { return (slot_bytes + 63) / 64 * 64; }

/* Returns 1 if the file begins with a header of zeros. */
static int header_is_zero(int fd)
{
	static const char zeros[4096];
	char header[4096];
	return pread(fd, header, sizeof header, 0) == sizeof header &&
		memcmp(header, zeros, sizeof header) == 0;
}

/* Maps the ring in the file at path, or returns NULL after an error. If the file does not exist or
 * is empty, ring_open creates a ring. If another process was killed while it created the ring,
 * ring_open completes the ring. It does not change any other file. */
static struct ring *ring_open(const char *path, uint64_t slot_bytes, uint64_t slots)
{
	struct stat st;
	const off_t size = 4096 + slots * stride(slot_bytes);
	struct {
		char magic[8];
		uint64_t slot_bytes, slots;
	} begin = {"LMRING1", slot_bytes, slots};

	/* Lock the file, so that lmrun cannot use the ring before the ring is complete. */
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0660);
	if (fd < 0 || flock(fd, LOCK_EX) != 0 || fstat(fd, &st) != 0)
		return NULL;
	/* Allocate the space now. Otherwise, if the file system is full, runs would fail. */
	if (st.st_size == 0 && posix_fallocate(fd, 0, size) != 0)
		return NULL;
	if (st.st_size != 0 && st.st_size != size)
		return NULL;
	/* Write the header with one system call. Even if this process is killed, the header then
	 * contains only zeros or is complete. */
	if (header_is_zero(fd) && pwrite(fd, &begin, sizeof begin, 0) != sizeof begin)
		return NULL;
	struct ring *r = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r == MAP_FAILED)
		return NULL;
	flock(fd, LOCK_UN); /* close does not unlock a file that is still mapped */
	close(fd);
	int matches = memcmp(r->magic, "LMRING1", 8) == 0 && r->slot_bytes == slot_bytes &&
		r->slots == slots;
	return matches ? r : NULL;
}

static void pause_20us(void) { nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); }

/* Waits for a free slot, copies data into the slot, and passes the slot to the reader. */
static void ring_write(struct ring *r, const void *data)
{
	uint64_t n = atomic_load_explicit(&r->written, memory_order_relaxed);
	while (n - atomic_load_explicit(&r->read, memory_order_acquire) == r->slots)
		pause_20us();
	memcpy(r->data + n % r->slots * stride(r->slot_bytes), data, r->slot_bytes);
	atomic_store_explicit(&r->written, n + 1, memory_order_release);
}

/* Waits for a filled slot, copies the slot into data, and passes the slot back to the writer.
 * Returns 1, or 0 if the ring is closed and all slots have been read. */
static int ring_read(struct ring *r, void *data)
{
	uint64_t n = atomic_load_explicit(&r->read, memory_order_relaxed);
	for (;;) {
		uint32_t closed = atomic_load_explicit(&r->closed, memory_order_acquire);
		if (atomic_load_explicit(&r->written, memory_order_acquire) != n)
			break;
		if (closed)
			return 0;
		pause_20us();
	}
	memcpy(data, r->data + n % r->slots * stride(r->slot_bytes), r->slot_bytes);
	atomic_store_explicit(&r->read, n + 1, memory_order_release);
	return 1;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 64;
	uint64_t slot_bytes = strtoull(argv[3], NULL, 0);
	struct ring *r = ring_open(argv[2], slot_bytes, strtoull(argv[4], NULL, 0));
	void *data = malloc(slot_bytes);
	if (r == NULL || data == NULL)
		return 74;
	if (strcmp(argv[1], "write") == 0) {
		atomic_store(&r->closed, 0);
		while (fread(data, slot_bytes, 1, stdin) == 1)
			ring_write(r, data);
		atomic_store_explicit(&r->closed, 1, memory_order_release);
	} else {
		while (ring_read(r, data))
			fwrite(data, slot_bytes, 1, stdout);
	}
	return 0;
}
