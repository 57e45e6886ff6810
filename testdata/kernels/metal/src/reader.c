/* Pages of up to two interleaved DRAM buffers into circular buffers 0 and 1.
   arguments: page bytes, first page, pages, buffer 0[, buffer 1]; a buffer of 0 is none */
#include "metal.h"
int main(void)
{
	u32 size = get_arg(0);
	for (u32 page = get_arg(1), end = page + get_arg(2); page != end; page++)
		for (u32 i = 0; i < 2; i++) {
			if (!get_arg(3 + i))
				continue;
			cb_reserve_back(i, 1);
			read_page(get_arg(3 + i), page, size, get_write_ptr(i));
			noc_async_read_barrier();
			cb_push_back(i, 1);
		}
	return 0;
}
