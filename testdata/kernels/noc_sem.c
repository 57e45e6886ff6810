/* Workers send words to a master, which adds up the words of all, wrapping, and tells them that it
   has.
   args at 0x10010: noc, semaphore, n, a multiple of 4, words, workers
   of a worker, whose workers is 0, further: master, place of its words there
   of the master, whose words are those of all workers, one after the other: total, then the
   coordinate of each worker
   The semaphore is at the same address in every tile; the word after it is overwritten. */
#include "noc.h"
static void work(volatile u32 *arg, u32 noc, u32 semaphore, u32 n, u32 words) {
	noc_write(noc, words, arg[5], arg[6], 4 * n);
	noc_increment(noc, arg[5], semaphore, 1, semaphore + 4);
	noc_await(semaphore, 1);
}
static void lead(volatile u32 *arg, u32 noc, u32 semaphore, u32 n, u32 words, u32 workers) {
	u32 total = 0;
	noc_await(semaphore, workers);
	for (u32 i = 0; i < n * workers; i++) total += ((volatile u32 *)words)[i];
	*(volatile u32 *)arg[5] = total;
	for (u32 i = 0; i < workers; i++) noc_increment(noc, arg[6 + i], semaphore, 1, semaphore + 4);
}
int main(void) {
	volatile u32 *arg = (u32 *)0x10010;
	if (arg[4] == 0) work(arg, arg[0], arg[1], arg[2], arg[3]);
	else lead(arg, arg[0], arg[1], arg[2], arg[3], arg[4]);
	return 0;
}
