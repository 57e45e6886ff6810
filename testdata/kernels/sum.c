/* sum of n int32, wrapping. args at 0x10010: n, a, total */
typedef unsigned u32;
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	u32 n = arg[0], *a = (u32 *)arg[1], *total = (u32 *)arg[2];
	u32 sum = 0;
	for (u32 i = 0; i < n; i++) sum += a[i];
	*total = sum;
	return 0;
}
