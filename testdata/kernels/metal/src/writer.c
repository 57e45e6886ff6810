/* Pages of circular buffer 16 to an interleaved DRAM buffer.
   arguments: page bytes, first page, pages, buffer */
#include "metal.h"
int main(void)
{
	u32 size = get_arg(0);
	for (u32 page = get_arg(1), end = page + get_arg(2); page != end; page++) {
		cb_wait_front(16, 1);
		write_page(get_read_ptr(16), get_arg(3), page, size);
		noc_async_write_barrier();
		cb_pop_front(16, 1);
	}
	return 0;
}
