// What the two kernels of the recordings compute, on a copy of a tile's L1.
// Their sources are rv32im programs; arguments start at 0x10010, the flag that
// says "done" is the word at 0x10000.

#include <stdint.h>
#include <string.h>

#define L1_SIZE 0x180000
#define FLAG 0x10000
#define ARGUMENTS 0x10010
#define DONE 0x600df00d

// A first word that the fake simulator knows: it has no RISC-V cores.
#define FAKE_TWOOP 1
#define FAKE_MLP 2

static uint8_t *at(uint8_t *l1, int argument)
{
	uint32_t a;
	memcpy(&a, l1 + ARGUMENTS + 4 * argument, 4);
	return l1 + (a < L1_SIZE ? a : 0);
}

// d = relu(a + b - 100); arguments n, a, b, c, d
static inline void twoop(uint8_t *l1)
{
	int32_t *a = (int32_t *)at(l1, 1), *b = (int32_t *)at(l1, 2);
	int32_t *c = (int32_t *)at(l1, 3), *d = (int32_t *)at(l1, 4);
	uint32_t n;
	memcpy(&n, l1 + ARGUMENTS, 4);
	for (uint32_t i = 0; i < n; i++) {
		c[i] = a[i] + b[i];
		d[i] = c[i] > 100 ? c[i] - 100 : 0;
	}
}

// int8 network 64 -> 32 (relu, >> 7) -> 10; arguments x, w1, b1, w2, b2, y
static inline void mlp(uint8_t *l1)
{
	int8_t *x = (int8_t *)at(l1, 0), *w1 = (int8_t *)at(l1, 1), *w2 = (int8_t *)at(l1, 3), h[32];
	int32_t *b1 = (int32_t *)at(l1, 2), *b2 = (int32_t *)at(l1, 4), *y = (int32_t *)at(l1, 5);
	for (int o = 0; o < 32; o++) {
		int32_t s = b1[o];
		for (int i = 0; i < 64; i++)
			s += x[i] * w1[o * 64 + i];
		s >>= 7;
		h[o] = s < 0 ? 0 : s > 127 ? 127 : s;
	}
	for (int o = 0; o < 10; o++) {
		y[o] = b2[o];
		for (int i = 0; i < 32; i++)
			y[o] += h[i] * w2[o * 32 + i];
	}
}
