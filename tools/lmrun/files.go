package main

import (
	"lightmetal/hal"
	"lightmetal/tools/files"

	"golang.org/x/sys/unix"
)

// readFull reads until data is full or the file ends.
func readFull(fd int, data []byte) (total int, err error) {
	for total < len(data) {
		n, err := hal.Read(fd, data[total:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
	return total, nil
}

// print writes a text, made safe for a terminal: all that people read.
func print(fd int, text string) error { return files.WriteFull(fd, files.Safe([]byte(text))) }
