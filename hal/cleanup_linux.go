package hal

// What a device acquired is released by Close: the last first.

// cleanups are functions that release what a device acquired.
type cleanups []func() error

// add registers a function that Close calls before those that were added earlier.
func (c *cleanups) add(undo func() error) { *c = append(*c, undo) }

// run calls all functions and forgets them. It returns the first error.
func (c *cleanups) run() (err error) {
	for i := len(*c) - 1; i >= 0; i-- {
		if e := (*c)[i](); err == nil {
			err = e
		}
	}
	*c = nil
	return err
}

// closeFile registers a file to be closed.
func (c *cleanups) closeFile(fd int) {
	c.add(func() error {
		_ = syscalls.close(fd)
		return nil
	})
}

// openFile opens a file and registers it to be closed.
func (c *cleanups) openFile(path string, flags int) (fd int, err error) {
	fd, err = syscalls.open(path, flags)
	if err == nil {
		c.closeFile(fd)
	}
	return fd, err
}
