//go:build !signed || nocounter

package main

import "lightmetal/tools/lmrun/files"

// This file replaces counter.go if lmrun is built without the tag signed, or with the tag
// nocounter. Such an lmrun rejects -version-counter. With the tag signed, rejectOmittedOptions
// returns the error. Without the tag signed, checkSignature returns an error for -key, and
// -version-counter is not allowed without -key.

const (
	// omitsVersionCounter is true if the tag nocounter omits the version counter. It is false if
	// the tag signed is missing: rejectOmittedOptions must not name the tag nocounter then.
	omitsVersionCounter = hasSignatureCheck
	versionCounterUsage = ""
)

// counterUpdate takes the place of the type in counter.go. There, openNewFile prepares a
// file with a higher number, raiseVersion puts it in the place of the old one, and discard deletes
// it. Here, these methods do nothing, and exist so that the other files compile.
type counterUpdate struct{ newFile files.Outputs }

func (*counterUpdate) openNewFile(path string, version uint32) error { return nil }
func (*counterUpdate) raiseVersion() error                           { return nil }
func (*counterUpdate) discard()                                      {}
