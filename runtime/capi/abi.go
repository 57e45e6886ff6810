package main

import "lightmetal/hal"

// abi is LM_ABI of lightmetal.h. The types and numbers below are those of the
// header; tests compare them with what a C compiler makes of it.
const abi = 2

const (
	nameMax = 255
	pathMax = 4095
	dimsMax = 8

	anyWindow = -1
	windowMax = 0xfffe
)

// lastError is struct lm_error.
type lastError struct {
	status, code, command, safe int32
	got, want, mask, element    uint64
	ignored, reserved           uint32
}

// imageInfo is struct lm_image.
type imageInfo struct {
	arenaBytes, hostBytes, payloadBytes   uint64
	targets, sequences, tensors, commands uint32
}

// tensorInfo is struct lm_tensor.
type tensorInfo struct {
	name                        [nameMax + 1]byte
	size                        uint64
	role, dtype, recorded, dims uint32
	shape                       [dimsMax]uint32
}

// versionInfo is struct lm_version.
type versionInfo struct {
	schemaHash               uint64
	abi                      uint32
	formatMajor, formatMinor uint16
}

// codeNumbers is enum lm_code. The hal may number its codes anew, a host that
// was compiled against the header cannot.
var codeNumbers = [...]int32{
	hal.OK:             0,
	hal.Usage:          1,
	hal.BadImage:       2,
	hal.NoFile:         3,
	hal.NoDevice:       4,
	hal.Internal:       5,
	hal.DeviceGone:     6,
	hal.BusFault:       7,
	hal.IO:             8,
	hal.DeadlinePassed: 9,
	hal.ExpectFailed:   10,
	hal.CompareFailed:  11,
	hal.Denied:         12,
	hal.WrongDevice:    13,
	hal.Refused:        14,
	hal.BadTensor:      15,
	hal.InputMissing:   16,
	hal.Disabled:       17,
	hal.FrameLate:      18,
	hal.MasterOff:      19,
	hal.DMAFault:       20,
}

func codeNumber(c hal.Code) int32 {
	if int(c) >= len(codeNumbers) {
		return codeNumbers[hal.Internal]
	}
	return codeNumbers[c]
}
