package runtime

import "lightmetal/hal"

// This file contains the methods that only host tools and tests use. A test in tools/check/house
// checks that the programs for targets do not contain them.

// Bytes returns all bytes of the file. If another process truncates the file, reading the part of
// the payload that was cut off causes a bus error (SIGBUS).
func (f *File) Bytes() []byte { return f.data }

// Aperture returns the address range to which Load mapped a window of the image. The parameter is
// the index of the window in the image.
func (r *Replay) Aperture(window int) *hal.Aperture { return &r.apertures[window] }
