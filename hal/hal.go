// Package hal opens PCIe devices and makes their address ranges accessible.
//
// A replay program executes the commands of an image, a file that was recorded or
// written for one or more devices. The image declares windows. A window is a range of
// addresses; a load, store or copy command accesses one window. Device.Map makes a window
// accessible and returns an Aperture. A Walk executes commands on apertures that are
// mapped memory. There are four kinds of windows:
//
//	Bar     a range of a PCI base address register (BAR) of the device
//	Tlb     a range of the addresses of a tile, through a TLB window of the device
//	Config  the first bytes of the device's PCI configuration space
//	Host    host memory that the device reaches by DMA
//
// A tile is one node of the on-chip network of a Tenstorrent chip, such as a processor
// tile or a DRAM tile. A TLB window is a range of a BAR. The chip forwards each access to
// a TLB window to an address of a tile. Registers of the chip select the tile and the
// address. TLB windows are numbered; the number of a TLB window is called its slot.
//
// The backend `pci` uses sysfs and is for bring-up, because nothing restricts which memory the
// device reaches. The backend `vfio` uses VFIO, which puts the device behind an IOMMU, and is for
// production. With the backend `tt`, a program shares the device with Tenstorrent's own driver.
// Each backend maps BARs and host memory into this process, so that the processor itself makes all
// accesses. Therefore a Fence command, which is one MFENCE or DSB SY instruction, is a full
// barrier. The type `device` in device_linux.go implements Device with the help of a backend. The
// build tags backend_pci, backend_vfio and backend_tt select the backends that a program
// contains. A program that is built without such a tag contains all three.
//
// Go code must not access a BAR like ordinary memory. The compiler merges and deletes plain
// stores. Go's function copy may access the same bytes twice, and may make unaligned accesses.
// Therefore one assembly routine (walk_amd64.s, walk_arm64.s) makes all accesses to
// mapped device memory, each with one instruction of the width that the command requires.
// This package returns no []byte that covers a BAR. port.go and walk_generic.go define in Go
// what each command does; tests compare the assembly with that code.
package hal

import "lightmetal/fbs"

// Identity describes a device that has been opened.
type Identity struct {
	Name           string    // name that was passed to Open, such as "pci:1234:11e8"
	Address        string    // PCI address, such as "0000:01:00.0"; "" if unknown
	Vendor, Device uint16    // PCI vendor id and device id
	Subsystem      uint32    // subsystem ids, as in the register at offset 0x2c; 0 if unknown
	BarSizes       [6]uint64 // size of each BAR in bytes; 0 if the BAR is missing or not memory
	Unassigned     uint8     // bit n is 1 if the kernel has assigned no address to BAR n
}

// Device is one PCIe function, or a mock of a PCIe function. A program calls Map only while
// it loads an image. During a replay a device maps no memory, opens no file and reserves
// nothing.
type Device interface {
	// Identity returns the name, PCI ids and BAR sizes of the device.
	Identity() Identity

	// Map makes the window `w` of an image accessible. The device keeps no reference to `w`.
	//
	// No function of this package writes to a device or resets it before the first Map.
	// Therefore a caller can open a device, compare its Identity with the image, and close a
	// wrong device unchanged.
	//
	// For a Bar window, the range must lie inside the BAR. For a Tlb window, Map reserves a
	// TLB window of at least w.Size bytes. It prefers the TLB window with the number w.Slot. For a
	// Host window, Map reserves zeroed host memory. The device reaches this memory at the bus
	// address Aperture.BusAddress.
	Map(w fbs.Window) (Aperture, error)

	// EncodePoint prepares the Point command `c`, so that a Walk can execute the command without
	// calling the device. A Point command makes a TLB window show the given address of the tiles
	// `t`. `a` is the aperture that Map returned for the image's window. EncodePoint computes the
	// new values of the TLB window's registers, and sets these fields of `c`:
	//
	//	Offset  bytes from the result `registers` to the registers of this TLB window
	//	Width   8 for one register of 8 bytes; 4 for three registers of 4 bytes each
	//	Value   values of the registers, first 8 bytes, little endian
	//	Mask    values of the registers, last 4 bytes; only if there are three registers
	//	Amount  bytes from the result windowBase to the first byte of the aperture
	//
	// The result `registers` is the address of the registers of TLB window 0. The caller must store
	// this address in an entry of Walk.WindowAddresses, and the index of that entry in c.Index. The
	// result windowBase is the address at which this TLB window is mapped. The caller must store
	// that address in entry c.Window of Walk.TLBWindowBases.
	//
	// If `registers` is 0, the registers are not mapped. In that case the caller must discard `c`
	// and call ProgramWindow instead.
	EncodePoint(a *Aperture, t fbs.TileRoute, address uint64, c *fbs.Command) (
		registers, windowBase uintptr, code Code)

	// ProgramWindow does the work of a Point command directly, without an encoded command: it
	// programs the TLB window to which the aperture `a` belongs. After that, the first byte of `a`
	// shows the byte at the given address of the tiles `t`. Callers need ProgramWindow only if
	// EncodePoint has returned 0 as the result `registers`.
	//
	// The aperture `a` must be one that Map returned for a Tlb window. The address must be a
	// multiple of a.Size. ProgramWindow may change a.Base: if the TLB window is larger than `a`,
	// the offset of `a` in the TLB window depends on the address.
	ProgramWindow(a *Aperture, t fbs.TileRoute, address uint64) Code

	// AssignBusAddress sets a.BusAddress to the bus address at which this device reaches the memory
	// of the aperture `a`. `owner` is the device whose Map returned `a`: this device or another
	// one.
	AssignBusAddress(a *Aperture, owner Device) error

	// SetBusMaster switches bus mastering on or off. After SetBusMaster(false), the device
	// can no longer write to host memory, unless a kernel driver keeps bus mastering on.
	// Close also switches bus mastering off. However, a sealed program has restricted its own
	// system calls, and cannot call Close. It must call SetBusMaster(false) instead.
	SetBusMaster(on bool) error

	// Alive reports whether the device still answers: its configuration space is not all ones,
	// memory decoding is on, and its BARs have the addresses that they had when it was acquired.
	// The runtime calls Alive after a load has returned all ones, because a load from a missing
	// device also returns all ones.
	Alive() bool

	// Diagnose returns the cause of a failure if the device's PCI registers show one:
	// DeviceGone, MasterOff or DMAFault. Otherwise it returns OK. Diagnose does not
	// allocate, and makes only system calls that a sealed program may make.
	Diagnose() Code

	// Now returns the time of a monotonic clock in nanoseconds. The clock of a mock may be
	// virtual.
	Now() (nanoseconds int64)

	// Sleep returns when the clock of Now has advanced by at least the given nanoseconds.
	Sleep(nanoseconds int64)

	// Close switches bus mastering off and releases the device.
	Close() error
}

// Aperture is the accessible range of addresses that Map returns for a window. The program
// accesses a mapped range with loads and stores at Base, and any other range through Port.
type Aperture struct {
	Base       uintptr // address of the first byte in this process; 0 if the range is not mapped
	Port       Port    // access to a range that is not mapped; nil if the range is mapped
	Size       uint64  // size of the range in bytes
	TLBWindow  int     // number of the TLB window; -1 if the image's window is not of kind Tlb
	BusAddress uint64  // bus address at which a device reaches the first byte by DMA; 0 if none
	DMAPage    uint64  // an IOMMU lets devices reach all of each page of so many bytes; 0: no IOMMU

	isHostMemory bool // the range is the host memory of a Host window

	// executeCommand executes the command w.Next through Port. `executeCommand` is nil if the range
	// is mapped, and for configuration space, from which ExecuteOnPort itself loads.
	executeCommand func(w *Walk, barOffset uint64) Code
}

// MappedAperture returns an aperture of `size` bytes of `mem`, from the given offset on. The
// aperture contains an address but no Go pointer. Therefore the caller must keep `mem` mapped or,
// if `mem` is on the Go heap, keep a pointer to `mem`.
func MappedAperture(mem []byte, offset, size uint64, tlbWindow int) Aperture {
	return Aperture{Base: AddressOf(mem[offset : offset+size]), Size: size, TLBWindow: tlbWindow}
}

// ExitCleaner is implemented by a Device whose kernel driver can put cores of the device
// back into reset when this process ends, even if the process is killed.
type ExitCleaner interface {
	// RegisterExitCleanup asks the kernel driver to reset all cores that the image starts, as soon
	// as the device is closed or this process ends. deviceIndex is the index of this device in the
	// image. If the driver is too old, `note` is one line that warns the user. Otherwise `note` is
	// "".
	RegisterExitCleanup(view *fbs.View, deviceIndex int) (note string, err error)
}
