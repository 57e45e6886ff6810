/* This file reads the text of vectors, and compares a reader with their steps. */
#include "vector.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"", "input", "run", "store", "load", "store-bytes",
	"load-bytes", "fence", "query", "gone", "elapsed", "end", "seen", "safe", "ignored", "output",
	"unload"};

_Noreturn static void die(const char *text, const char *detail) {
	fprintf(stderr, "%s: %s\n", text, detail);
	exit(65);
}

static void *allocate(size_t size) {
	void *memory = calloc(1, size ? size : 1);
	if (!memory)
		die("memory", "none left");
	return memory;
}

/* Returns the next word of a line, and advances *line. */
static const char *word(char **line) {
	char *begin = *line;
	char *end = strchr(begin, ' ');
	if (end) {
		*end = 0;
		*line = end + 1;
	} else {
		*line = begin + strlen(begin);
	}
	return begin;
}

static uint64_t number(char **line) {
	char *end;
	const char *text = word(line);
	uint64_t n = strtoull(text, &end, 0);
	if (*text == 0 || *end != 0)
		die("not a number", text);
	return n;
}

/* Returns bytes that are written as hexadecimal digits. */
static uint8_t *bytes(char **line, size_t *size) {
	const char *text = word(line);
	*size = strlen(text) / 2;
	uint8_t *data = allocate(*size);
	for (size_t i = 0; i < *size; i++)
		if (sscanf(&text[2 * i], "%2hhx", &data[i]) != 1)
			die("not bytes", text);
	return data;
}

static struct space space_of(char **line) {
	struct space s = {0};
	const char *text = word(line);
	if (sscanf(text, "device%u.bar%u", &s.device, &s.number) == 2)
		s.kind = SPACE_BAR;
	else if (strstr(text, ".config") && sscanf(text, "device%u.", &s.device) == 1)
		s.kind = SPACE_CONFIG;
	else if (sscanf(text, "host%u", &s.number) == 1)
		s.kind = SPACE_HOST;
	else
		die("not a BAR, configuration space or host memory", text);
	return s;
}

enum { FILE_MOST = 1 << 20 }; /* bytes of an image */

/* Sets v->file to the contents of a file, with room for vectors that extend it. */
static void read_image(struct vector *v, const char *directory, const char *name) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	FILE *file = fopen(path, "rb");
	if (!file)
		die("cannot open", path);
	v->file = allocate(FILE_MOST);
	v->size = fread(v->file, 1, FILE_MOST, file);
	fclose(file);
}

/* Reads a line about the image or the machine. Returns false if it is a step. */
static bool read_header(struct vector *v, char *line, const char *directory) {
	const char *what = word(&line);
	if (strcmp(what, "format") == 0) {
		/* for people */
	} else if (strcmp(what, "image") == 0) {
		read_image(v, directory, line);
	} else if (strcmp(what, "size") == 0) {
		v->size = number(&line);
		if (v->size > FILE_MOST)
			die("the image is too large", v->name);
	} else if (strcmp(what, "patch") == 0) {
		uint64_t offset = number(&line);
		size_t size;
		uint8_t *data = bytes(&line, &size);
		if (offset > v->size || size > v->size - offset)
			die("a patch lies outside the image", v->name);
		memcpy(&v->file[offset], data, size);
		free(data);
	} else if (strcmp(what, "access-ns") == 0) {
		v->access_ns = number(&line);
	} else if (strcmp(what, "late-ns") == 0) {
		v->late_ns = number(&line);
	} else if (strcmp(what, "limit-us") == 0) {
		v->limit_us = number(&line);
	} else if (strcmp(what, "device") == 0) {
		struct device *d = &v->devices[number(&line) % DEVICES];
		d->is_given = true;
		d->vendor = (uint16_t)number(&line);
		d->device = (uint16_t)number(&line);
		d->subsystem = (uint32_t)number(&line);
		for (int i = 0; i < 6; i++)
			d->bars[i] = number(&line);
	} else if (strcmp(what, "bus") == 0) {
		uint64_t window = number(&line) % WINDOWS;
		v->has_bus[window] = true;
		v->bus[window] = number(&line);
	} else if (strcmp(what, "reject") == 0) {
		snprintf(v->reject, sizeof v->reject, "%s", line);
	} else {
		return false;
	}
	return true;
}

static void read_step(struct vector *v, char *line) {
	if (v->count == STEPS - 1)
		die("too many steps", v->name);
	struct step *s = &v->steps[v->count++];
	s->text = strcpy(allocate(strlen(line) + 1), line);
	const char *what = word(&line);
	for (unsigned k = 1; k < sizeof names / sizeof *names; k++)
		if (strcmp(what, names[k]) == 0)
			s->kind = (enum step_kind)k;
	switch (s->kind) {
	case STEP_NONE:
		die("unknown word", what);
	case INPUT:
	case OUTPUT:
		s->index = (unsigned)number(&line);
		s->data = bytes(&line, &s->size);
		break;
	case RUN:
	case QUERY:
	case GONE:
		s->index = (unsigned)number(&line);
		break;
	case STORE:
	case LOAD:
		s->space = space_of(&line);
		s->offset = number(&line);
		s->width = (unsigned)number(&line);
		s->value = number(&line);
		s->fails = strcmp(line, "fails") == 0;
		if (strncmp(line, "until ", 6) == 0)
			s->until = strtoull(line + 6, NULL, 0);
		break;
	case STORE_BYTES:
	case LOAD_BYTES:
		s->space = space_of(&line);
		s->offset = number(&line);
		s->data = bytes(&line, &s->size);
		break;
	case ELAPSED:
		s->value = number(&line);
		break;
	default: /* the line is compared as it is */
		break;
	}
}

bool vector_read(struct vector *v, FILE *file, const char *directory) {
	char *line = NULL;
	size_t room = 0;
	memset(v, 0, sizeof *v);
	for (ssize_t n; (n = getline(&line, &room, file)) >= 0;) {
		if (n > 0 && line[n - 1] == '\n')
			line[n - 1] = 0;
		if (line[0] == '#' || line[0] == 0) {
			if (v->name[0])
				break; /* an empty line ends a vector */
		} else if (strncmp(line, "vector ", 7) == 0) {
			snprintf(v->name, sizeof v->name, "%s", line + 7);
		} else {
			char *copy = strcpy(allocate(strlen(line) + 1), line);
			if (!read_header(v, copy, directory))
				read_step(v, line);
			free(copy);
		}
	}
	free(line);
	if (v->name[0] == 0)
		return false;
	/* Memory of exactly this size, so that a sanitizer sees every access outside it. */
	if (!v->file)
		die("the vector has no image", v->name);
	uint8_t *image = memcpy(allocate(v->size), v->file, v->size);
	free(v->file);
	v->file = image;
	return true;
}

void vector_free(struct vector *v) {
	for (size_t i = 0; i < v->count; i++) {
		free(v->steps[i].data);
		free((void *)v->steps[i].text);
	}
	free(v->done);
	free(v->file);
}

void vector_fail(struct vector *v, const char *format, ...) {
	va_list arguments;
	char text[300];
	if (v->error[0])
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	snprintf(v->error, sizeof v->error, "step %zu: %s", v->next, text);
}

static void skip(struct vector *v) {
	if (v->next < v->count)
		v->next++;
	v->loads = 0;
	free(v->done);
	v->done = NULL;
}

/* Returns the next step in which the reader takes part. */
static const struct step *head(struct vector *v) {
	for (;; skip(v)) {
		const struct step *s = &v->steps[v->next];
		if (s->kind == GONE)
			v->gone[s->index % DEVICES] = true;
		else if (s->kind != ELAPSED)
			return s;
		else if (v->now - v->began < s->value)
			vector_fail(v, "%llu ns have passed, at least %llu expected",
				(unsigned long long)(v->now - v->began), (unsigned long long)s->value);
	}
}

static bool is_same_space(struct space a, struct space b) {
	return a.kind == b.kind && a.device == b.device && a.number == b.number;
}

/* Reports whether all bytes of a step have been accessed. */
static bool is_complete(const struct vector *v, const struct step *s) {
	for (size_t i = 0; i < s->size; i++)
		if (!v->done || !v->done[i])
			return false;
	return true;
}

/* Answers an access to bytes of a step. Returns false if the access is not one of these. */
static bool access_bytes(struct vector *v, const struct step *want, const struct step *got,
	uint64_t *value) {
	uint64_t first = got->offset - want->offset, bytes = 0;
	bool is_store = got->kind == STORE;
	if (is_store != (want->kind == STORE_BYTES) || !is_same_space(got->space, want->space) ||
		got->offset < want->offset || first + got->width > want->size)
		return false;
	if (!v->done)
		v->done = allocate(want->size * sizeof *v->done);
	for (unsigned i = 0; i < got->width; i++) {
		v->done[first + i] = true;
		bytes |= (uint64_t)want->data[first + i] << (8 * i);
	}
	if (is_store && bytes != *value)
		vector_fail(v, "%#llx was stored, %#llx expected", (unsigned long long)*value,
			(unsigned long long)bytes);
	*value = bytes;
	return true;
}

/* Answers an access. */
static bool answer(struct vector *v, const struct step *got, uint64_t *value) {
	v->now += v->access_ns;
	while (!v->error[0]) {
		const struct step *want = head(v);
		if (want->kind == STORE_BYTES || want->kind == LOAD_BYTES) {
			if (access_bytes(v, want, got, value))
				return true;
			if (is_complete(v, want)) {
				skip(v);
				continue;
			}
		}
		bool is_same = want->kind == got->kind && is_same_space(want->space, got->space) &&
			want->offset == got->offset && want->width == got->width &&
			(got->kind == LOAD || want->value == *value);
		if (!is_same) {
			vector_fail(v, "a %s of %u bytes at %#llx of BAR or window %u, value %#llx, was made; "
				"'%s' expected", names[got->kind], got->width, (unsigned long long)got->offset,
				got->space.number, (unsigned long long)*value, want->text ? want->text : "nothing");
			break;
		}
		bool repeats = want->until != 0, fails = want->fails;
		if (repeats && v->now >= want->until) {
			skip(v);
			continue;
		}
		*value = want->value;
		if (repeats)
			v->loads++;
		else
			skip(v);
		return !fails;
	}
	return true;
}

bool vector_load(struct vector *v, struct space space, uint64_t offset, unsigned width,
	uint64_t *value) {
	struct step got = {.kind = LOAD, .space = space, .offset = offset, .width = width};
	*value = 0;
	return answer(v, &got, value);
}

bool vector_store(struct vector *v, struct space space, uint64_t offset, unsigned width,
	uint64_t value) {
	struct step got = {.kind = STORE, .space = space, .offset = offset, .width = width};
	return answer(v, &got, &value);
}

/* Skips a step whose bytes have all been accessed. */
static const struct step *skip_bytes(struct vector *v) {
	while (v->done && is_complete(v, head(v)))
		skip(v);
	return head(v);
}

void vector_fence(struct vector *v) {
	if (skip_bytes(v)->kind == FENCE)
		skip(v);
}

bool vector_is_present(struct vector *v, unsigned device) {
	const struct step *want = skip_bytes(v);
	if (v->loads > 0 && want[1].kind == QUERY) {
		skip(v); /* the load that was repeated was the last one */
		want = head(v);
	}
	if (want->kind == QUERY && want->index == device) {
		skip(v);
		(void)head(v); /* the device may go away now */
	}
	return !v->gone[device % DEVICES];
}

void vector_wait(struct vector *v, uint64_t ns) { v->now += ns + v->late_ns; }

/* Skips a load that was repeated until the run ended. */
static const struct step *finish(struct vector *v) {
	(void)skip_bytes(v);
	if (v->loads > 0)
		skip(v);
	return head(v);
}

const struct step *vector_next(struct vector *v) {
	const struct step *s = finish(v);
	if (s->kind == STEP_NONE)
		return NULL;
	skip(v);
	v->began = v->now;
	return s;
}

void vector_result(struct vector *v, const char *line) {
	const struct step *want = finish(v);
	if (want->kind == STEP_NONE || strcmp(want->text, line) != 0)
		vector_fail(v, "'%s', but '%s' expected", line, want->text ? want->text : "nothing");
	skip(v);
}

const struct step *vector_output(struct vector *v) {
	const struct step *s = head(v);
	if (s->kind != OUTPUT)
		return NULL;
	skip(v);
	return s;
}
