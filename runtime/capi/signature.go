//go:build signed

package main

import (
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
)

// checkSignature rejects a file that none of the keys has signed.
func checkSignature(file *runtime.File, text string) error {
	keys, err := signed.ParseKeys(text)
	if err != nil {
		return err
	}
	return file.Inspect(keys.CheckSignature)
}
