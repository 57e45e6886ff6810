/*
 * Reads test vectors (../README.md), and compares what a reader of images does with them. It knows
 * nothing of the reader: check.c is the part that does.
 */
#ifndef VECTOR_H
#define VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a reader accesses: a BAR or the configuration space of a device, or a Host window. */
enum space_kind { SPACE_BAR = 1, SPACE_CONFIG, SPACE_HOST };
struct space {
	enum space_kind kind;
	unsigned device; /* of a BAR or of configuration space */
	unsigned number; /* of the BAR, or of the window of host memory */
};

enum step_kind {
	STEP_NONE, /* after the last step */
	INPUT,
	RUN,
	STORE,
	LOAD,
	STORE_BYTES,
	LOAD_BYTES,
	FENCE,
	QUERY,
	GONE,
	ELAPSED,
	END,
	SEEN,
	SAFE,
	IGNORED,
	OUTPUT,
	UNLOAD
};

struct step {
	enum step_kind kind;
	struct space space;
	uint64_t offset, value, until;
	unsigned width, index;
	bool fails;
	uint8_t *data;
	size_t size;     /* of data */
	const char *text; /* the line */
};

struct device {
	bool is_given; /* the vector has a line for the device */
	uint16_t vendor, device;
	uint32_t subsystem;
	uint64_t bars[6];
};

enum { DEVICES = 8, WINDOWS = 64, STEPS = 4096 };

struct vector {
	char name[100];
	uint8_t *file; /* the image, at an address that is a multiple of 8 */
	size_t size;
	uint64_t access_ns, late_ns, limit_us;
	struct device devices[DEVICES];
	bool has_bus[WINDOWS];
	uint64_t bus[WINDOWS];
	char reject[100]; /* code and place; "": the image is accepted */
	struct step steps[STEPS];
	size_t count;

	/* How far the reader is. */
	size_t next, loads;
	bool *done; /* bytes of the next step that the reader has accessed */
	uint64_t now, began;
	bool gone[DEVICES];
	char error[400]; /* the first difference; "": none */
};

/* Reads the next vector of a file. `directory` has the images. Returns false at the end. Ends the
   program if the file is not as README.md says. */
bool vector_read(struct vector *v, FILE *file, const char *directory);

/* Frees what vector_read has allocated. */
void vector_free(struct vector *v);

/* Answer what the reader does. The results of accesses are false if they fail. */
bool vector_load(struct vector *v, struct space space, uint64_t offset, unsigned width,
	uint64_t *value);
bool vector_store(struct vector *v, struct space space, uint64_t offset, unsigned width,
	uint64_t value);
void vector_fence(struct vector *v);
bool vector_is_present(struct vector *v, unsigned device);
void vector_wait(struct vector *v, uint64_t ns);

/* Returns the next step of the caller: an input, a run, or the end of the use. NULL: no more. */
const struct step *vector_next(struct vector *v);

/* Compares a line of the result with the next step. */
void vector_result(struct vector *v, const char *line);

/* Returns the next step if it is an output, or NULL. */
const struct step *vector_output(struct vector *v);

/* Records a difference, unless there is one already. */
void vector_fail(struct vector *v, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
