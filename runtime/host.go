package runtime

import "lightmetal/hal"

// Bytes returns all bytes of the file, for host tools. A read of payload that another process has
// cut off is a SIGBUS.
func (f *File) Bytes() []byte { return f.data }

// Aperture returns where Load mapped the window with this index in the image, for tests.
func (r *Replay) Aperture(window int) *hal.Aperture { return &r.apertures[window] }
