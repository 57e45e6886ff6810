//go:build !backend_pci && (backend_vfio || backend_tt)

package hal

// The backend pci: is not part of this program.

func newPCI(*device) backend { return nil }
