// Sleeps until interrupts of a device that another thread represents, in each way that a program
// can, and loads a register after each. The request FIOCLEX stands for VFIO_DEVICE_SET_IRQS.
#include <fcntl.h>
#include <linux/vfio.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <unistd.h>

static volatile uint32_t *bar;
static int events[3], step;

static void check(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static void *later(void *vector) {
    usleep(2000);
    uint64_t one = 1;
    check(write(events[(intptr_t)vector], &one, 8) == 8, "write");
    return 0;
}

// begin lets the device raise an interrupt soon.
static pthread_t begin(intptr_t vector) {
    pthread_t device;
    bar[0] = ++step;
    check(!pthread_create(&device, 0, later, (void *)vector), "thread");
    return device;
}

static void end(pthread_t device) {
    (void)bar[1];
    pthread_join(device, 0);
}

static void take(int fd) {
    uint64_t count;
    check(read(fd, &count, 8) == 8, "read");
}

int main(int argc, char **argv) {
    int card = open(argv[1], O_RDWR);
    bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
    check(bar != MAP_FAILED, "mmap");
    struct {
        struct vfio_irq_set head;
        int32_t fds[3];
    } set = {{sizeof set, VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
                 VFIO_PCI_MSIX_IRQ_INDEX, 4, 3}};
    for (int i = 0; i < 3; i++)
        set.fds[i] = events[i] = eventfd(0, EFD_CLOEXEC);
    check(!ioctl(card, FIOCLEX, &set), "SET_IRQS");

    pthread_t t = begin(0); // 1: a read
    take(events[0]);
    end(t);

    t = begin(1); // 2: poll, then a read that shows nothing new
    struct pollfd p[2] = {{events[0], POLLIN}, {events[1], POLLIN}};
    check(poll(p, 2, -1) == 1, "poll");
    (void)bar[2];
    take(events[1]);
    end(t);

    t = begin(2); // 3: select, with a copy of the descriptor
    int copy = dup(events[2]);
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(copy, &reads);
    check(select(copy + 1, &reads, 0, 0, 0) == 1, "select");
    take(copy);
    end(t);

    int epoll = epoll_create1(0);
    for (int i = 0; i < 3; i++) {
        struct epoll_event e = {EPOLLIN | EPOLLET, {.u64 = 0x100000000u + i}};
        check(!epoll_ctl(epoll, EPOLL_CTL_ADD, events[i], &e), "epoll_ctl");
    }
    for (int i = 0; i < 2; i++) { // 4 and 5: edges, without a read
        t = begin(2);
        struct epoll_event e;
        check(epoll_wait(epoll, &e, 1, -1) == 1 && e.data.u64 == 0x100000002u, "epoll_wait");
        end(t);
    }

    bar[0] = ++step; // 6: waits that end without an interrupt, and an eventfd of another kind
    struct timespec soon = {0, 1000};
    check(ppoll(p, 2, &soon, 0) == 0, "ppoll");
    int own = eventfd(1, 0);
    take(own);
    (void)bar[1];

    set.head.flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
    set.head.start = set.head.count = 0;
    check(!ioctl(card, FIOCLEX, &set), "SET_IRQS");
    t = begin(0); // 7: the device has no interrupts any more
    take(events[0]);
    end(t);
    puts("done");
    return 0;
}
