/* Configuration of lmplay.c for check.c: functions make the accesses to mapped windows. */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdint.h>

uint64_t mapped_load(uintptr_t address, unsigned width);
void mapped_store(uintptr_t address, unsigned width, uint64_t value);

#define LMPLAY_LOAD8(address) ((uint8_t)mapped_load((address), 1))
#define LMPLAY_LOAD16(address) ((uint16_t)mapped_load((address), 2))
#define LMPLAY_LOAD32(address) ((uint32_t)mapped_load((address), 4))
#define LMPLAY_LOAD64(address) mapped_load((address), 8)
#define LMPLAY_STORE8(address, value) mapped_store((address), 1, (value))
#define LMPLAY_STORE16(address, value) mapped_store((address), 2, (value))
#define LMPLAY_STORE32(address, value) mapped_store((address), 4, (value))
#define LMPLAY_STORE64(address, value) mapped_store((address), 8, (value))

#endif
