// Sleeps in calls for a character device, the second argument, which becomes ready after a store to
// the BAR. A terminal stands for the device.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

static volatile uint32_t *bar;
static int device;

static void check(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static void *take(void *line) {
    check(read(device, line, 8) == 1, "read");
    return 0;
}

static volatile long reader; // thread

// interrupted reads until the main thread sets the line discipline of the terminal.
static void *interrupted(void *line) {
    reader = syscall(SYS_gettid);
    return (void *)read(device, line, 8);
}

// await_reader waits until the reader sleeps in its call.
static void await_reader(void) {
    char path[64], text[256] = "";
    while (!reader)
        usleep(1000);
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", reader);
    while (!strstr(text, ") S ")) {
        usleep(1000);
        int file = open(path, O_RDONLY);
        check(read(file, text, sizeof text - 1) > 0, "stat");
        close(file);
    }
}

int main(int argc, char **argv) {
    char line[8];
    int card = open(argv[1], O_RDWR);
    bar = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, card, 0);
    check(bar != MAP_FAILED, "mmap");
    device = open(argv[2], O_RDWR | O_NOCTTY);

    bar[0] = 1;
    take(line);
    (void)bar[1];

    bar[0] = 2;
    struct pollfd p = {device, POLLIN};
    check(poll(&p, 1, -1) == 1, "poll");
    (void)bar[1];
    take(line); // does not sleep
    (void)bar[1];

    int n, discipline = N_TTY;
    check(!ioctl(device, FIONREAD, &n), "FIONREAD"); // does not sleep
    (void)bar[1];
    pthread_t reader;
    check(!pthread_create(&reader, 0, interrupted, line), "thread");
    await_reader();
    bar[0] = 3;
    // sleeps until the thread reads no more
    check(!ioctl(device, TIOCSETD, &discipline), "TIOCSETD");
    pthread_join(reader, 0);
    (void)bar[1];
    puts("done");
    return 0;
}
