package runtime

import "lightmetal/hal"

// This file contains methods that only host tools and tests call. A test in tools/check/house
// checks that the programs for targets do not contain these methods.

// Bytes returns all bytes of the file. If another process truncates the file, a read from the
// missing part of the payload causes a bus error (SIGBUS).
func (f *File) Bytes() []byte { return f.data }

// Aperture returns the address range to which Load mapped a window of the image. The parameter
// `window` is the index of this window in the image.
func (r *Replay) Aperture(window int) *hal.Aperture { return &r.apertures[window] }
