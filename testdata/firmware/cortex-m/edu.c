#include "edu.h"

#include "memory.h"

enum {
	ID = 0x00,
	LIVENESS = 0x04,
	FACTORIAL = 0x08,
	STATUS = 0x20,
	INTERRUPTS = 0x24,
	RAISE = 0x60,
	ACKNOWLEDGE = 0x64,
	DMA_SOURCE = 0x80,
	DMA_COUNT = 0x90,
	DMA_COMMAND = 0x98, /* bit 0: run, bit 1: to host memory */
};

uint64_t edu_load(struct edu *e, uint32_t offset)
{
	switch (offset) {
	case ID:
		return 0x010000ed;
	case LIVENESS:
		return ~e->liveness;
	case FACTORIAL:
		return e->value;
	case STATUS:
		return e->status;
	case INTERRUPTS:
		return e->interrupts;
	}
	return offset >= DMA_SOURCE && offset <= DMA_COUNT ? e->dma[(offset - DMA_SOURCE) / 8] : 0;
}

/* copy moves the bytes of a transfer, if they are inside the buffer. */
static void copy(struct edu *e, bool to_host)
{
	uint64_t in_buffer = e->dma[to_host ? 0 : 1] - EDU_BUFFER;
	void *memory = (void *)(uintptr_t)e->dma[to_host ? 1 : 0];
	if (!e->is_master || in_buffer > EDU_BUFFER_BYTES ||
		e->dma[2] > EDU_BUFFER_BYTES - in_buffer)
		return;
	uint8_t *buffer = (uint8_t *)e->memory + in_buffer;
	memcpy(to_host ? memory : buffer, to_host ? buffer : memory, (size_t)e->dma[2]);
}

void edu_store(struct edu *e, uint32_t offset, uint64_t value)
{
	switch (offset) {
	case LIVENESS:
		e->liveness = (uint32_t)value;
		return;
	case FACTORIAL:
		e->value = 1;
		for (uint32_t i = (uint32_t)value; i > 1; i--)
			e->value *= i;
		return;
	case STATUS:
		e->status = (uint32_t)value & 0x80;
		return;
	case RAISE:
		e->interrupts |= (uint32_t)value;
		return;
	case ACKNOWLEDGE:
		e->interrupts &= ~(uint32_t)value;
		return;
	case DMA_COMMAND:
		copy(e, (value & 2) != 0);
		return;
	}
	if (offset >= DMA_SOURCE && offset <= DMA_COUNT)
		e->dma[(offset - DMA_SOURCE) / 8] = value;
}
