/* A stub of Zephyr's header: see kernel.h in this directory. */
#ifndef STUB_ZEPHYR_DEVICE_H
#define STUB_ZEPHYR_DEVICE_H

#include <stddef.h>
#include <stdint.h>

typedef uintptr_t mm_reg_t;

void device_map(mm_reg_t *virt_addr, uintptr_t phys_addr, size_t size, uint32_t flags);

#endif
