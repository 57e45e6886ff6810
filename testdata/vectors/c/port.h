/*
 * What check.c and fuzz.c have in common: lmplay with hooks for all accesses, its memory, and the
 * words for its codes and places.
 */
#ifndef PORT_H
#define PORT_H

#include "../../../runtime/c/lmplay.h"

#include <stdbool.h>

enum { RANGES = 8192, MEMORY_MOST = 1 << 26 };

/* The ranges that the hook `map` has mapped. Their addresses are (1 + index) << ADDRESS_BITS, plus
   the offset of the range in its BAR. */
enum { ADDRESS_BITS = 40 };
extern struct lmplay_range ranges[RANGES];
extern uint32_t range_count;

/* The hooks `load` and `store` make all accesses; false: the player does. */
extern bool by_hooks;

/* Returns the range of an address. */
const struct lmplay_range *range_of(uintptr_t address);

/* Returns the offset in its BAR, or in host memory, of an address. */
uint64_t offset_of(uintptr_t address);

/* An image that is loaded, and what it needs. */
struct port {
	struct lmplay_image image;
	struct lmplay_replay replay;
	struct lmplay_plan plan;
	struct lmplay_error error;
	struct lmplay_device devices[LMPLAY_DEVICES_MAX];
	void *arena;
};

/* Opens and verifies an image, and sets port->devices to what it needs. On failure, place has the
   place in the words of vectors. */
enum lmplay_code port_verify(struct port *port, const void *file, size_t size, uint64_t limit_us,
	char place[64]);

/* Loads the image. The hooks must have all functions but `map`, which the port provides. */
enum lmplay_code port_load(struct port *port, struct lmplay_hooks *hooks, char place[64]);

/* Frees the memory. */
void port_close(struct port *port);

/* Returns the word for a code. */
const char *port_code(enum lmplay_code code);

/* Reports whether a failed run has seen a wrong value. */
bool port_has_seen(const struct lmplay_result *r);

/* Returns the bus address of a window, 0 if it has none; check.c and fuzz.c define it. */
uint64_t bus_address(void *context, uint32_t window);

#endif
