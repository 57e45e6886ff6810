//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

// checkSignature rejects every file. An archive without the build tag signed cannot check
// signatures, and must not open a file whose signature the caller wants checked.
func checkSignature(*runtime.File, string) error {
	return &hal.Fault{Code: hal.Denied,
		Reason: "this archive cannot check signatures; build it with " +
			"`./build.sh archive --signed`"}
}
