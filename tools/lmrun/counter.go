//go:build signed && !nocounter

package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"
)

// This file reads the number in the file of -version-counter and raises it to the version of the
// image. In builds without the tag signed, or with the tag nocounter, the file nocounter.go
// replaces this file.

const (
	omitsVersionCounter = false
	versionCounterUsage = `
  -version-counter FILE
                      with -key: reject an image of a version below the number in FILE. After the
                      first complete run, raise the number to the version of the image`
)

// readVersionCounter returns the number in the file of -version-counter. It returns 0 if path is
// empty, or if the file does not exist because no image has run yet.
func readVersionCounter(path string) (uint32, error) {
	if path == "" {
		return 0, nil
	}
	const maxBytes = 4096 // far more than needed: a version has at most 10 digits
	text, err := files.Read(path, maxBytes)
	if hal.CodeOf(err) == hal.NoFile {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	version, ok := hal.ParseNumber(strings.TrimSuffix(string(text), "\n"), 10, 1<<32-1)
	if !ok {
		return 0, hal.NewFault(hal.Denied, path+" must contain a version (0 to 4294967295); "+
			"restore the file, or remove it to start again from 0")
	}
	return uint32(version), nil
}

// counterUpdate replaces the file of -version-counter by a new file with the version of the
// image. It replaces the file completely or not at all.
type counterUpdate struct {
	newFile     files.Outputs // the new file; empty if the number in the old file stays the same
	newFileText []byte        // content of the new file
}

// openNewFile compares `version`, which is the version of the image, with the number in the file of
// -version-counter, which is at `path`. If `version` is higher, openNewFile opens the new file that
// raiseVersion renames to `path`. The caller must call openNewFile before runtime.Seal, which
// forbids opening files.
func (c *counterUpdate) openNewFile(path string, version uint32) error {
	counted, err := readVersionCounter(path)
	if err != nil || path == "" || version <= counted {
		return err
	}
	c.newFileText = []byte(fbs.Text("%d\n", uint64(version)))
	file, err := files.OpenToReplace(path, 0o644)
	if err == nil {
		c.newFile = files.Outputs{file}
	}
	return err
}

// raiseVersion writes the new file and renames it to the path of the file of -version-counter.
// If there is no new file, raiseVersion does nothing. Later calls do nothing. The caller must call
// raiseVersion only after a complete run of the new image. Until then, lmrun must still accept the
// previous image.
func (c *counterUpdate) raiseVersion() error {
	for _, file := range c.newFile {
		if err := files.WriteFull(file.Fd, c.newFileText); err != nil {
			return hal.FileFault(file.Path, err)
		}
	}
	err := c.newFile.Commit()
	c.newFile = nil
	return err
}

// discard removes the new file if raiseVersion has not committed it.
func (c *counterUpdate) discard() { c.newFile.Discard() }
