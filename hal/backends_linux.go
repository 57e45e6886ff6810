package hal

import "strconv"

// A program without a tag backend_... has all backends. Nothing else refers to a backend, so that
// the compiler drops those that the tags exclude.
const (
	hasAll  = !taggedPCI && !taggedVFIO && !taggedTT
	hasPCI  = hasAll || taggedPCI
	hasVFIO = hasAll || taggedVFIO
	hasTT   = hasAll || taggedTT
)

// newBackend returns nil if this program has no backend of this scheme.
func (d *device) newBackend(scheme string) backend {
	switch {
	case hasPCI && scheme == "pci":
		return &pciBackend{dev: d}
	case hasVFIO && scheme == "vfio":
		return &vfioBackend{dev: d}
	case hasTT && scheme == "tt":
		return newTT(d)
	}
	return nil
}

// exampleNames returns names that this program opens, for messages.
func exampleNames() (text string) {
	if hasPCI {
		text += " `pci:1234:11e8`"
	}
	if hasVFIO {
		text += " `vfio:0000:01:00.0`"
	}
	if hasTT {
		text += " `tt:/dev/tenstorrent/0`"
	}
	return text
}

// DefaultName returns the name by which a program opens the only device with these ids if its user
// names none: `vfio:` if vfio-pci is bound to the device or this program lacks the backend pci, and
// otherwise `pci:`. A program with only the backend tt opens the device with this number instead.
func DefaultName(vendor, device uint16, number int) string {
	name := "tt:/dev/tenstorrent/" + strconv.Itoa(number)
	if hasPCI || hasVFIO {
		name = defaultPCIName(FormatPCIID(vendor, device))
	}
	return name
}

func defaultPCIName(ids string) string {
	var f pciFunction
	f.Name = "vfio:" + ids
	if !hasPCI || hasVFIO && f.findInSysfs(ids, true) == nil && f.boundDriver == "vfio-pci" {
		return f.Name
	}
	return "pci:" + ids
}
