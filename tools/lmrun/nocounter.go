//go:build !signed || nocounter

package main

import "lightmetal/tools/lmrun/files"

// This file replaces counter.go if lmrun is built without the tag signed, or with the tag
// nocounter. In a build with both tags, checkBuildTags rejects -version-counter. In a build without
// the tag signed, checkSignature rejects -key, and -version-counter is an error without -key.

const (
	hasCounter   = !hasKey
	counterUsage = ""
)

// versionCounter has the methods of the type versionCounter in counter.go, so that the other files
// compile. These methods do nothing.
type versionCounter struct{ outputs files.Outputs }

func (*versionCounter) openNewFile(path string, version uint32) error { return nil }
func (*versionCounter) raiseVersion() error                           { return nil }
func (*versionCounter) discard()                                      {}
