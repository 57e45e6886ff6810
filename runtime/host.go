package runtime

import "lightmetal/hal"

// This file has the methods that only host tools and tests use. A test in tools/check/house
// checks that programs for targets do not link them.

// Bytes returns the bytes of the file. If another process truncates the file, reading the missing
// part of the payload causes a bus error (SIGBUS).
func (f *File) Bytes() []byte { return f.data }

// Aperture returns the aperture to which Load mapped the given window of the image.
func (r *Replay) Aperture(window int) *hal.Aperture { return &r.apertures[window] }
