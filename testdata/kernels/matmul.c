/* c = a x b, 8 x 8 int32, row by row, wrapping. args at 0x10010: a, b, c */
typedef unsigned u32;
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	u32 *a = (u32 *)arg[0], *b = (u32 *)arg[1], *c = (u32 *)arg[2];
	for (int row = 0; row < 8; row++)
		for (int column = 0; column < 8; column++) {
			u32 sum = 0;
			for (int k = 0; k < 8; k++) sum += a[8 * row + k] * b[8 * k + column];
			c[8 * row + column] = sum;
		}
	return 0;
}
