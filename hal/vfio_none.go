//go:build !backend_vfio && (backend_pci || backend_tt)

package hal

func newVFIO(*function) backend { return nil }
