// CRC-32C by the processor's instruction where there is one.
#ifndef CRC32C_H
#define CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t size);

#endif
