/* int32, element by element, from circular buffers 0 and 1 to 16.
   arguments: operation, pages, constant */
#include "metal.h"
enum { ADD, MUL, NEG, RELU, ABS, SCALE, OPERATIONS };
static i32 apply(u32 operation, i32 a, i32 b)
{
	switch (operation) {
	case ADD: return (i32)((u32)a + (u32)b);
	case MUL: return (i32)((u32)a * (u32)b);
	case NEG: return (i32)(0 - (u32)a);
	case RELU: return a < 0 ? 0 : a;
	case ABS: return a < 0 ? (i32)(0 - (u32)a) : a;
	}
	return (i32)((u32)a * get_arg(2));
}
int main(void)
{
	u32 operation = get_arg(0), two = operation <= MUL, n = CB_PAGE(16) / 4;
	if (operation >= OPERATIONS)
		return 1;
	for (u32 pages = get_arg(1); pages; pages--) {
		cb_wait_front(0, 1);
		if (two)
			cb_wait_front(1, 1);
		cb_reserve_back(16, 1);
		i32 *a = (i32 *)get_read_ptr(0), *b = (i32 *)(two ? get_read_ptr(1) : 0),
			*c = (i32 *)get_write_ptr(16);
		for (u32 i = 0; i < n; i++)
			c[i] = apply(operation, a[i], two ? b[i] : 0);
		(void)*(volatile i32 *)&c[n - 1];
		cb_push_back(16, 1);
		cb_pop_front(0, 1);
		if (two)
			cb_pop_front(1, 1);
	}
	return 0;
}
