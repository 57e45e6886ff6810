//go:build signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

const keyFlagUsage = `
  -key FILE           public keys in hex, one a line; rejects an image that none of them signed
  -at-least N         with -key: reject an image of a version below N (lm sign --version)
  -version-counter FILE
                      with -key: reject an image of a version below the number in FILE. After the
                      first complete run, raise the number to the version of the image`

const maxKeyFileBytes = 4 << 20

// checkSignature returns an error unless a key of o.KeyFile has signed the image and may sign its
// version, and the version is at least o.MinVersion and the number in o.VersionCounterFile.
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
