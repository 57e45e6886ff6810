// A replacement for libttsim.so that records. A program that loads it instead of the simulator runs
// unchanged: it passes every call on to the real library. It records all BAR, configuration and DMA
// traffic and every clock step. ../FORMAT.md describes the lines.
//
//     gcc -O2 -Wall -shared -fPIC -o librecord.so record.c -ldl
//     LM_RECORD_LIBRARY=libttsim.so LM_RECORD_FILE=out.record program librecord.so
//
// docs/libttsim_api.md in github.com/tenstorrent/ttsim describes the interface. The library ends
// the process with _Exit when it rejects an access. Therefore everything that is known of an access
// is written to the file before the access is made.

#define _GNU_SOURCE // dladdr
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void libttsim_init(void);

typedef void dma_read(uint64_t address, void *p, uint32_t size);
typedef void dma_write(uint64_t address, const void *p, uint32_t size);

static struct {
	void (*init)(void);
	void (*exit)(void);
	void (*set_pci_dma_mem_callbacks)(dma_read *, dma_write *);
	uint32_t (*pci_config_rd32)(uint32_t bdf, uint32_t offset);
	void (*pci_config_wr32)(uint32_t bdf, uint32_t offset, uint32_t value);
	void (*pci_mem_rd_bytes)(uint64_t address, void *p, uint32_t size);
	void (*pci_mem_wr_bytes)(uint64_t address, const void *p, uint32_t size);
	void (*clock)(uint32_t n);
	void (*tile_rd_bytes)(uint32_t x, uint32_t y, uint64_t address, void *p, uint32_t size);
	void (*tile_wr_bytes)(uint32_t x, uint32_t y, uint64_t address, const void *p, uint32_t size);
} real;

// Devices whose BAR sizes are known. The library has no documented way to query them.
static const struct known_device {
	uint16_t vendor, device;
	uint64_t size[6];
} known_devices[] = {
	{0x1e52, 0x401e, {[0] = 512ull << 20, [2] = 1ull << 20, [4] = 32ull << 20}}, // Wormhole
	{0x1e52, 0xb140, {[0] = 512ull << 20, [2] = 1ull << 20, [4] = 32ull << 30}}, // Blackhole
};

static const struct known_device *attached_device;
static uint64_t bar_base[6];

static dma_read *client_dma_read;
static dma_write *client_dma_write;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("lightmetal recorder: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(70);
}

// ---- the file

static int file = -1;
static pid_t owner;      // process that writes the file; a forked copy of it must not write
static uint64_t records; // lines after the header
static uint64_t accesses; // accesses of the program to a BAR
// number of the recording, from 1: a program may open the simulator several times
static unsigned session;
static bool ended;

// Text that is not written to the file yet. `nested` has the lines of accesses to host memory
// during a load.
static struct text {
	char *at;
	size_t size, capacity;
} unsaved, nested;

static void reserve(struct text *t, size_t more)
{
	if (t->size + more <= t->capacity)
		return;
	t->capacity = 2 * (t->size + more);
	t->at = realloc(t->at, t->capacity);
	if (!t->at)
		die("out of memory for a record of %zu bytes", more);
}

__attribute__((format(printf, 2, 3))) static void append(struct text *t, const char *format, ...)
{
	va_list args;
	reserve(t, 128); // no line is longer, not counting its data
	va_start(args, format);
	t->size += vsnprintf(t->at + t->size, 128, format, args);
	va_end(args);
}

// append_data appends the bytes of an access, lowest address first, and ends the line.
static void append_data(struct text *t, const void *p, uint32_t size)
{
	static const char digit[] = "0123456789abcdef";
	const uint8_t *b = p;
	reserve(t, 2 * (size_t)size + 2);
	char *to = t->at + t->size;
	*to++ = ' ';
	for (uint32_t i = 0; i < size; i++) {
		*to++ = digit[b[i] >> 4];
		*to++ = digit[b[i] & 15];
	}
	*to++ = '\n';
	t->size = to - t->at;
}

static void flush(struct text *t)
{
	const char *p = t->at;
	if (getpid() != owner)
		t->size = 0;
	while (t->size > 0) {
		ssize_t n = write(file, p, t->size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die("writing the capture: %s", strerror(errno));
		p += n;
		t->size -= n;
	}
}

static bool loading; // the line of a load is not complete yet

// finish_line counts a complete line and writes it. During a load, the device may access host
// memory. The line of the load is then not complete yet, and the lines of these accesses are
// written after it.
static void finish_line(struct text *t)
{
	records++;
	if (!loading)
		flush(t);
}

static void finish_load(struct text *t, const void *p, uint32_t size)
{
	append_data(t, p, size);
	records++;
	flush(t);
	loading = false;
	flush(&nested);
}

static void write_end_line(void)
{
	if (ended || file < 0)
		return;
	ended = true;
	append(&unsaved, "END %" PRIu64 "\n", records);
	flush(&unsaved);
	if (!accesses && getpid() == owner)
		fprintf(stderr, "lightmetal recorder: session %u made no access to the device\n", session);
}

static unsigned last_session_number(void);

// end_at_exit ends the recording of a program that returns from main without libttsim_exit. A
// program may load the recorder several times, as files with different names: tt-umd loads the
// library to examine its symbols, and then runs a copy.
__attribute__((destructor)) static void end_at_exit(void)
{
	if (!attached_device && session == 1 && !ended && getpid() == owner && !last_session_number())
		fprintf(stderr,
			"lightmetal recorder: the program loaded the simulator and did not open it "
			"(it never called libttsim_init): nothing is recorded\n");
	if (attached_device)
		write_end_line();
}

// ---- sessions
//
// Each call of libttsim_init starts a recording: in LM_RECORD_FILE, then in files with the same
// name plus .2, .3 and so on. A program may also unload the library in between. Therefore an
// environment variable keeps the process id and the number of the last recording.

#define SESSION "LM_RECORD_SESSION"

static unsigned last_session_number(void)
{
	const char *text = getenv(SESSION);
	long pid;
	unsigned n;
	return text && sscanf(text, "%ld %u", &pid, &n) == 2 && pid == (long)getpid() ? n : 0;
}

// open_record opens a file for a recording. It does not overwrite a file with other content: the
// name may be a mistake, and there may be no other copy.
static int open_record(const char *name)
{
	static const char first[] = {'L', 'M', 'R', 'E', 'C', 'O', 'R', 'D', ' '};
	char found[sizeof first];
	struct stat status;
	if (!stat(name, &status) && !S_ISREG(status.st_mode))
		return open(name, O_WRONLY | O_CLOEXEC); // a pipe or a device
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return fd;
	ssize_t n = pread(fd, found, sizeof found, 0);
	if (n != 0 && (n != sizeof found || memcmp(found, first, sizeof found)))
		die("LM_RECORD_FILE %s exists and is not a recording; it was not changed", name);
	if (ftruncate(fd, 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static void open_session(void)
{
	const char *to = getenv("LM_RECORD_FILE");
	char name[4096];
	session = last_session_number() + 1;
	int n = session == 1 ? snprintf(name, sizeof name, "%s", to)
						 : snprintf(name, sizeof name, "%s.%u", to, session);
	if (n < 0 || (size_t)n >= sizeof name)
		die("LM_RECORD_FILE: the name is too long");
	struct stat of_capture, of_library;
	const char *library = getenv("LM_RECORD_LIBRARY");
	if (library && !stat(library, &of_library) && !stat(name, &of_capture) &&
		of_library.st_dev == of_capture.st_dev && of_library.st_ino == of_capture.st_ino)
		die("LM_RECORD_FILE and LM_RECORD_LIBRARY are the same file, %s", name);
	file = open_record(name);
	if (file < 0)
		die("LM_RECORD_FILE %s: %s", name, strerror(errno));
	owner = getpid();
	records = accesses = 0;
	ended = false;
}

static void save_session(void)
{
	char text[64];
	snprintf(text, sizeof text, "%ld %u", (long)getpid(), session);
	setenv(SESSION, text, 1);
}

// ---- the real library

static void *symbol(void *library, const char *name)
{
	void *p = dlsym(library, name);
	if (!p)
		die("%s", dlerror());
	return p;
}

// stay_loaded keeps the recorder loaded until the process ends. Only end_at_exit can determine
// whether the program has recorded something.
static void stay_loaded(void)
{
	Dl_info self;
	if (dladdr(&real, &self))
		dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// load_real_library loads the real library. It runs when the recorder is loaded, before any call.
__attribute__((constructor)) static void load_real_library(void)
{
	const char *name = getenv("LM_RECORD_LIBRARY"), *to = getenv("LM_RECORD_FILE");
	if (!name || !*name)
		die("LM_RECORD_LIBRARY must name the real libttsim.so");
	if (!to || !*to)
		die("LM_RECORD_FILE must name the capture to write");
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		die("LM_RECORD_LIBRARY: %s", dlerror());
	real.init = symbol(library, "libttsim_init");
	real.exit = symbol(library, "libttsim_exit");
	real.set_pci_dma_mem_callbacks = symbol(library, "libttsim_set_pci_dma_mem_callbacks");
	real.pci_config_rd32 = symbol(library, "libttsim_pci_config_rd32");
	real.pci_config_wr32 = symbol(library, "libttsim_pci_config_wr32");
	real.pci_mem_rd_bytes = symbol(library, "libttsim_pci_mem_rd_bytes");
	real.pci_mem_wr_bytes = symbol(library, "libttsim_pci_mem_wr_bytes");
	real.clock = symbol(library, "libttsim_clock");
	real.tile_rd_bytes = symbol(library, "libttsim_tile_rd_bytes");
	real.tile_wr_bytes = symbol(library, "libttsim_tile_wr_bytes");
	if (real.init == libttsim_init)
		die("LM_RECORD_LIBRARY names the recorder itself");
	stay_loaded();
	open_session();
}

// write_header reads the ids (at 0x00) and the BARs (from 0x10 on) from configuration space, and
// writes the header.
static void write_header(void)
{
	uint32_t ids = real.pci_config_rd32(0, 0);
	for (size_t i = 0; i < sizeof known_devices / sizeof *known_devices; i++)
		if (ids == (known_devices[i].vendor | (uint32_t)known_devices[i].device << 16))
			attached_device = &known_devices[i];
	if (!attached_device)
		die("the library simulates %04x:%04x, which the recorder does not know", ids & 0xffff,
			ids >> 16);
	if (real.pci_config_rd32(1 << 3, 0) != UINT32_MAX)
		die("the library simulates several chips; only one can be recorded");
	append(&unsaved, "LMRECORD 1\nDEVICE %04x %04x\n", attached_device->vendor,
		attached_device->device);
	for (uint32_t bar = 0; bar < 6; bar += 2) {
		uint64_t low = real.pci_config_rd32(0, 0x10 + 4 * bar);
		uint64_t high = real.pci_config_rd32(0, 0x14 + 4 * bar);
		bar_base[bar] = (low & ~15ull) | high << 32;
		append(&unsaved, "BAR %u %" PRIx64 " %" PRIx64 "\n", bar, bar_base[bar],
			attached_device->size[bar]);
	}
	flush(&unsaved);
}

// bar_of returns the BAR that contains an address, and the offset in this BAR. The library rejects
// all other addresses.
static uint32_t bar_of(uint64_t address, uint64_t *offset)
{
	if (!attached_device)
		die("access before libttsim_init");
	for (uint32_t bar = 0; bar < 6; bar += 2)
		if (address - bar_base[bar] < attached_device->size[bar]) {
			*offset = address - bar_base[bar];
			return bar;
		}
	die("access at 0x%" PRIx64 ", outside every BAR", address);
}

// ---- the ten entry points

EXPORT void libttsim_init(void)
{
	if (attached_device)
		die("libttsim_init is called twice, without libttsim_exit in between");
	if (ended)
		open_session();
	save_session();
	real.init();
	write_header();
}

EXPORT void libttsim_exit(void)
{
	write_end_line();
	attached_device = NULL;
	close(file);
	file = -1;
	real.exit();
}

// lm_record_mark writes a MARK line. Programs that know the recorder call it: lm import --part
// imports the part between two marks.
EXPORT void lm_record_mark(const char *name)
{
	if (!attached_device)
		return;
	append(&unsaved, "MARK ");
	for (reserve(&unsaved, strlen(name) + 1); *name; name++)
		unsaved.at[unsaved.size++] = *name == '\n' ? ' ' : *name;
	unsaved.at[unsaved.size++] = '\n';
	finish_line(&unsaved);
}

static void record_dma_read(uint64_t address, void *p, uint32_t size)
{
	struct text *t = loading ? &nested : &unsaved;
	client_dma_read(address, p, size);
	append(t, "HR %" PRIx64 " %u", address, size);
	append_data(t, p, size);
	finish_line(t);
}

static void record_dma_write(uint64_t address, const void *p, uint32_t size)
{
	struct text *t = loading ? &nested : &unsaved;
	append(t, "HW %" PRIx64 " %u", address, size);
	append_data(t, p, size);
	finish_line(t);
	client_dma_write(address, p, size);
}

EXPORT void libttsim_set_pci_dma_mem_callbacks(dma_read *rd, dma_write *wr)
{
	client_dma_read = rd;
	client_dma_write = wr;
	real.set_pci_dma_mem_callbacks(rd ? record_dma_read : NULL, wr ? record_dma_write : NULL);
}

EXPORT uint32_t libttsim_pci_config_rd32(uint32_t bdf, uint32_t offset)
{
	append(&unsaved, "CR %x %x 4", bdf, offset);
	flush(&unsaved);
	loading = true;
	uint32_t value = real.pci_config_rd32(bdf, offset);
	finish_load(&unsaved, &value, sizeof value);
	return value;
}

EXPORT void libttsim_pci_config_wr32(uint32_t bdf, uint32_t offset, uint32_t value)
{
	append(&unsaved, "CW %x %x 4", bdf, offset);
	append_data(&unsaved, &value, sizeof value);
	finish_line(&unsaved);
	real.pci_config_wr32(bdf, offset, value);
}

EXPORT void libttsim_pci_mem_rd_bytes(uint64_t address, void *p, uint32_t size)
{
	uint64_t offset;
	uint32_t bar = bar_of(address, &offset);
	accesses++;
	append(&unsaved, "R %u %" PRIx64 " %u", bar, offset, size);
	flush(&unsaved);
	loading = true;
	real.pci_mem_rd_bytes(address, p, size);
	finish_load(&unsaved, p, size);
}

EXPORT void libttsim_pci_mem_wr_bytes(uint64_t address, const void *p, uint32_t size)
{
	uint64_t offset;
	uint32_t bar = bar_of(address, &offset);
	accesses++;
	append(&unsaved, "W %u %" PRIx64 " %u", bar, offset, size);
	append_data(&unsaved, p, size);
	finish_line(&unsaved);
	real.pci_mem_wr_bytes(address, p, size);
}

EXPORT void libttsim_clock(uint32_t n)
{
	append(&unsaved, "CLK %u\n", n);
	finish_line(&unsaved);
	real.clock(n);
}

// Simulators of Wormhole and Blackhole reject both calls. Therefore nothing is recorded.
EXPORT void libttsim_tile_rd_bytes(uint32_t x, uint32_t y, uint64_t address, void *p, uint32_t size)
{
	real.tile_rd_bytes(x, y, address, p, size);
}

EXPORT void libttsim_tile_wr_bytes(uint32_t x, uint32_t y, uint64_t address, const void *p,
	uint32_t size)
{
	real.tile_wr_bytes(x, y, address, p, size);
}
