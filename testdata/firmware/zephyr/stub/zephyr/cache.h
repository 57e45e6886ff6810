/* A stub of Zephyr's header: see kernel.h in this directory. */
#ifndef STUB_ZEPHYR_CACHE_H
#define STUB_ZEPHYR_CACHE_H

#include <stddef.h>

int sys_cache_data_flush_range(void *addr, size_t size);
int sys_cache_data_invd_range(void *addr, size_t size);

#endif
