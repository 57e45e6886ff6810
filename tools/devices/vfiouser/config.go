package vfiouser

import (
	"encoding/binary"
	"slices"

	"lightmetal/boards"
	"lightmetal/hal"
)

// Registers of PCI configuration space: PCI Express Base 5.0 section 7.5, and
// include/uapi/linux/pci_regs.h.
const (
	configSize = 4096

	regCommand    = 0x04
	regStatus     = 0x06
	regClass      = 0x08 // class; the lowest byte is the revision
	regBar        = 0x10
	regSubsystem  = 0x2c // subsystem ids; the vendor is in the lower half
	regCapability = 0x34

	commandMaster   = 0x0004
	commandWritable = 0x0547 // I/O, memory, bus master, parity, SERR, INTx disable
	statusCaps      = 0x0010 // the function has capabilities

	capPower       = 0x40 // power management, 8 bytes
	capPowerState  = capPower + 4
	powerWritable  = 0x0003
	powerNoReset   = 0x0008
	capExpress     = 0x50 // PCI Express endpoint, 60 bytes
	expressDevice  = capExpress + 4
	expressControl = capExpress + 8
	expressLink    = capExpress + 0x0c
	expressStatus  = capExpress + 0x12
	expressReset   = 1 << 28 // device capabilities: function level reset
	controlReset   = 0x8000
	capMSI         = 0x90 // message signalled interrupts, 14 bytes
	msiControl     = capMSI + 2
	msiWide        = 0x0080 // addresses of 64 bits
	msiWritable    = 0x0001 // MSI enable; there is only one message

	// A store that sets timerPending in regTimer resets a Blackhole (tt-kmd, pcie_timer_interrupt).
	regTimer     = 0x930
	timerPending = 0x10

	barMemory64 = 0x4
	barPrefetch = 0x8
)

// classes contains the class and revision of devices for whose drivers they matter, by vendor and
// device id. All other devices are processing accelerators, like those of Tenstorrent.
var classes = map[[2]uint16]uint32{
	{0x1234, 0x11e8}: 0x00ff0010, // QEMU hw/misc/edu.c
	{0x1af4, 0x1110}: 0x05000000, // QEMU hw/misc/ivshmem.c
	{0x1b36, 0x0010}: 0x01080202, // NVM Express I/O controller
	{0x1e52, 0x401e}: 0x12000001, // Wormhole B0; tt-umd reads the revision
}

const classAccelerator = 0x12000000

// config is the configuration space of the function. writable is the mask of the bits that a client
// may change.
type config struct {
	bytes, writable [configSize]byte
	timerResets     bool // the function is a Blackhole, see regTimer
}

// newConfig returns the configuration space of a function after a reset: ids, class, BARs, and all
// capabilities except those in without.
func newConfig(id hal.Identity, board *boards.Board, without []string) *config {
	c := &config{timerResets: board == &boards.Blackhole}
	c.put16(0x00, id.Vendor)
	c.put16(0x02, id.Device)
	class, ok := classes[[2]uint16{id.Vendor, id.Device}]
	if !ok {
		class = classAccelerator
	}
	c.put32(regClass, class)
	subsystem := id.Subsystem
	if subsystem == 0 { // unknown
		subsystem = uint32(id.Device)<<16 | uint32(id.Vendor)
	}
	c.put32(regSubsystem, subsystem)
	binary.LittleEndian.PutUint16(c.writable[regCommand:], commandWritable)
	for bar := range id.BarSizes {
		c.describeBar(id.BarSizes, bar, board)
	}
	last := regCapability
	for i := range capabilities {
		if p := &capabilities[i]; !slices.Contains(without, p.name) {
			c.put16(regStatus, statusCaps)
			c.bytes[last], c.bytes[p.at] = byte(p.at), p.id
			last = p.at + 1
			p.describe(c)
		}
	}
	return c
}

// describeBar sets the register of a BAR. A BAR with an even number has 64 bits if the next BAR
// does not exist.
func (c *config) describeBar(bars [6]uint64, bar int, board *boards.Board) {
	size := bars[bar]
	if size == 0 {
		return
	}
	flags := uint32(0)
	if bar < 5 && bars[bar+1] == 0 && bar%2 == 0 {
		flags = barMemory64
	}
	if flags != 0 && board != nil && memoryBar(board, uint8(bar)) {
		flags |= barPrefetch
	}
	at := regBar + 4*bar
	c.put32(at, flags)
	binary.LittleEndian.PutUint32(c.writable[at:], uint32(-size)&^0xf)
	if flags&barMemory64 != 0 {
		binary.LittleEndian.PutUint32(c.writable[at+4:], uint32(-size>>32))
	}
}

// memoryBar reports whether a part of a BAR is plain memory. A client may map such a BAR
// write-combining.
func memoryBar(b *boards.Board, bar uint8) bool {
	for i := range b.Rules {
		if b.Rules[i].Bar == bar && b.Rules[i].IsMemory {
			return true
		}
	}
	return false
}

// capabilities contains the PCI capabilities of the function.
var capabilities = [...]struct {
	name     string
	at       int // offset of the capability's id; that of the next capability follows
	id       byte
	describe func(c *config)
}{
	{"power", capPower, 0x01, (*config).power},
	{"express", capExpress, 0x10, (*config).express},
	{"msi", capMSI, 0x05, (*config).msi},
}

// Capabilities returns the names of the capabilities that Options.Without may contain.
func Capabilities() (names []string) {
	for i := range capabilities {
		names = append(names, capabilities[i].name)
	}
	return names
}

func (c *config) power() {
	c.put16(capPower+2, 0x0003) // version 1.2
	c.put16(capPowerState, powerNoReset)
	c.writable[capPowerState] = powerWritable
}

// express sets the registers of the PCI Express capability: an endpoint that supports function
// level reset.
func (c *config) express() {
	c.put16(capExpress+2, 0x0002) // version 2, an endpoint
	c.put32(expressDevice, expressReset|0x8000)
	c.put16(expressControl, 0x2810)
	binary.LittleEndian.PutUint16(c.writable[expressControl:], 0x7fff)
	c.put32(expressLink, 0x0041) // 2.5 GT/s, one lane
	c.put16(expressStatus, 0x0011)
}

// msi sets the registers of the MSI capability, which has one message. The client chooses the
// address and the data of the message; the registers keep what it stores.
func (c *config) msi() {
	c.put16(msiControl, msiWide)
	c.writable[msiControl] = msiWritable
	for at := msiControl + 2; at < msiControl+12; at++ {
		c.writable[at] = 0xff
	}
}

// put16 and put32 store a value at an offset, whatever the mask writable is.
func (c *config) put16(at int, value uint16) { binary.LittleEndian.PutUint16(c.bytes[at:], value) }
func (c *config) put32(at int, value uint32) { binary.LittleEndian.PutUint32(c.bytes[at:], value) }

// store executes a store of the client: it changes only writable bits. It reports whether the store
// resets the function.
func (c *config) store(offset uint64, data []byte) (reset bool) {
	for i, b := range data {
		at := offset + uint64(i)
		mask := c.writable[at]
		c.bytes[at] = c.bytes[at]&^mask | b&mask
		reset = reset || at == expressControl+1 && b&(controlReset>>8) != 0 ||
			at == regTimer && b&timerPending != 0 && c.timerResets
	}
	return reset
}

// master reports whether the function is bus master, and may access memory.
func (c *config) master() bool { return c.bytes[regCommand]&commandMaster != 0 }
