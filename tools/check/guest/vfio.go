package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"lightmetal/tools/lmrun/files"
)

// vfioModules are the kernel modules that VFIO needs with a virtual IOMMU, in the order of
// loading.
var vfioModules = []string{"virtio-iommu.ko", "vfio.ko", "vfio_iommu_type1.ko", "vfio-pci-core.ko",
	"vfio-pci.ko"}

// addIOMMU puts all devices behind a virtio-iommu. QEMU's other IOMMU for arm64, SMMUv3, does not
// accept served devices. The driver of virtio-iommu is a module, which PID 1 loads. By default the
// kernel waits for this driver before it probes the devices. With deferred_probe_timeout=0 it does
// not wait, so that the drives of outputs exist before PID 1 starts.
func (m *machine) addIOMMU() {
	m.machineType = "virt,gic-version=3"
	m.extraArgs = append(m.extraArgs, "-device", "virtio-iommu-pci,addr=7")
	m.kernelArgs += " deferred_probe_timeout=0"
}

// vfioFunctions returns the PCI functions of the flags `-device vfio:FUNCTION` of lmrun. Each is
// named by its ids or its address.
func vfioFunctions(flags []string) (functions []string) {
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

// setUpVFIO configures lminit to bind functions to vfio-pci, and then to replay the image with the
// flags of the command line.
func (m *machine) setUpVFIO(functions []string, image string) error {
	m.addIOMMU()
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
		data, err := files.Read(filepath.Join(m.moduleDir, name), programBytesMax)
		if err != nil {
			return fmt.Errorf("vfio: requires -modules, a directory with the kernel's %s: %w",
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
