/* The three functions of libc that the player needs. A compiler emits calls of them too, for
   copies of structs; -fno-tree-loop-distribute-patterns keeps it from emitting them here. */
#include "memory.h"

#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	unsigned char *t = to;
	const unsigned char *f = from;
	uintptr_t both = (uintptr_t)t | (uintptr_t)f;
	/* Without a cache an access costs the same for 1 and for 8 bytes. */
	for (; both % 8 == 0 && size >= 8; size -= 8, t += 8, f += 8)
		*(uint64_t *)(void *)t = *(const uint64_t *)(const void *)f;
	for (; size > 0; size--)
		*t++ = *f++;
	return to;
}

void *memset(void *to, int value, size_t size)
{
	unsigned char *t = to;
	for (; size > 0; size--)
		*t++ = (unsigned char)value;
	return to;
}

int memcmp(const void *one, const void *other, size_t size)
{
	const unsigned char *a = one, *b = other;
	for (; size > 0; size--, a++, b++)
		if (*a != *b)
			return *a < *b ? -1 : 1;
	return 0;
}
