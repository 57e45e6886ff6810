package hal

// Close releases all resources that a device acquired. It releases the last one first.

// cleanups is a list of functions, each of which releases one resource of a device.
type cleanups []func() error

// add registers a function. Close calls it before the functions that were added earlier.
func (c *cleanups) add(release func() error) { *c = append(*c, release) }

// callAll calls all functions, the last added first, and empties the list. It returns the first
// error.
func (c *cleanups) callAll() (err error) {
	for i := len(*c) - 1; i >= 0; i-- {
		if e := (*c)[i](); err == nil {
			err = e
		}
	}
	*c = nil
	return err
}

// addClose registers a function that closes the file descriptor fd. It does not close fd now.
func (c *cleanups) addClose(fd int) {
	c.add(func() error {
		_ = syscalls.close(fd)
		return nil
	})
}

// openFile opens a file and registers a function that closes the file.
func (c *cleanups) openFile(path string, flags int) (fd int, err error) {
	fd, err = syscalls.open(path, flags)
	if err == nil {
		c.addClose(fd)
	}
	return fd, err
}
