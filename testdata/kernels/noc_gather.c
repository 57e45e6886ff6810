/* n bytes of the L1 of each of several tiles, one behind the other.
   args at 0x10010: noc, n, from address, to address, tiles, then the coordinate of each */
#include "noc.h"
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	u32 noc = arg[0], n = arg[1], source = arg[2], target = arg[3], tiles = arg[4];
	for (u32 i = 0; i < tiles; i++) noc_read(noc, arg[5 + i], source, target + i * n, n);
	return 0;
}
