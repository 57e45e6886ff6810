/* n bytes from src to dst, words where both are aligned. args at 0x10010: n, src, dst */
typedef unsigned u32;
typedef unsigned char u8;
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	u32 n = arg[0];
	u8 *src = (u8 *)arg[1], *dst = (u8 *)arg[2];
	if ((((u32)src | (u32)dst) & 3) == 0)
		for (; n >= 4; n -= 4, src += 4, dst += 4) *(volatile u32 *)dst = *(u32 *)src;
	for (; n; n--)
		/* volatile: or the compiler calls memcpy, which is not there */
		*(volatile u8 *)dst++ = *src++;
	return 0;
}
