package runtime

import "lightmetal/hal"

// Bytes returns all bytes of the file, for host tools. Reading payload that another process has cut
// off raises SIGBUS.
func (f *File) Bytes() []byte { return f.data }

// Aperture returns where Load mapped the window with this index in the image, for tests.
func (r *Replay) Aperture(window int) *hal.Aperture { return &r.apertures[window] }
