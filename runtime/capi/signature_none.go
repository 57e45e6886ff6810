//go:build !signed

package main

// This file replaces signature.go in archives without the build tag signed.

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

// checkSignature always returns an error, because this archive cannot check signatures. Therefore
// lm_open_signed and lm_open_signed_at_least open no file.
func checkSignature(*runtime.File, string, uint32) error {
	return &hal.Fault{Code: hal.Denied,
		Reason: "this archive cannot check signatures; build it with " +
			"`./build.sh archive --signed`"}
}
