/* n bytes from one place on the NoC to another, by way of L1 at buffer, in pieces of at most size
   bytes, a multiple of 64.
   args at 0x10010: noc, n, from, from address, to, to address, buffer, size */
#include "noc.h"
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	u32 noc = arg[0], n = arg[1], from = arg[2], source = arg[3], to = arg[4], target = arg[5],
		buffer = arg[6], size = arg[7];
	for (; n; n -= size, source += size, target += size) {
		if (size > n) size = n;
		noc_read(noc, from, source, buffer, size);
		noc_write(noc, buffer, to, target, size);
	}
	return 0;
}
