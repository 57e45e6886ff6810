/* Two data-movement cores hand one word to and fro: each adds its turn.
   arguments: rounds, own semaphore, other's semaphore, word address, summand */
#include "metal.h"
int main(void)
{
	for (u32 round = 1, rounds = get_arg(0); round <= rounds; round++) {
		while (load_word(SEMAPHORE(get_arg(1))) < round)
			;
		store_word(get_arg(3), load_word(get_arg(3)) * 3 + get_arg(4));
		store_word(SEMAPHORE(get_arg(2)), load_word(SEMAPHORE(get_arg(2))) + 1);
	}
	return 0;
}
