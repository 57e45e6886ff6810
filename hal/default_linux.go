//go:build !backend_tt || backend_pci || backend_vfio

package hal

// DefaultName returns the name by which a program opens the only device with these ids if its user
// names none: `vfio:` if vfio-pci is bound to the device or this program lacks the backend pci, and
// otherwise `pci:`. A program with only the backend tt uses the number of the device instead.
func DefaultName(vendor, device uint16, number int) string {
	ids, f := FormatPCIID(vendor, device), pciFunction{}
	f.Name = "vfio:" + ids
	if pciExample == "" || vfioExample != "" && f.findInSysfs(ids, true) == nil &&
		f.boundDriver == "vfio-pci" {
		return f.Name
	}
	return "pci:" + ids
}
