// All that FORMAT.md asks of an image, from a second reading of it.
#ifndef VERIFY_H
#define VERIFY_H

#include "image.h"

// A rule of a board that is known by its PCI ids.
struct known {
	uint16_t vendor, device;
	uint8_t bar, widths, memory, iatu;
	uint64_t first, last;
};

// known_read reads the hash of the schema and the rules of boards: a line each with vendor, device, bar,
// first, last, widths, memory and iatu, in hexadecimal.
int known_read(const char *path);

// image_verify reads a file and verifies it. It gives NULL, or what is wrong,
// and the place in image_place.
const char *image_verify(struct image *image, const char *path);

extern char image_place[32];

#endif
