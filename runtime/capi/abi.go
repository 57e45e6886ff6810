package main

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
