//go:build signed

package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"
)

// readVersionCounter returns the number in the file of -version-counter, 0 if there is no file.
func readVersionCounter(path string) (uint32, error) {
	if path == "" {
		return 0, nil
	}
	const maxBytes = 4096 // a version has at most 10 digits
	text, err := files.Read(path, maxBytes)
	if hal.CodeOf(err) == hal.NoFile {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return parseVersion(path, text)
}

func parseVersion(path string, text []byte) (uint32, error) {
	version, ok := hal.ParseNumber(strings.TrimSuffix(string(text), "\n"), 10, 1<<32-1)
	if !ok {
		return 0, hal.NewFault(hal.Denied, path+" must contain a version (0 to 4294967295); "+
			"restore the file, or remove it to start again from 0")
	}
	return uint32(version), nil
}

// counterUpdate replaces the file of -version-counter by a new file with the version of the image,
// completely or not at all.
type counterUpdate struct {
	newFile     files.Outputs // empty: the number stays
	newFileText []byte
	version     uint32 // of the image
}

// openNewFile opens the new file if the version of the image is higher. It must precede
// runtime.Seal, which forbids opening files.
func (c *counterUpdate) openNewFile(path string, version uint32) error {
	counted, err := readVersionCounter(path)
	if err != nil || path == "" || version <= counted {
		return err
	}
	c.version, c.newFileText = version, []byte(fbs.Text("%d\n", uint64(version)))
	file, err := files.OpenToReplace(path, 0o644)
	if err != nil {
		return err
	}
	c.newFile = files.Outputs{file}
	file.RemoveLeftovers()
	return file.AllowReadOld()
}

// raiseVersion replaces the file, unless another lmrun has raised its number at least as high. It
// must follow a complete run: until then, the previous image stays accepted. Later calls do
// nothing.
func (c *counterUpdate) raiseVersion() (err error) {
	for _, file := range c.newFile {
		if err = file.LockDir(); err == nil {
			err = c.replaceLower(file)
			file.UnlockDir()
		}
	}
	if err == nil {
		c.newFile = nil
	}
	return err
}

// replaceLower replaces the file, whose directory is locked, if its number is lower.
func (c *counterUpdate) replaceLower(file *files.Output) error {
	var buffer [64]byte
	text, err := file.ReadOld(buffer[:])
	counted := uint32(0)
	if err == nil && text != nil {
		counted, err = parseVersion(file.Path, text)
	}
	if err != nil || counted >= c.version {
		file.Discard()
		return err
	}
	if err = files.WriteFull(file.Fd, c.newFileText); err != nil {
		return hal.FileFault(file.Path, err)
	}
	return c.newFile.Commit()
}

func (c *counterUpdate) discard() { c.newFile.Discard() }
