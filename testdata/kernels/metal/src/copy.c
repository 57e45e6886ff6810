/* Pages of an interleaved DRAM buffer to another, through L1.
   arguments: source, destination, first page, pages, page bytes, L1 address */
#include "metal.h"
int main(void)
{
	u32 size = get_arg(4), l1 = get_arg(5);
	for (u32 page = get_arg(2), end = page + get_arg(3); page != end; page++) {
		read_page(get_arg(0), page, size, l1);
		noc_async_read_barrier();
		write_page(l1, get_arg(1), page, size);
		noc_async_write_barrier();
	}
	return 0;
}
