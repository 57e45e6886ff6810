#ifndef PLAYER_H
#define PLAYER_H

#include "image.h"

// player_run executes sequence 0 of a verified image on a device of zeros, and "safe" if
// that fails. After the given number of stores the device has a fault: 1 every access is
// an error, 2 loads return all ones, 3 the lowest bit of each load is wrong, 4 loads
// return 0 for 5 us; 0: no fault.
int player_run(const struct image *image, unsigned fault, uint64_t after);

#endif
