/* y = x * w, n int32, wrapping. Runs on several tiles: w and the arguments are multicast to the
   same address on all of them, x is each tile's own. args at 0x10010: n, w, x, y */
typedef unsigned u32;
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	u32 n = arg[0], *w = (u32 *)arg[1], *x = (u32 *)arg[2], *y = (u32 *)arg[3];
	for (u32 i = 0; i < n; i++) y[i] = x[i] * w[i];
	return 0;
}
