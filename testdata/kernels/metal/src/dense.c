/* Rows of a dense int8 layer: y = saturate(relu((W x + b) >> shift)), or plain int32.
   W is an interleaved DRAM buffer with a row a page, b and y have a 64-byte page a row, x is one
   page.
   arguments: W, b, x, y, first row, rows, columns, shift or 255 for int32, L1 scratch */
#include "metal.h"
int main(void)
{
	u32 columns = get_arg(6), shift = get_arg(7), scratch = get_arg(8);
	u32 x_at = scratch, row_at = scratch + 1024, bias_at = scratch + 2048, out_at = scratch + 2112;
	read_page(get_arg(2), 0, columns, x_at);
	for (u32 row = get_arg(4), end = row + get_arg(5); row != end; row++) {
		read_page(get_arg(0), row, columns, row_at);
		read_page(get_arg(1), row, 64, bias_at);
		noc_async_read_barrier();
		volatile i8 *x = (i8 *)x_at, *w = (i8 *)row_at;
		i32 sum = (i32)WORD(bias_at);
		for (u32 i = 0; i < columns; i++)
			sum += x[i] * w[i];
		if (shift != 255) {
			sum >>= shift;
			sum = sum < 0 ? 0 : sum > 127 ? 127 : sum;
		}
		for (u32 i = 0; i < 16; i++)
			WORD(out_at + 4 * i) = i ? 0 : (u32)sum;
		write_page(out_at, get_arg(3), row, 64);
		noc_async_write_barrier();
	}
	return 0;
}
