//go:build backend_tt && !(backend_pci || backend_vfio)

package hal

import "strconv"

// DefaultName returns the name by which a program with only the backend tt opens its device with
// this number if its user names none.
func DefaultName(vendor, device uint16, number int) string {
	return "tt:/dev/tenstorrent/" + strconv.Itoa(number)
}
