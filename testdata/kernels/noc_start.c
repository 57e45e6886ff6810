/* Loads n bytes, a program, at 0 of the tiles of a rectangle beside this one and starts BRISC
   there: by one multicast, and by a store to each one's SOFT_RESET_0.
   args at 0x10010: noc, n, program, start corner, end corner, tiles, then the coordinate of each */
#include "noc.h"
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	u32 noc = arg[0], n = arg[1], program = arg[2], tiles = arg[5];
	noc_multicast(noc, program, arg[3], arg[4], tiles, 0, n);
	for (u32 i = 0; i < tiles; i++) noc_write_register(noc, arg[6 + i], 0xFFB121B0, 0x47000);
	return 0;
}
