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

static const char *bad; // first thing that is wrong, NULL while nothing is

static uint64_t take(const uint8_t *data, unsigned size) {
	uint64_t n = 0;
	memcpy(&n, data, size);
	return n;
}

// inside reports whether size bytes at pos can be read as an object of the envelope.
static int inside(const struct image *image, uint64_t pos, uint64_t size, uint64_t align) {
	if (!bad && (pos < 72 || pos > image->envelope || size > image->envelope - pos))
		bad = "an offset leaves the envelope";
	if (!bad && pos % align)
		bad = "an object of the envelope is not aligned";
	return !bad;
}

// table is the root of a FlatBuffer: where it lies, its bytes, its vtable and
// the fields in that.
struct table {
	uint64_t pos, size, vtable, fields;
};

static struct table root_of(const struct image *image, unsigned most) {
	struct table t = {take(image->data, 4), 0, 0, 0};
	if (!inside(image, t.pos, 4, 4))
		return t;
	t.vtable = t.pos - (uint64_t)(int64_t)(int32_t)take(image->data + t.pos, 4);
	if (!inside(image, t.vtable, 4, 2))
		return t;
	uint64_t size = take(image->data + t.vtable, 2);
	t.size = take(image->data + t.vtable + 2, 2);
	t.fields = size < 4 ? 0 : (size - 4) / 2;
	if (size < 4 || size % 2 || t.size < 4 || t.fields > most)
		bad = "a vtable of a size that cannot be";
	if (!inside(image, t.vtable, size, 2) || !inside(image, t.pos, t.size, 4))
		t.fields = 0;
	return t;
}

// field returns the position of a table's field, 0 where it is absent.
static uint64_t field(
	const struct image *image, const struct table *t, unsigned id, unsigned size) {
	uint64_t offset = bad || id >= t->fields ? 0 : take(image->data + t->vtable + 4 + 2 * id, 2);
	if (offset && (offset < 4 || offset > t->size || size > t->size - offset))
		bad = "a field lies outside its table";
	return bad || !offset ? 0 : t->pos + offset;
}

// follow returns the target of the reference at pos.
static uint64_t follow(const struct image *image, uint64_t pos) {
	return pos + take(image->data + pos, 4);
}

// zero reports whether the bytes from start to end are zero.
static int zero(const uint8_t *data, uint64_t start, uint64_t end) {
	while (start < end && data[start] == 0)
		start++;
	return start >= end;
}

// limits are the most elements of each vector, section 2.
static const uint32_t limits[] = {1, 8, 4096, 4096, 4096, 4096, 1 << 24, 16 << 20, 256 << 20, 256};

// vector returns the first element of a vector of structs or bytes.
static const void *vector(
	struct image *image, const struct table *t, unsigned id, uint64_t size, uint64_t align) {
	uint64_t pos = field(image, t, id, 4);
	if (!pos || !inside(image, pos, 4, 4) || !inside(image, pos = follow(image, pos), 4, 4))
		return image->data;
	uint64_t n = take(image->data + pos, 4);
	if (n > limits[id])
		bad = "a vector has more elements than there may be";
	if (bad || n == 0 || !inside(image, pos + 4, n * size, align))
		return image->data;
	image->counts[id] = n;
	return image->data + pos + 4;
}

const char *image_counts(const struct image *image) {
	const struct reservation *r = &image->reservation;
	const struct {
		unsigned id;
		uint32_t count;
		int needed;
	} list[] = {{1, r->devices, 1}, {2, r->windows, 1}, {3, r->sequences, 1}, {5, r->segments, 0},
		{4, r->tensors, 0}, {6, r->commands, 1}};
	for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
		if (list[i].needed && image->counts[list[i].id] == 0)
			return "a vector that has to be there is empty";
		if (image->counts[list[i].id] != list[i].count)
			return "a count of the reservation is not that of its vector";
	}
	return NULL;
}

// check_rules looks that the rules of devices are in order, apart and inside.
// Which boards are known, a reader of files cannot know.
static void check_rules(const struct image *image) {
	uint64_t next = 0;
	for (uint32_t i = 0; i < image->rule_count && !bad; i++) {
		const struct rule *r = &image->rules[i], *before = i ? r - 1 : r;
		int order = (r->device - before->device) * 256 + r->bar - before->bar;
		uint64_t least = r->widths & -r->widths;
		if (r->device >= image->reservation.devices || r->bar > 5 ||
			r->last >= image->devices[r->device].bars[r->bar])
			bad = "a rule is of no BAR, or reaches outside it";
		else if (r->first > r->last || order < 0 || (order == 0 && r->first < next))
			bad = "the rules are not in order, or overlap";
		else if (least == 0 || r->widths > 15 || r->memory > 1 || r->first % least ||
			(r->last + 1) % least)
			bad = "a rule is of no width, or begins or ends inside an access";
		next = r->last + 1;
	}
}

static void check_sequences(const struct image *image) {
	for (uint32_t i = 0; i < image->reservation.sequences && !bad; i++) {
		const struct sequence *s = &image->sequences[i];
		if (s->count == 0 || s->first > image->reservation.commands ||
			s->count > image->reservation.commands - s->first)
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

const char *image_read(struct image *image, const char *path) {
	memset(image, 0, sizeof *image);
	bad = map(image, path);
	if (bad)
		return bad;
	image->envelope = take(image->data + 32, 8);
	if (memcmp(image->data + 4, "LMB1", 4) != 0)
		return "no identifier LMB1";
	if (take(image->data + 8, 2) != 2 || take(image->data + 10, 2) != 0)
		return "not format 2.0";
	if (take(image->data + 24, 8) != image->size || image->envelope > image->size ||
		image->envelope < 72)
		return "sizes do not fit the file";
	if (!zero(image->data, 40, 72))
		return "bytes that have to be zero are not";
	image->sized = 1;

	struct table root = root_of(image, 10);
	uint64_t reservation = field(image, &root, 0, sizeof image->reservation);
	if (reservation && inside(image, reservation, sizeof image->reservation, 8))
		memcpy(&image->reservation, image->data + reservation, sizeof image->reservation);
	image->devices = vector(image, &root, 1, sizeof(struct device), 8);
	image->windows = vector(image, &root, 2, sizeof(struct window), 8);
	image->sequences = vector(image, &root, 3, sizeof(struct sequence), 4);
	image->tensors = vector(image, &root, 4, sizeof(struct tensor), 8);
	image->segments = vector(image, &root, 5, sizeof(struct segment), 8);
	image->commands = vector(image, &root, 6, sizeof(struct command), 8);
	image->text = vector(image, &root, 7, 1, 1);
	vector(image, &root, 8, 1, 8);
	image->rules = vector(image, &root, 9, sizeof(struct rule), 8);
	image->text_size = image->counts[7], image->rule_count = image->counts[9];
	image->payload = image->data + round_up(image->envelope, 4096);
	return bad;
}

const char *image_open(struct image *image, const char *path) {
	bad = image_read(image, path);
	if (!bad)
		bad = image_counts(image);
	if (!bad)
		check_rules(image);
	if (!bad)
		check_sequences(image);
	return bad;
}

int image_named(const struct image *image, uint32_t name, const char *text) {
	uint32_t first = name >> 8, size = name & 0xff;
	return size == strlen(text) && first + size <= image->text_size &&
		memcmp(image->text + first, text, size) == 0;
}

const char *image_segments(const struct image *image, uint32_t *at) {
	const struct reservation *r = &image->reservation;
	uint64_t start = r->segments ? round_up(image->envelope, 4096) : image->envelope, end = start;
	*at = r->segments;
	if (r->payload_bytes > image->size || start + r->payload_bytes != image->size)
		return "the segments are not the rest of the file";
	*at = 0;
	if (!zero(image->data, image->envelope, start))
		return "bytes that have to be zero are not";
	for (; *at < r->segments; ++*at) {
		const struct segment *s = &image->segments[*at];
		if (s->offset != end || s->size > image->size - end || s->reserved != 0)
			return "a segment is not where it belongs";
		if (crc32c(0, image->data + end, s->size) != s->crc32c)
			return "the checksum of a segment is wrong";
		end += s->size;
	}
	return end == image->size ? NULL : "the segments are not the rest of the file";
}

const char *image_sum(const struct image *image) {
	static const uint8_t none[4];
	uint32_t crc = crc32c(0, image->data, 12);
	crc = crc32c(crc, none, 4);
	crc = crc32c(crc, image->data + 16, image->envelope - 16);
	if (crc != take(image->data + 12, 4))
		return "the checksum of the envelope is wrong";
	return NULL;
}

const char *image_check(const struct image *image) {
	uint32_t at;
	const char *wrong = image_sum(image);
	return wrong ? wrong : image_segments(image, &at);
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
