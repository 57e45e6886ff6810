/* y = alpha * x + y, Q16.16 fixed point, product rounded down, wrapping.
   args at 0x10010: n, alpha, x, y */
typedef int i32;
typedef unsigned u32;
typedef long long i64;
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	u32 n = arg[0];
	i32 alpha = arg[1], *x = (i32 *)arg[2];
	u32 *y = (u32 *)arg[3];
	for (u32 i = 0; i < n; i++) y[i] += (u32)((i64)alpha * x[i] >> 16);
	return 0;
}
