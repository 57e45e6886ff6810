// Maps 1 GiB for a device and uses three pages. The request FIOCLEX stands for VFIO_IOMMU_MAP_DMA.
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 1 << 30 };

int main(int argc, char **argv) {
    int card = open(argv[1], O_RDWR);
    volatile uint32_t *bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
    int memory = argc > 2 ? memfd_create("sparse", 0) : -1;
    if (memory >= 0 && ftruncate(memory, SIZE))
        return perror("ftruncate"), 1;
    char *at = mmap(0, SIZE, PROT_READ | PROT_WRITE,
        MAP_NORESERVE | (memory >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS), memory, 0);
    if (bar == MAP_FAILED || at == MAP_FAILED)
        return perror("mmap"), 1;
    at[0x1000] = 1;
    struct vfio_iommu_type1_dma_map map = {sizeof map, 3, (uintptr_t)at, 0x100000, SIZE};
    if (ioctl(card, FIOCLEX, &map))
        return perror("FIOCLEX"), 1;
    bar[0] = 1;
    at[0x20000000] = 2;
    bar[0] = 2;
    at[0x3ffffff8] = 3;
    at[0x1000] = 4;
    bar[0] = 3;
    madvise(at, 0x2000, memory >= 0 ? MADV_REMOVE : MADV_DONTNEED); // a page becomes zero again
    for (int i = 4; i < 100; i++)
        bar[0] = i;
    return 0;
}
