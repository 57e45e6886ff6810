package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"lightmetal/tools/lmrun/files"
)

// vfioModules are what VFIO behind a virtual IOMMU takes, in order.
var vfioModules = []string{"virtio-iommu.ko", "vfio.ko", "vfio_iommu_type1.ko", "vfio-pci-core.ko",
	"vfio-pci.ko"}

// behindIOMMU puts all devices behind a virtual IOMMU. QEMU's other one for
// arm64, SMMUv3, refuses a device that somebody serves. The kernel finds its
// driver only when process 1 loads it, and gives what a device has until then:
// without a wait, so that the drives of outputs are there before process 1 is.
func (m *machine) behindIOMMU() {
	m.virt = "virt,gic-version=3"
	m.extra = append(m.extra, "-device", "virtio-iommu-pci,addr=7")
	m.kernelArgs += " deferred_probe_timeout=0"
}

// vfioDevices are the PCI functions, by ids or by address, that lmrun's flags
// name with vfio:.
func vfioDevices(flags []string) (functions []string) {
	for i, flag := range flags {
		name, value, inline := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(flag, "-"), "-"),
			"=")
		if !inline && i+1 < len(flags) {
			value = flags[i+1]
		}
		if function, ok := strings.CutPrefix(value, "vfio:"); ok && flag[0] == '-' &&
			name == "device" {
			functions = append(functions, function)
		}
	}
	return functions
}

// byVFIO has process 1 hand functions to the kernel's VFIO, and then replay the
// image with the flags of the command line.
func (m *machine) byVFIO(functions []string, image string) error {
	m.behindIOMMU()
	var ids, binds string
	for _, function := range functions {
		if strings.Count(function, ":") == 1 {
			ids += "," + function
		} else {
			binds += "bind vfio-pci " + function + "\n"
		}
	}
	var config strings.Builder
	for _, name := range vfioModules {
		data, err := files.Read(filepath.Join(m.modules, name), programMax)
		if err != nil {
			return fmt.Errorf("vfio: takes -modules, a folder with %s of the kernel: %w",
				strings.Join(vfioModules, ", "), err)
		}
		m.files["/modules/"+name] = data
		config.WriteString("module /modules/" + name)
		if name == "vfio-pci.ko" && ids != "" {
			config.WriteString(" ids=" + ids[1:])
		}
		config.WriteString("\n")
	}
	m.files["/lmrun.conf"] = []byte(config.String() + binds + "image " + image + "\n")
	return nil
}
