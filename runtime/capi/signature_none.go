//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

// checkSignature fails without the build tag signed, so that lm_open_signed opens no file.
func checkSignature(*runtime.File, string, uint32) error {
	return &hal.Fault{Code: hal.Denied,
		Reason: "this archive cannot check signatures; build it with " +
			"`./build.sh archive --signed`"}
}
