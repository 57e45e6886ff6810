package hal

// cleanups is a list of functions. Each function releases one resource of a device, such as a
// mapping or an open file. Close calls them in reverse order.
type cleanups []func() error

func (c *cleanups) addCleanup(release func() error) { *c = append(*c, release) }

// callAll empties the list, and returns the first error.
func (c *cleanups) callAll() (err error) {
	for i := len(*c) - 1; i >= 0; i-- {
		if e := (*c)[i](); err == nil {
			err = e
		}
	}
	*c = nil
	return err
}

func (c *cleanups) addFDCleanup(fd int) {
	c.addCleanup(func() error {
		_ = syscalls.close(fd)
		return nil
	})
}

// openFile opens a file until Close.
func (c *cleanups) openFile(path string, flags int) (fd int, err error) {
	fd, err = syscalls.open(path, flags)
	if err == nil {
		c.addFDCleanup(fd)
	}
	return fd, err
}
