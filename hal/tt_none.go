//go:build !backend_tt && (backend_pci || backend_vfio)

package hal

func newTT(*function) backend { return nil }
