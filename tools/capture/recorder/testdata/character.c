// Maps one page of a character device, whose path is the second argument, then three pages, and
// stores to the last page of both mappings.
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    int fd = argc > 2 ? open(argv[2], O_RDWR) : -1;
    for (uint32_t pages = 1; pages <= 3; pages += 2) {
        volatile uint32_t *map =
            mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            return 1;
        map[(pages - 1) * 1024 + 1] = pages;
    }
    return 0;
}
