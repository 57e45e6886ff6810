// PID 1 of a guest that runs /driver and powers off. If /lm exists, lm records the driver, and the
// recording goes to the serial port /dev/ttyS0, which QEMU can write to a file.

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define RECORDING "/tmp/card.record"

static void run(char *const words[])
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		execv(words[0], words);
		perror(words[0]);
		_exit(127);
	}
	waitpid(child, &status, 0);
	printf("%s: exit status %d\n", words[0], WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

// send copies the recording to the serial port, byte for byte.
static void send(void)
{
	char buffer[4096];
	ssize_t size;
	struct termios raw;
	int from = open(RECORDING, O_RDONLY), to = open("/dev/ttyS0", O_WRONLY | O_NOCTTY);
	if (from < 0) {
		perror(RECORDING);
		return;
	}
	if (to < 0 || tcgetattr(to, &raw) != 0) {
		perror("/dev/ttyS0 (start QEMU with -device pci-serial)");
		return;
	}
	cfmakeraw(&raw);
	tcsetattr(to, TCSANOW, &raw);
	while ((size = read(from, buffer, sizeof buffer)) > 0)
		for (ssize_t done = 0, written; done < size; done += written) {
			written = write(to, buffer + done, size - done);
			if (written < 0) {
				perror("/dev/ttyS0");
				return;
			}
		}
	tcdrain(to);
}

int main(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	mkdir("/tmp", 01777);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	char *driver[] = {"/driver", NULL};
	char *record[] = {"/lm", "record", "-o", RECORDING, "--", "/driver", NULL};
	if (access("/lm", X_OK) == 0) {
		run(record);
		send();
	} else {
		run(driver);
	}
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
}
