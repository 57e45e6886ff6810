package fakekernel

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// SysfsDir is the directory of all PCI functions.
const SysfsDir = "/sys/bus/pci/devices"

// Bits of the command register in configuration space.
const (
	CommandMemory = 1 << 1 // memory decoding is on
	CommandMaster = 1 << 2 // bus mastering is on

	CommandINTxOff = 1 << 10 // INTx is disabled
)

// Function is a PCI function.
type Function struct {
	Index          int    // in Kernel.Functions
	Address        string // such as 0001:01:1f.5
	Vendor, Device uint16
	Bars           [6]uint64 // sizes of the BARs in bytes; 0: no such BAR
	Config         []byte    // configuration space: the contents of the sysfs file config
	Vectors        [3]uint32 // that VFIO reports for INTx, MSI and MSI-X
	EnabledVectors [3]uint32 // by VFIO
	EventFD        int       // to which the enabled vectors write
	KernelVectors  uint32    // the most that the kernel can enable; 0: all
	Gone           bool      // configuration space reads as all ones, and ioctls fail
	StuckOn        uint16    // bits of the command register that cannot be cleared
	StuckOff       uint16    // bits of the command register that cannot be set
	WasMaster      bool      // bus mastering was switched on at any time
	Group          string    // IOMMU group: its number, or "" if there is none
	HasReset       bool      // opening the function through VFIO resets it
	Resets         int       // number of such resets
	DriverPath     string    // file of Tenstorrent's driver for the function, or ""
	ttState
	dir string // directory of the function's files
}

// AddFunction adds a PCI function whose BARs are 64 bits wide and prefetchable. Memory decoding is
// on.
func (k *Kernel) AddFunction(address string, vendor, device uint16, bars [6]uint64) *Function {
	f := &Function{Index: len(k.Functions), Address: address, Vendor: vendor, Device: device,
		Bars: bars, dir: k.Dir + SysfsDir + "/" + address}
	f.ReservedWindows = map[uint32]bool{}
	k.Functions = append(k.Functions, f)
	config := make([]byte, 4096)
	binary.LittleEndian.PutUint16(config[0:], vendor)
	binary.LittleEndian.PutUint16(config[2:], device)
	config[4] = CommandMemory
	resource := ""
	for i := range 13 {
		if i >= len(bars) || bars[i] == 0 {
			resource += NoResource
			continue
		}
		binary.LittleEndian.PutUint64(config[0x10+4*i:], f.BarBusAddress(i)|0xc)
		start := BarAddress(i)
		resource += fmt.Sprintf("0x%016x 0x%016x 0x%016x\n", start, start+bars[i]-1, 0x14220c)
		for _, suffix := range []string{"", "_wc"} {
			name := fmt.Sprintf("resource%d%s", i, suffix)
			k.WriteFile(f.Path(name), "")
			_ = os.Truncate(f.dir+"/"+name, int64(bars[i]))
		}
	}
	for name, text := range map[string]string{"modalias": Modalias(vendor, device, 0, 0),
		"resource": resource, "enable": "0\n", "config": string(config)} {
		k.WriteFile(f.Path(name), text)
	}
	file, err := os.OpenFile(f.dir+"/config", os.O_RDWR, 0)
	if err == nil {
		f.Config, err = unix.Mmap(int(file.Fd()), 0, len(config), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
		file.Close()
	}
	if err != nil {
		k.Complain("configuration space of %s: %v", address, err)
	}
	return f
}

// NoResource is the line of a missing BAR in the sysfs file resource.
const NoResource = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"

// BarAddress returns the address at which the processor reaches a BAR.
func BarAddress(bar int) uint64 { return uint64(bar+1) << 44 }

// BarBusAddress returns the bus address of a BAR. It differs from the address of the processor, as
// on machines whose host bridge translates addresses.
func (f *Function) BarBusAddress(bar int) uint64 {
	return uint64(f.Index+1)<<48 | uint64(bar+1)<<40
}

// Modalias returns the contents of the sysfs file modalias (Linux, drivers/pci/pci-sysfs.c).
func Modalias(vendor, device, subvendor, subdevice uint16) string {
	return fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc12sc00i00\n", vendor, device, subvendor,
		subdevice)
}

// Path returns the path of a sysfs file of the function, without Kernel.Dir.
func (f *Function) Path(name string) string { return SysfsDir + "/" + f.Address + "/" + name }

// BarFile returns the real path of the file with the contents of a BAR.
func (f *Function) BarFile(bar int) string { return fmt.Sprintf("%s/resource%d", f.dir, bar) }

// Command returns the command register.
func (f *Function) Command() uint16 { return binary.LittleEndian.Uint16(f.Config[4:]) }

// SetCommand sets the command register, as the device or another program does.
func (f *Function) SetCommand(value uint16) { binary.LittleEndian.PutUint16(f.Config[4:], value) }

// BindDriver binds a kernel driver to the function, or unbinds the driver if the name is "".
func (k *Kernel) BindDriver(f *Function, driver string) {
	if driver == "" {
		_ = os.Remove(f.dir + "/driver")
		return
	}
	k.WriteLink(f.Path("driver"), "../../../bus/pci/drivers/"+driver)
}

// Names that Locate returns for files outside sysfs.
const (
	vfioFile = "vfio"
	ttFile   = "tt"
)

// Locate returns the function to which the file at a path belongs, and the name of the file. The
// function is nil for other files.
func (k *Kernel) Locate(path string) (*Function, string) {
	address, isVFIO := strings.CutPrefix(path, "vfio:")
	name := vfioFile
	if !isVFIO {
		address, name, _ = strings.Cut(strings.TrimPrefix(path, SysfsDir+"/"), "/")
		name = strings.TrimSuffix(name, "_wc")
	}
	for _, f := range k.Functions {
		switch {
		case f.Address == address:
			return f, name
		case f.DriverPath != "" && f.DriverPath == path:
			return f, ttFile
		}
	}
	return nil, path
}

// storeConfig stores to configuration space. A 1 that is stored to a bit of the status register
// clears the bit.
func (k *Kernel) storeConfig(f *Function, offset int, data []byte) {
	if f.Gone {
		return
	}
	if k.OnConfigStore != nil {
		k.OnConfigStore(f, offset, data)
	}
	if len(data) != 2 || offset != 4 && offset != 6 {
		copy(f.Config[offset:], data)
		return
	}
	value := binary.LittleEndian.Uint16(data)
	old := binary.LittleEndian.Uint16(f.Config[offset:])
	if offset == 6 {
		binary.LittleEndian.PutUint16(f.Config[offset:], old&^value)
		return
	}
	value = (value | old&f.StuckOn) &^ (f.StuckOff &^ old)
	f.SetCommand(value)
	f.WasMaster = f.WasMaster || value&CommandMaster != 0
}
