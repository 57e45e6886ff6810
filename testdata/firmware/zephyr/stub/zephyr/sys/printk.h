/* A stub of Zephyr's header: see kernel.h in the directory above. */
#ifndef STUB_ZEPHYR_SYS_PRINTK_H
#define STUB_ZEPHYR_SYS_PRINTK_H

__attribute__((format(printf, 1, 2))) void printk(const char *fmt, ...);

#endif
