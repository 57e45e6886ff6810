#ifndef PLAYER_H
#define PLAYER_H

#include "image.h"

// player_run carries out sequence 0 of a verified image, and "safe" where that
// fails, on a device of zeros. Behind so many stores it fails: 1 every access is
// an error, 2 loads give all ones, 3 the lowest bit of each load is wrong, 4 loads
// give 0 for 5 us; 0: it does not.
int player_run(const struct image *image, unsigned fault, uint64_t after);

#endif
