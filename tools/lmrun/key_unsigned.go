//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

// This file replaces key_signed.go in a program that cannot check signatures.

const keyUsage = ""

// checkSignature rejects every image: -key must not be ignored.
func checkSignature(*runtime.File, string) error {
	return hal.NewFault(hal.Denied,
		"-key: this lmrun cannot check signatures; build one with `go build -tags signed`")
}
