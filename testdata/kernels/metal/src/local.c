/* int32 in L1: words of a, times a factor, plus the core's offset, to b.
   arguments: words, a, b, factor, offset */
#include "metal.h"
int main(void)
{
	volatile u32 *a = (u32 *)get_arg(1), *b = (u32 *)get_arg(2);
	for (u32 i = 0, n = get_arg(0); i < n; i++)
		b[i] = a[i] * get_arg(3) + get_arg(4);
	return 0;
}
