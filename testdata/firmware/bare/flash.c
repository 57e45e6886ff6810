/* The entries of the second flash. */
#include "flash.h"

#include <stddef.h>

enum { COUNT_AT = 8, HEADER_BYTES = 16, ENTRY_BYTES = 24 };

static uint32_t read32(const uint8_t *at)
{
	return *(const uint32_t *)(const void *)at;
}

bool flash_open(struct flash *flash, const uint8_t *bytes, uint64_t size)
{
	static const char magic[] = "LMFLASH1";
	for (size_t i = 0; i < sizeof magic - 1; i++)
		if (size < HEADER_BYTES || bytes[i] != (uint8_t)magic[i])
			return false;
	flash->bytes = bytes;
	flash->size = size;
	flash->entries = read32(bytes + COUNT_AT);
	return true;
}

static bool is_inside(const struct flash *flash, uint32_t offset, uint32_t size)
{
	return (uint64_t)offset + size <= flash->size;
}

bool flash_read(const struct flash *flash, uint32_t index, struct flash_entry *entry)
{
	if (index >= flash->entries || index >= (flash->size - HEADER_BYTES) / ENTRY_BYTES)
		return false;
	const uint8_t *at = flash->bytes + HEADER_BYTES + (size_t)index * ENTRY_BYTES;
	uint32_t name = read32(at + 4), data = read32(at + 12);
	entry->kind = read32(at);
	entry->name = (const char *)flash->bytes + name;
	entry->name_bytes = read32(at + 8);
	entry->data = flash->bytes + data;
	entry->data_bytes = read32(at + 16);
	return is_inside(flash, name, entry->name_bytes) && is_inside(flash, data, entry->data_bytes);
}
