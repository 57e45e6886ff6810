//go:build backend_pci

package hal

const taggedPCI = true
