//go:build signed

package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// This file checks the signatures and versions of images. Only builds with the tag signed contain
// it.

const keyUsage = `
  -key FILE           public keys in hex, one a line; rejects an image that none of them signed
  -at-least N         with -key: reject an image of a version below N (lm sign --version)
  -version-counter FILE
                      with -key: reject an image of a version below the number in FILE. After the
                      first complete run, raise the number to the version of the image`

const maxKeyFileBytes = 4 << 20 // maximum size of the file that -key names, in bytes

// checkSignature returns an error unless the image has a signature that one of the public keys in
// the file o.Key verifies, that key may sign the version of the image, and the version is at least
// o.AtLeast and the version in the file o.Counter.
func checkSignature(file *runtime.File, o args.Options) error {
	publicKeys, err := files.Read(o.Key, maxKeyFileBytes)
	if err != nil {
		return hal.FileFault(o.Key, err)
	}
	keys, err := signed.ParseKeys(string(publicKeys))
	if err != nil {
		return hal.NewFault(hal.CodeOf(err), o.Key+": "+err.(*hal.Fault).Reason)
	}
	counted, err := readVersionCounter(o.Counter)
	if err != nil {
		return err
	}
	atLeast := max(o.AtLeast, counted)
	return file.Inspect(func(data []byte) error { return keys.CheckSignature(data, atLeast) })
}

// readVersionCounter returns the version in the file of -version-counter. It returns 0 if path is
// empty or the file does not exist, as on a machine on which no image has run yet.
func readVersionCounter(path string) (uint32, error) {
	if path == "" {
		return 0, nil
	}
	const maxBytes = 16
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

// open opens the new file if the version of the image is higher than the version in the file at
// path. The caller must call it before runtime.Seal, which forbids opening files.
func (c *versionCounter) open(path string, version uint32) error {
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

// raise writes and commits the new file. Later calls do nothing. lmrun calls it after a complete
// run, because an image that has not run may have to make way for the previous one.
func (c *versionCounter) raise() error {
	for _, file := range c.outputs {
		if err := files.WriteFull(file.Fd, c.text); err != nil {
			return hal.FileFault(file.Path, err)
		}
	}
	err := c.outputs.Commit()
	c.outputs = nil
	return err
}

// discard removes the new file if raise has not committed it.
func (c *versionCounter) discard() { c.outputs.Discard() }
