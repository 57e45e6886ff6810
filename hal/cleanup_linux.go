package hal

// This file declares the list of functions that release the resources of a device. Close calls them
// in reverse order.

// cleanups is a list of functions. Each function releases one resource of a device, such as a
// mapping or an open file.
type cleanups []func() error

// addCleanup appends the function `release` to the list.
func (c *cleanups) addCleanup(release func() error) { *c = append(*c, release) }

// callAll calls all functions in reverse order, empties the list, and returns the error of the
// first function that failed.
func (c *cleanups) callAll() (err error) {
	for i := len(*c) - 1; i >= 0; i-- {
		if e := (*c)[i](); err == nil {
			err = e
		}
	}
	*c = nil
	return err
}

// addFDCleanup appends a function that closes the file descriptor `fd`.
func (c *cleanups) addFDCleanup(fd int) {
	c.addCleanup(func() error {
		_ = syscalls.close(fd)
		return nil
	})
}

// openFile opens the file at `path` with the given flags, and appends a function that closes
// the file.
func (c *cleanups) openFile(path string, flags int) (fd int, err error) {
	fd, err = syscalls.open(path, flags)
	if err == nil {
		c.addFDCleanup(fd)
	}
	return fd, err
}
