//go:build !backend_vfio && (backend_pci || backend_tt)

package hal

// The backend vfio: is not part of this program.

func newVFIO(*device) backend { return nil }
