package runtime

import "lightmetal/hal"

// What host tools and tests alone use: no target links it (tools/house looks).

// Bytes is the file. Reading payload that somebody has cut off is a bus error.
func (f *File) Bytes() []byte { return f.data }

// Window gives the aperture of a window, as Load mapped it.
func (r *Replay) Window(index int) *hal.Aperture { return &r.apertures[index] }
