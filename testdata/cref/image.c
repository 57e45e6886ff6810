#include "image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// What FORMAT.md leaves open, and what is done here about it:
//
// - Values of enums, field numbers of tables and layouts of structs stand in
//   image.fbs alone. FORMAT.md says so; the two are one specification.
// - Whether a reader may refuse vectors of size zero, or vtables that are
//   shared, is FlatBuffers' business: both are accepted.
// - "The bytes between are zero": checked in image_check, as a byte that is
//   neither checksummed nor zero does not exist.

static const char *bad; // first thing that is wrong, NULL while nothing is

static uint64_t take(const uint8_t *data, unsigned size) {
	uint64_t n = 0;
	memcpy(&n, data, size);
	return n;
}

// inside tells whether size bytes at pos can be read as an object of the envelope.
static int inside(const struct image *image, uint64_t pos, uint64_t size) {
	if (pos >= 72 && pos <= image->envelope && size <= image->envelope - pos)
		return 1;
	if (!bad)
		bad = "an offset leaves the envelope";
	return 0;
}

// field gives the position of a table's field, 0 where it is absent.
static uint64_t field(const struct image *image, uint64_t table, unsigned id, unsigned size) {
	if (!inside(image, table, 4))
		return 0;
	uint64_t vtable = table - (uint64_t)(int64_t)(int32_t)take(image->data + table, 4);
	if (!inside(image, vtable, 4))
		return 0;
	uint64_t vtable_size = take(image->data + vtable, 2);
	if (!inside(image, vtable, vtable_size) || 4 + 2 * id + 2 > vtable_size)
		return 0;
	uint64_t offset = take(image->data + vtable + 4 + 2 * id, 2);
	return offset && inside(image, table + offset, size) ? table + offset : 0;
}

// follow gives what the reference at pos points at.
static uint64_t follow(const struct image *image, uint64_t pos) { return pos + take(image->data + pos, 4); }

// vector gives the position of the first element, 0 where there is none.
static uint64_t vector(const struct image *image, uint64_t table, unsigned id, uint64_t size, uint32_t *count) {
	*count = 0;
	uint64_t pos = field(image, table, id, 4);
	if (!pos || !inside(image, pos = follow(image, pos), 4))
		return 0;
	uint64_t n = take(image->data + pos, 4);
	if (!inside(image, pos + 4, n * size))
		return 0;
	*count = n;
	return pos + 4;
}

// structs gives a vector of structs as it lies in the file.
static const void *structs(const struct image *image, uint64_t root, unsigned id, unsigned size, uint32_t want) {
	uint32_t count;
	uint64_t pos = vector(image, root, id, size, &count);
	if (!bad && count != want)
		bad = "a count of the reservation is not that of its vector";
	if (!bad && pos % (size % 8 ? 4 : 8) != 0)
		bad = "a vector is not aligned";
	return image->data + pos;
}

// check_rules looks that the rules of devices are in order, apart and inside.
// Which boards are known, a reader of files cannot know.
static void check_rules(const struct image *image) {
	uint64_t next = 0;
	for (uint32_t i = 0; i < image->rule_count && !bad; i++) {
		const struct rule *r = &image->rules[i], *before = i ? r - 1 : r;
		int order = (r->target - before->target) * 256 + r->bar - before->bar;
		uint64_t least = r->widths & -r->widths;
		if (r->target >= image->reservation.targets || r->bar > 5 || r->last >= image->targets[r->target].bars[r->bar])
			bad = "a rule is of no BAR, or reaches outside it";
		else if (r->first > r->last || order < 0 || (order == 0 && r->first < next))
			bad = "the rules are not in order, or overlap";
		else if (least == 0 || r->widths > 15 || r->memory > 1 || r->first % least || (r->last + 1) % least)
			bad = "a rule is of no width, or begins or ends inside an access";
		next = r->last + 1;
	}
}

static void check_sequences(const struct image *image) {
	for (uint32_t i = 0; i < image->reservation.sequences && !bad; i++) {
		const struct sequence *s = &image->sequences[i];
		if (s->count == 0 || s->first > image->reservation.commands || s->count > image->reservation.commands - s->first)
			bad = "a sequence has commands that do not exist";
		else if (image->commands[s->first + s->count - 1].opcode != END)
			bad = "a sequence does not end with End";
	}
}

static const char *map(struct image *image, const char *path) {
	struct stat status;
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &status) != 0)
		return "the file cannot be opened";
	image->size = status.st_size;
	if (image->size < 72) {
		close(file);
		return "the file is shorter than a preamble";
	}
	image->data = mmap(NULL, image->size, PROT_READ, MAP_SHARED, file, 0);
	close(file);
	return image->data == MAP_FAILED ? "the file cannot be mapped" : NULL;
}

const char *image_open(struct image *image, const char *path) {
	memset(image, 0, sizeof *image);
	bad = map(image, path);
	if (bad)
		return bad;
	image->envelope = take(image->data + 32, 8);
	if (memcmp(image->data + 4, "LMB1", 4) != 0)
		return "no identifier LMB1";
	if (take(image->data + 8, 2) != 2 || take(image->data + 10, 2) != 0)
		return "not format 2.0";
	if (take(image->data + 24, 8) != image->size || image->envelope > image->size || image->envelope < 72)
		return "sizes do not fit the file";

	uint64_t root = take(image->data, 4);
	uint64_t reservation = field(image, root, 0, sizeof image->reservation);
	if (!reservation)
		return bad ? bad : "no reservation";
	memcpy(&image->reservation, image->data + reservation, sizeof image->reservation);
	const struct reservation *r = &image->reservation;
	image->targets = structs(image, root, 1, sizeof(struct target), r->targets);
	image->windows = structs(image, root, 2, sizeof(struct window), r->windows);
	image->sequences = structs(image, root, 3, sizeof(struct sequence), r->sequences);
	image->tensors = structs(image, root, 4, sizeof(struct tensor), r->tensors);
	image->segments = structs(image, root, 5, sizeof(struct segment), r->segments);
	image->commands = structs(image, root, 6, sizeof(struct command), r->commands);
	image->text = image->data + vector(image, root, 7, 1, &image->text_size);
	uint64_t rules = vector(image, root, 9, sizeof(struct rule), &image->rule_count);
	image->rules = (const void *)(image->data + rules);
	if (!bad && rules % 8 != 0)
		bad = "a vector is not aligned";
	if (!bad)
		check_rules(image);
	if (!bad)
		check_sequences(image);
	image->payload = image->data + round_up(image->envelope, 4096);
	return bad;
}

int image_named(const struct image *image, uint32_t name, const char *text) {
	uint32_t first = name >> 8, size = name & 0xff;
	return size == strlen(text) && first + size <= image->text_size && memcmp(image->text + first, text, size) == 0;
}

// zero tells whether the bytes from start to end are.
static int zero(const uint8_t *data, uint64_t start, uint64_t end) {
	while (start < end && data[start] == 0)
		start++;
	return start >= end;
}

static const char *check_segments(const struct image *image) {
	uint64_t end = image->envelope, sum = 0;
	for (uint32_t i = 0; i < image->reservation.segments; i++) {
		const struct segment *s = &image->segments[i];
		if (s->offset != round_up(end, 4096) || s->offset > image->size || s->size > image->size - s->offset)
			return "a segment is not where it belongs";
		if (s->reserved != 0 || !zero(image->data, end, s->offset))
			return "bytes that have to be zero are not";
		end = s->offset + s->size;
		sum += s->size;
		if (crc32c(0, image->data + s->offset, s->size) != s->crc32c)
			return "the checksum of a segment is wrong";
	}
	if (end != image->size || sum != image->reservation.payload_bytes)
		return "the segments are not the rest of the file";
	return NULL;
}

const char *image_check(const struct image *image) {
	static const uint8_t none[4];
	uint32_t crc = crc32c(0, image->data, 12);
	crc = crc32c(crc, none, 4);
	crc = crc32c(crc, image->data + 16, image->envelope - 16);
	if (crc != take(image->data + 12, 4))
		return "the checksum of the envelope is wrong";
	if (!zero(image->data, 40, 72))
		return "bytes that have to be zero are not";
	return check_segments(image);
}

void image_close(struct image *image) {
	munmap((void *)image->data, image->size);
}

// CRC-32C, Castagnoli's polynomial 0x1edc6f41 reflected: by the processor's
// instruction, or by a table. The instruction takes three cycles and starts one
// every cycle; three runs at a time would be faster. This side of the ratio is
// not the one hashing is measured against.

static uint32_t by_table(uint32_t crc, const uint8_t *data, size_t size) {
	static uint32_t table[256];
	for (uint32_t i = 0; table[255] == 0; i++) {
		uint32_t n = i;
		for (int bit = 0; bit < 8; bit++)
			n = n >> 1 ^ (n & 1 ? 0x82f63b78 : 0);
		table[i] = n;
	}
	while (size--)
		crc = crc >> 8 ^ table[(crc ^ *data++) & 0xff];
	return crc;
}

#if defined __x86_64__
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_HERE __builtin_cpu_supports("sse4.2")
#define CRC8 __builtin_ia32_crc32qi
#define CRC64 __builtin_ia32_crc32di
#elif defined __aarch64__
#include <arm_acle.h>
#include <sys/auxv.h>
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC_HERE (getauxval(AT_HWCAP) & 1 << 7) // HWCAP_CRC32
#define CRC8 __builtin_aarch64_crc32cb
#define CRC64 __builtin_aarch64_crc32cx
#endif

#ifdef CRC64
CRC_TARGET static uint32_t by_instruction(uint32_t crc, const uint8_t *data, size_t size) {
	for (; size && (uintptr_t)data % 8; size--)
		crc = CRC8(crc, *data++);
	for (; size >= 8; size -= 8, data += 8)
		crc = CRC64(crc, *(const uint64_t *)data);
	while (size--)
		crc = CRC8(crc, *data++);
	return crc;
}
#else
#define CRC_HERE 0
#define by_instruction by_table
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t size) {
	return ~(CRC_HERE ? by_instruction(~crc, data, size) : by_table(~crc, data, size));
}
