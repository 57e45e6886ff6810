//go:build signed

package main

import (
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
)

// checkSignature is signed.Keys.CheckSignature for keys with one key in each line.
func checkSignature(file *runtime.File, publicKeys string, minVersion uint32) error {
	keys, err := signed.ParseKeys(publicKeys)
	if err != nil {
		return err
	}
	return file.Inspect(func(data []byte) error { return keys.CheckSignature(data, minVersion) })
}
