/* Gathers one byte of each 64-byte page of a DRAM buffer into one page of another.
   arguments: source, destination, pages, L1 scratch */
#include "metal.h"
int main(void)
{
	u32 pages = get_arg(2), in = get_arg(3), out = in + 64;
	for (u32 page = 0; page < pages; page += 4) {
		u32 word = 0;
		for (u32 i = 0; i < 4; i++) {
			read_page(get_arg(0), page + i, 64, in);
			noc_async_read_barrier();
			word |= (load_word(in) & 0xff) << 8 * i;
		}
		WORD(out + page) = word;
	}
	write_page(out, get_arg(1), 0, pages);
	noc_async_write_barrier();
	return 0;
}
