//go:build signed && !nocounter

package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"
)

// This file reads and raises the version in the file of -version-counter. In builds without the tag
// signed, or with the tag nocounter, the file nocounter.go replaces this file.

const (
	hasCounter   = true
	counterUsage = `
  -version-counter FILE
                      with -key: reject an image of a version below the number in FILE. After the
                      first complete run, raise the number to the version of the image`
)

// readVersionCounter returns the version in the file of -version-counter. It returns 0 if path is
// empty or the file does not exist, as on a machine on which no image has run yet.
func readVersionCounter(path string) (uint32, error) {
	if path == "" {
		return 0, nil
	}
	const maxBytes = 4096 // much more than a version needs
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

// versionCounter raises the version in the file of -version-counter. It replaces the file
// completely or not at all.
type versionCounter struct {
	outputs files.Outputs // the new file; empty if the version does not rise
	text    []byte        // content of the new file
}

// openNewFile opens the new file if the version of the image is higher than the version in the file
// at path. The caller must call it before runtime.Seal, which forbids opening files.
func (c *versionCounter) openNewFile(path string, version uint32) error {
	counted, err := readVersionCounter(path)
	if err != nil || path == "" || version <= counted {
		return err
	}
	c.text = []byte(fbs.Text("%d\n", uint64(version)))
	file, err := files.Replace(path, 0o644)
	if err == nil {
		c.outputs = files.Outputs{file}
	}
	return err
}

// raiseVersion writes and commits the new file. Later calls do nothing. lmrun calls raiseVersion
// only after a complete run: as long as an image has not run, the previous image must remain
// usable.
func (c *versionCounter) raiseVersion() error {
	for _, file := range c.outputs {
		if err := files.WriteFull(file.Fd, c.text); err != nil {
			return hal.FileFault(file.Path, err)
		}
	}
	err := c.outputs.Commit()
	c.outputs = nil
	return err
}

// discard removes the new file if raiseVersion has not committed it.
func (c *versionCounter) discard() { c.outputs.Discard() }
