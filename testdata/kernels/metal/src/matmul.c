/* Rows of c = a x b, n x n int32. All are interleaved DRAM buffers with a row a page.
   arguments: a, b, c, first row, rows, n, L1 scratch */
#include "metal.h"
int main(void)
{
	u32 n = get_arg(5), row_bytes = 4 * n, b_at = get_arg(6), a_at = b_at + n * row_bytes,
		c_at = a_at + row_bytes;
	for (u32 k = 0; k < n; k++)
		read_page(get_arg(1), k, row_bytes, b_at + k * row_bytes);
	for (u32 row = get_arg(3), end = row + get_arg(4); row != end; row++) {
		read_page(get_arg(0), row, row_bytes, a_at);
		noc_async_read_barrier();
		u32 *a = (u32 *)a_at, *b = (u32 *)b_at, *c = (u32 *)c_at;
		for (u32 j = 0; j < n; j++) {
			u32 sum = 0;
			for (u32 k = 0; k < n; k++)
				sum += a[k] * b[k * n + j];
			c[j] = sum;
		}
		asm volatile("" ::: "memory");
		write_page(c_at, get_arg(2), row, row_bytes);
		noc_async_write_barrier();
	}
	return 0;
}
