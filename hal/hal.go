// Package hal opens PCIe devices and makes their address ranges accessible.
//
// An image declares windows, ranges of addresses that its commands access. Device.Map makes a
// window accessible and returns an Aperture. A Walk executes commands on apertures that are mapped
// memory. A window has one of four kinds:
//
//	Bar     a range of a base address register (BAR)
//	Tlb     addresses of a tile, through a TLB window of the device
//	Config  the first bytes of the PCI configuration space
//	Host    host memory that the device reaches by DMA
//
// A tile is a node of the on-chip network of a Tenstorrent chip, such as a processor or DRAM. A TLB
// window is a range of a BAR whose accesses the chip forwards to an address of a tile. Registers
// select the tile and the address. The number of a TLB window is its slot.
//
// The backend `pci` (sysfs) is for bring-up, because nothing restricts which memory the device
// reaches; `vfio`, behind an IOMMU, is for production; with `tt`, a program shares the device with
// Tenstorrent's own driver. All map BARs and host memory into this process, so that a Fence, one
// MFENCE or DSB SY, is a full barrier. The build tags backend_pci, backend_vfio and backend_tt
// select backends; without one, a program has all three.
//
// Go code must not access a BAR like ordinary memory: the compiler merges and deletes plain stores,
// and copy may access bytes twice or unaligned. One assembly routine (walk_amd64.s, walk_arm64.s)
// makes all accesses, each with one instruction of the command's width, and no []byte covers a BAR.
// walk_generic.go defines in Go what each command does; tests compare the two.
package hal

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Identity describes an opened device.
type Identity struct {
	Name           string    // name that was passed to Open, such as "pci:1234:11e8"
	Address        string    // PCI address, such as "0000:01:00.0"; "" if unknown
	Vendor, Device uint16    // PCI vendor id and device id
	Subsystem      uint32    // subsystem ids, as in the register at offset 0x2c; 0 if unknown
	BarSizes       [6]uint64 // size of each BAR in bytes; 0 if the BAR is missing or not memory
	Unassigned     uint8     // bit n is 1 if the kernel has assigned no address to BAR n
}

// Device is one PCIe function, or a mock of one. Map is called only while an image is loaded:
// during a replay a device maps no memory, opens no file and reserves nothing.
type Device interface {
	Identity() Identity

	// Map makes a window accessible: a range inside a BAR; a TLB window of at least w.Size bytes,
	// if possible the one with the number w.Slot; or zeroed host memory, which the device reaches
	// at Aperture.BusAddress.
	//
	// Nothing writes to a device or resets it before the first Map, so that a caller can close a
	// wrong device unchanged.
	Map(w fbs.Window) (Aperture, error)

	// EncodePoint prepares a Point, which makes a TLB window show an address of tiles, so that a
	// Walk executes it. The caller puts `registers`, the address of the registers of TLB window 0,
	// into Walk.WindowAddresses at c.Index, and `windowBase`, where the Point's TLB window is
	// mapped, into Walk.TLBWindowBases. If `registers` is 0, the registers are not mapped, and the
	// caller calls ProgramWindow instead. EncodePoint sets these fields of c:
	//
	//	Offset  from `registers` to the registers of this TLB window
	//	Width   8 for one register of 8 bytes, 4 for three of 4 bytes
	//	Value   the registers' first 8 bytes, little endian
	//	Mask    the last 4 bytes of three registers
	//	Amount  from `windowBase` to the first byte of the aperture
	EncodePoint(a *Aperture, t fbs.TileRoute, address uint64, c *fbs.Command) (
		registers, windowBase uintptr, code Code)

	// ProgramWindow executes a Point: the first byte of the aperture of a Tlb window then shows the
	// address, a multiple of a.Size, of the tiles. ProgramWindow may change a.Base if the TLB
	// window is larger than the aperture.
	ProgramWindow(a *Aperture, t fbs.TileRoute, address uint64) Code

	// AssignBusAddress sets a.BusAddress to the address at which this device reaches the aperture.
	// `owner` is the device whose Map returned the aperture: this device or another one.
	AssignBusAddress(a *Aperture, owner Device) error

	// SetBusMaster switches bus mastering on or off, unless a kernel driver keeps it on. When bus
	// mastering is off, the device cannot write to host memory. A sealed program calls SetBusMaster
	// instead of Close, which its system call filter forbids.
	SetBusMaster(on bool) error

	// EnableVectors enables interrupt vectors until Close. It is called after the last Map. Nothing
	// handles the interrupts; an InterruptWaiter can wait for them.
	EnableVectors(kind gen.InterruptKind, count uint16) error

	// Alive reports whether the device answers: its configuration space is not all ones, memory
	// decoding is on, and the BARs have the same addresses as at the first Map. Alive is called
	// after a load of all ones, which a missing device also returns.
	Alive() bool

	// Diagnose returns DeviceGone, MasterOff or DMAFault if the PCI registers show it, else OK. It
	// does not allocate, and makes only system calls that a sealed program may make.
	Diagnose() Code

	// Now returns the nanoseconds of a monotonic clock, virtual in some mocks.
	Now() (nanoseconds int64)

	// Sleep returns when Now has advanced by at least this time.
	Sleep(nanoseconds int64)

	// Close switches bus mastering off and releases the device.
	Close() error
}

// InterruptWaiter is a Device that may notice its interrupts, after EnableVectors.
type InterruptWaiter interface {
	// AwaitInterrupt is Sleep, but returns true as soon as the device sends an interrupt, or has
	// sent one since the last call. A wait below 1 ms is only Sleep.
	AwaitInterrupt(nanoseconds int64) (isInterrupted bool)
}

// Aperture is what Map returns for a window: a mapped range at Base, or a Port.
type Aperture struct {
	Base       uintptr // address of the first byte in this process; 0 if the range is not mapped
	Port       Port    // access to a range that is not mapped; nil if the range is mapped
	Size       uint64  // size of the range in bytes
	TLBWindow  int     // number of the TLB window; -1 if the image's window is not of kind Tlb
	BusAddress uint64  // bus address at which a device reaches the first byte by DMA; 0 if none
	DMAPage    uint64  // not 0: AssignBusAddress let devices reach whole pages of so many bytes

	isHostMemory bool // the range is the host memory of a Host window

	// executes w.Next through Port; nil if the range is mapped or configuration space
	executeCommand func(w *Walk, barOffset uint64) Code
}

// MappedAperture returns an aperture of `size` bytes of `mem` from `offset` on. The aperture has no
// pointer to `mem`: the caller keeps `mem` mapped, or a pointer to it.
func MappedAperture(mem []byte, offset, size uint64, tlbWindow int) Aperture {
	return Aperture{Base: AddressOf(mem[offset : offset+size]), Size: size, TLBWindow: tlbWindow}
}

// ExitCleaner is a Device whose kernel driver can put cores back into reset when this process ends,
// even if it is killed.
type ExitCleaner interface {
	// RegisterExitCleanup asks the driver to reset the cores of the first tile that the image
	// starts, when the device is closed or this process ends. `note` is "", or a line of text that
	// warns that the driver is too old.
	RegisterExitCleanup(view *fbs.View, deviceIndex int) (note string, err error)
}
