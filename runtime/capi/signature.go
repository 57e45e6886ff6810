//go:build signed

package main

// This file checks the signatures of files. Only archives with the build tag signed contain it.

import (
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
)

// checkSignature returns nil if three conditions are true: the signature of the file belongs to one
// of the public keys, that key may sign the version of the image, and this version is at least
// minVersion. The text publicKeys contains one key in each line.
func checkSignature(file *runtime.File, publicKeys string, minVersion uint32) error {
	keys, err := signed.ParseKeys(publicKeys)
	if err != nil {
		return err
	}
	return file.Inspect(func(data []byte) error { return keys.CheckSignature(data, minVersion) })
}
