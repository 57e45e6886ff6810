/* A model of QEMU's edu (docs/specs/edu.rst), which works at once. */
#ifndef EDU_H
#define EDU_H

#include <stdbool.h>
#include <stdint.h>

enum { EDU_BAR_BYTES = 1 << 20, EDU_BUFFER = 0x40000, EDU_BUFFER_BYTES = 4096 };

struct edu {
	uint32_t liveness, value, status, interrupts;
	uint64_t dma[3]; /* source, destination, count */
	bool is_master;
	uint64_t memory[EDU_BUFFER_BYTES / 8];
};

uint64_t edu_load(struct edu *e, uint32_t offset);
void edu_store(struct edu *e, uint32_t offset, uint64_t value);

#endif
