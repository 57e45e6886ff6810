// All that FORMAT.md asks of an image, from a second reading of it.
#ifndef VERIFY_H
#define VERIFY_H

#include "image.h"

// A rule of a board that is known by its PCI ids.
struct known {
	uint16_t vendor, device;
	uint8_t bar, widths, memory, load_only;
	uint64_t first, last;
};

// A part of tiles that a board closes: coordinates, one bit each, and addresses.
struct closed {
	uint16_t vendor, device;
	uint8_t ways; // of pointing a window, over NoC 0 and NoC 1: at a tile, then at a rectangle
	uint64_t x, y, first, last;
};

// known_read reads what is known of boards, all in hexadecimal: a line with the hash of the
// schema and the number of rules; a line for each rule, with vendor, device, bar, first, last,
// widths, memory and load_only; then, for each closed place, vendor, device, ways, x, y, first
// and last.
int known_read(const char *path);

// image_verify reads a file and verifies it. It returns NULL, or what is wrong,
// with the place in image_place.
const char *image_verify(struct image *image, const char *path);

extern char image_place[32];

#endif
