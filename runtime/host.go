package runtime

// Bytes returns all bytes of the file, for host tools. A read of payload that another process has
// cut off is a SIGBUS.
func (f *File) Bytes() []byte { return f.data }
