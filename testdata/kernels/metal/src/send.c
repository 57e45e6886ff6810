/* Bytes of the own L1 to another core's.
   arguments: own address, tile, its address, bytes */
#include "metal.h"
int main(void)
{
	noc_async_write(get_arg(0), get_arg(1), get_arg(2), get_arg(3));
	noc_async_write_barrier();
	return 0;
}
