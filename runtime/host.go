package runtime

import "lightmetal/hal"

// Methods for host tools and tests only; tools/house checks that no target links them.

// Bytes returns the bytes of the file. Reading payload that was cut off the file meanwhile is a
// bus error.
func (f *File) Bytes() []byte { return f.data }

// Aperture returns the aperture of a window, as Load mapped it.
func (r *Replay) Aperture(index int) *hal.Aperture { return &r.apertures[index] }
