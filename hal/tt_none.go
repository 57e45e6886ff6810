//go:build notiles || (!backend_tt && (backend_pci || backend_vfio))

package hal

// The build tags exclude the backend tt: from this program.

// newTT returns nil, so that names that begin with tt: are unknown devices.
func newTT(*device) backend { return nil }
