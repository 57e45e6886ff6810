//go:build backend_vfio

package hal

const taggedVFIO = true
