/* A stub of Zephyr's calls that the sample uses, declared as its documentation describes them. It
   is for tests of lightmetal: stub/zephyr.c implements the calls on a machine without an operating
   system. Build the sample with Zephyr's own headers. */
#ifndef STUB_ZEPHYR_KERNEL_H
#define STUB_ZEPHYR_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define BIT(n) (1UL << (n))
#define ROUND_UP(x, align) ((((unsigned long)(x) + (align)-1) / (align)) * (align))
#define ARG_UNUSED(x) (void)(x)
#define __aligned(n) __attribute__((aligned(n)))

#define K_MEM_CACHE_NONE 2

int64_t k_uptime_ticks(void);
uint64_t k_ticks_to_ns_floor64(uint64_t ticks);
int32_t k_usleep(int32_t us);
uintptr_t k_mem_phys_addr(void *virt);

#endif
