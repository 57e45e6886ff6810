//go:build signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// This file checks the signatures and versions of images. Only builds with the tag signed contain
// it.

const (
	hasKey   = true
	keyUsage = `
  -key FILE           public keys in hex, one a line; rejects an image that none of them signed
  -at-least N         with -key: reject an image of a version below N (lm sign --version)` +
		counterUsage
)

const maxKeyFileBytes = 4 << 20 // maximum size of the file that -key names, in bytes

// checkSignature returns an error unless three conditions are met: one of the public keys in the
// file o.KeyFile verifies the signature of the image, this key may sign the version of the image,
// and the version is at least o.AtLeast and at least the version in the file o.VersionCounter.
func checkSignature(file *runtime.File, o args.Options) error {
	publicKeys, err := files.Read(o.KeyFile, maxKeyFileBytes)
	if err != nil {
		return hal.FileFault(o.KeyFile, err)
	}
	keys, err := signed.ParseKeys(string(publicKeys))
	if err != nil {
		return hal.NewFault(hal.CodeOf(err), o.KeyFile+": "+err.(*hal.Fault).Reason)
	}
	counted, err := readVersionCounter(o.VersionCounter)
	if err != nil {
		return err
	}
	atLeast := max(o.AtLeast, counted)
	return file.Inspect(func(data []byte) error { return keys.CheckSignature(data, atLeast) })
}
