/* What the second flash contains: the image, data for its inputs, and what to run. `./build.sh
   bare` writes it (tools/check/guest/bare.go). The firmware never writes flash.

     offset  bytes
          0      8  "LMFLASH1"
          8      4  number of entries
         12      4  0
         16     24  each entry: kind, name offset, name bytes, data offset, data bytes, 0

   All numbers are little endian, offsets count from the start of the flash. Data start at
   multiples of 4096. */
#ifndef FLASH_H
#define FLASH_H

#include <stdbool.h>
#include <stdint.h>

/* flash_kind says what an entry is for. */
enum flash_kind {
	FLASH_IMAGE = 1,  /* the image, as data */
	FLASH_INPUT = 2,  /* an input's name, and its data */
	FLASH_RUN = 3,    /* the name of a sequence to run; sequences run in the order of entries */
	FLASH_DUMP = 4,   /* print all bytes of outputs */
	FLASH_BUDGET = 5, /* run in slices of a cyclic task; data: the budget of a slice, 4 bytes */
};

/* flash is a memory-mapped flash with its entries. */
struct flash {
	const uint8_t *bytes;
	uint64_t size;
	uint32_t entries;
};

/* flash_entry is an entry; name and data lie in the flash. */
struct flash_entry {
	uint32_t kind;
	const char *name;
	uint32_t name_bytes;
	const uint8_t *data;
	uint32_t data_bytes;
};

/* flash_open finds the entries. It returns false if the flash has none. */
bool flash_open(struct flash *flash, const uint8_t *bytes, uint64_t size);

/* flash_read reads entry `index`. It returns false if there is no such entry, or if a part of it
   lies outside the flash. */
bool flash_read(const struct flash *flash, uint32_t index, struct flash_entry *entry);

#endif
