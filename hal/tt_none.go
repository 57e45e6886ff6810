//go:build notiles || (!backend_tt && (backend_pci || backend_vfio))

package hal

// The backend tt: is not part of this program.

func newTT(*device) backend { return nil }
