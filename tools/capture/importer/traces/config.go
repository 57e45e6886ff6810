package traces

import (
	"fmt"

	"lightmetal/fbs/gen"
)

// IsInterruptAddress reports whether a value is an address at which x86 receives interrupts (Intel
// SDM, volume 3, "Message Signalled Interrupts"). Arm's GIC has no fixed address for them.
func IsInterruptAddress(value uint64) bool { return value>>20 == 0xfee }

// MSIXTable is the place of a device's MSI-X table, as its capability says.
type MSIXTable struct {
	Bar          uint8
	Offset, Size uint64 // bytes
}

func (t *MSIXTable) String() string {
	return fmt.Sprintf("BAR %d, 0x%x to 0x%x", t.Bar, t.Offset, t.Offset+t.Size-1)
}

// configSpace is what a recording shows of the first 256 bytes of a device's configuration space.
type configSpace struct {
	data    [256]byte
	known   [256]bool
	vectors Vectors // the last that were enabled
}

// Vectors is the interrupt vectors that a recording enables.
type Vectors struct {
	Kind  gen.InterruptKind
	Count uint16
}

func (c *configSpace) add(offset uint64, data []byte) {
	for i, b := range data {
		if at := offset + uint64(i); at < uint64(len(c.data)) {
			c.data[at], c.known[at] = b, true
		}
	}
}

// noteVectors sets c.vectors if a store enables the vectors of a capability (PCI Express 5.0, 7.7.1
// and 7.7.2).
func (c *configSpace) noteVectors(offset uint64, data []byte) {
	for i, b := range data {
		switch at := int(offset) + i; {
		case at == c.capability(capabilityMSI)+2 && b&1 != 0:
			c.vectors = Vectors{gen.InterruptKindMsi, 1 << min(b>>4&7, 5)}
		case at == c.capability(capabilityMSIX)+3 && b&0x80 != 0:
			if control, ok := c.number(at-1, 2); ok {
				c.vectors = Vectors{gen.InterruptKindMsix, uint16(control&0x7ff + 1)}
			}
		}
	}
}

// number returns size bytes. ok is false if the recording does not show all of them.
func (c *configSpace) number(at, size int) (n uint64, ok bool) {
	for i := at; i < at+size; i++ {
		if i >= len(c.data) || !c.known[i] {
			return 0, false
		}
	}
	return Little(c.data[at : at+size]), true
}

// msix returns the MSI-X table, or nil if the recording does not show its capability (PCI Express
// 5.0, 7.7.2).
func (c *configSpace) msix() *MSIXTable {
	at := c.capability(capabilityMSIX)
	control, ok1 := c.number(at+2, 2)
	place, ok2 := c.number(at+4, 4)
	if !ok1 || !ok2 || place&7 > 5 {
		return nil
	}
	return &MSIXTable{uint8(place & 7), place &^ 7, 16 * (control&0x7ff + 1)}
}

const capabilityMSI, capabilityMSIX = 0x05, 0x11

// capability returns the offset of a capability, or one outside of configuration space if the
// recording does not show it.
func (c *configSpace) capability(id uint64) int {
	const first, capabilitiesMax = 0x34, 48
	next, ok := c.number(first, 1)
	for n := 0; ok && n < capabilitiesMax && next != 0; n++ {
		at := int(next &^ 3)
		if kind, known := c.number(at, 1); known && kind == id {
			return at
		}
		next, ok = c.number(at+1, 1)
	}
	return len(c.data)
}
