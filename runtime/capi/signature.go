//go:build signed

package main

import (
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
)

// checkSignature returns an error unless one of the public keys has signed the file. publicKeys
// contains one key in each line.
func checkSignature(file *runtime.File, publicKeys string) error {
	keys, err := signed.ParseKeys(publicKeys)
	if err != nil {
		return err
	}
	return file.Inspect(keys.CheckSignature)
}
