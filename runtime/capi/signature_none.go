//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

// checkSignature rejects every file: this archive cannot check signatures, and must not ignore that
// the caller requires one.
func checkSignature(*runtime.File, string) error {
	return &hal.Fault{Code: hal.Denied,
		Reason: "this archive cannot check signatures; make one with `./build.sh archive --signed`"}
}
