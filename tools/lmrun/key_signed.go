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

const keyFlagUsage = `
  -key FILE           public keys in hex, one a line; rejects an image that none of them signed
  -at-least N         with -key: reject an image of a version below N (lm sign --version)
  -version-counter FILE
                      with -key: reject an image of a version below the number in FILE. After the
                      first complete run, raise the number to the version of the image`

const maxKeyFileBytes = 4 << 20 // maximum size of the file that -key names, in bytes

// checkSignature returns an error unless all of these conditions are met:
//   - One of the public keys in the file o.KeyFile verifies the signature of the image.
//   - This key is allowed to sign the version of the image.
//   - The version is not lower than o.MinVersion or the number in the file o.VersionCounterFile.
func checkSignature(file *runtime.File, o args.Options) error {
	publicKeys, err := files.Read(o.KeyFile, maxKeyFileBytes)
	if err != nil {
		return hal.FileFault(o.KeyFile, err)
	}
	keys, err := signed.ParseKeys(string(publicKeys))
	if err != nil {
		return hal.NewFault(hal.CodeOf(err), o.KeyFile+": "+err.(*hal.Fault).Reason)
	}
	counted, err := readVersionCounter(o.VersionCounterFile)
	if err != nil {
		return err
	}
	atLeast := max(o.MinVersion, counted)
	return file.Inspect(func(data []byte) error { return keys.CheckSignature(data, atLeast) })
}
