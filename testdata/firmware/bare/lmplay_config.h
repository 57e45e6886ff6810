/* The player's configuration for this firmware: it includes this header by LMPLAY_CONFIG.

   The macros for stores are replaced to note when the first store into a BAR happens. A firmware
   that does not measure that needs no configuration. */
#ifndef LMPLAY_CONFIG_H
#define LMPLAY_CONFIG_H

#include <stdint.h>

/* first_store_ns is the time of the first store into a BAR, 0 before. */
extern uint64_t first_store_ns;

/* note_first_store sets first_store_ns if address is in a BAR and not in memory. */
void note_first_store(uintptr_t address);

#define NOTED_STORE(type, address, value)                  \
	do {                                                   \
		if (first_store_ns == 0)                           \
			note_first_store(address);                     \
		*(volatile type *)(address) = (type)(value);       \
	} while (0)

#define LMPLAY_STORE8(address, value) NOTED_STORE(uint8_t, address, value)
#define LMPLAY_STORE16(address, value) NOTED_STORE(uint16_t, address, value)
#define LMPLAY_STORE32(address, value) NOTED_STORE(uint32_t, address, value)
#define LMPLAY_STORE64(address, value) NOTED_STORE(uint64_t, address, value)

#endif
