// Stores 1, 2, 3 and so on to words of a BAR, one after the other, up to LAST; then it waits.
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef LAST
#define LAST 100000000
#endif

enum { WORDS = 1024 };

int main(int count, char **arguments) {
	if (count != 2)
		return 1;
	int card = open(arguments[1], O_RDWR);
	volatile uint32_t *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
	if (p == MAP_FAILED)
		return 1;
	for (uint32_t n = 1; n <= LAST; n++)
		p[n % WORDS] = n;
	for (;;)
		pause();
}
