/*
 * Records failures of a firmware in C in a file that `lm faults` prints, as lmrun -faults does.
 * Copy this file. tools/lmrun/FAULTS.md describes the file and its entries.
 *
 *     struct fault_log log;
 *     fault_log_open(&log, "/data/faults", checksum);    before lm_seal
 *     ...
 *     if (lm_run(image, sequence) != LM_OK)
 *             fault_log_append(&log, image, runs);       before lm_close
 *
 * The file must exist and have a size that is a multiple of 512, filled with zeros:
 * `truncate -s 32K FILE` makes it. Only one process may use it. fault_log_append makes two system
 * calls, pwrite64, which lm_seal allows, and allocates nothing. The clock is read through the vDSO.
 * The entry has no PCI registers, because the archive does not read them.
 */
#ifndef FAULT_LOG_H
#define FAULT_LOG_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lightmetal.h"

enum { FAULT_BYTES = 512, FAULT_SLOTS_MAX = 4096, FAULT_REASON_MAX = 327 };

struct fault_log {
	int fd;            /* descriptor of the file */
	uint64_t number;   /* number of the next entry */
	uint32_t slot;     /* slot of the next entry */
	uint32_t slots;    /* slots of the file */
	uint32_t checksum; /* checksum of the image: bytes 12 to 15 of its file */
};

/* Stores a number of `size` bytes, little endian. */
static void fault_put(uint8_t *to, uint64_t value, int size)
{
	for (int i = 0; i < size; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

/* Returns the CRC-32C of the bytes that an entry's checksum covers. */
static uint32_t fault_checksum(const uint8_t *entry)
{
	uint32_t crc = ~0u;
	for (int i = 0; i < FAULT_BYTES - 4; i++) {
		crc ^= entry[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

/* Returns the number of an entry, or 0 if it is not complete. */
static uint64_t fault_number(const uint8_t *entry)
{
	uint8_t checksum[4];
	uint64_t number = 0;
	fault_put(checksum, fault_checksum(entry), 4);
	if (memcmp(entry, "LMFAULT1", 8) != 0 || memcmp(entry + 508, checksum, 4) != 0)
		return 0;
	for (int i = 0; i < 8; i++)
		number |= (uint64_t)entry[8 + i] << 8 * i;
	return number;
}

/* Opens the file and finds the slot after the newest entry. Returns 0, or -1 with errno: EINVAL if
   the file has data that are neither zeros nor entries. */
static int fault_log_open(struct fault_log *log, const char *path, uint32_t checksum)
{
	uint8_t entry[FAULT_BYTES];
	memset(log, 0, sizeof *log);
	log->checksum = checksum;
	log->fd = open(path, O_RDWR | O_DSYNC | O_CLOEXEC);
	if (log->fd < 0)
		return -1;
	while (log->slots < FAULT_SLOTS_MAX &&
	       pread(log->fd, entry, sizeof entry, (off_t)log->slots * FAULT_BYTES) == FAULT_BYTES) {
		uint64_t number = fault_number(entry);
		if (memcmp(entry, "LMFAULT1", 8) != 0 &&
		    (entry[0] != 0 || memcmp(entry, entry + 1, sizeof entry - 1) != 0)) {
			close(log->fd);
			errno = EINVAL;
			return -1;
		}
		log->slots++;
		if (number > log->number) {
			log->number = number;
			log->slot = log->slots;
		}
	}
	log->number++;
	return 0;
}

/* Writes an entry about the last call on an image. `runs` is the number of runs that were completed
   before. Returns 0, or -1 with errno. */
static int fault_log_append(struct fault_log *log, lm_handle image, uint64_t runs)
{
	uint8_t entry[FAULT_BYTES] = "LMFAULT1";
	char text[LM_TEXT_MAX] = "";
	struct lm_error e;
	struct timespec now;
	const char *reason;
	off_t at;
	ssize_t written;
	if (log->slots == 0 || lm_last_error(image, &e, text, sizeof text) != LM_OK)
		return -1;
	clock_gettime(CLOCK_REALTIME, &now);
	fault_put(entry + 8, log->number, 8);
	fault_put(entry + 16, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, 8);
	fault_put(entry + 24, runs, 8);
	entry[32] = (uint8_t)e.code;
	entry[33] = (uint8_t)(e.safe < 0 ? 0 : e.safe);
	entry[34] = e.safe >= 0;
	fault_put(entry + 36, (uint32_t)e.command, 4);
	fault_put(entry + 40, e.got, 8);
	fault_put(entry + 48, e.want, 8);
	fault_put(entry + 56, e.mask, 8);
	fault_put(entry + 64, e.element, 8);
	fault_put(entry + 72, e.ignored, 4);
	fault_put(entry + 80, log->checksum, 4);
	/* The text begins with the code, which is in the entry already. */
	reason = strstr(text, ": ");
	reason = reason ? reason + 2 : text;
	memcpy(entry + 180, reason, strnlen(reason, FAULT_REASON_MAX));
	fault_put(entry + 508, fault_checksum(entry), 4);
	/* The magic first: an interrupted write must still look like an entry. */
	at = (off_t)(log->slot % log->slots) * FAULT_BYTES;
	written = pwrite(log->fd, entry, 8, at);
	if (written == 8)
		written += pwrite(log->fd, entry + 8, sizeof entry - 8, at + 8);
	log->slot = log->slot % log->slots + 1;
	log->number++;
	return written == FAULT_BYTES ? 0 : -1;
}
#endif
