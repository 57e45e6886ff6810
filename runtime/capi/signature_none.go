//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

// checkSignature refuses every file: this archive knows nothing of signatures,
// and must not pass over the wish for one.
func checkSignature(*runtime.File, string) error {
	return &hal.Fault{Code: hal.Denied,
		Reason: "this archive cannot check signatures; make one with `./build.sh archive --signed`"}
}
