package traces

import "fmt"

// IsInterruptAddress reports whether a value is an address at which x86 receives interrupts (Intel
// SDM, volume 3, "Message Signalled Interrupts"). Arm's GIC has no fixed address for them.
func IsInterruptAddress(value uint64) bool { return value>>20 == 0xfee }

// MSIXTable is the place of a device's MSI-X table, by the capability.
type MSIXTable struct {
	Bar          uint8
	Offset, Size uint64 // bytes
}

func (t *MSIXTable) String() string {
	return fmt.Sprintf("BAR %d, 0x%x to 0x%x", t.Bar, t.Offset, t.Offset+t.Size-1)
}

// configSpace is what a recording shows of the first 256 bytes of a device's configuration space.
type configSpace struct {
	data  [256]byte
	known [256]bool
}

func (c *configSpace) add(offset uint64, data []byte) {
	for i, b := range data {
		if at := offset + uint64(i); at < uint64(len(c.data)) {
			c.data[at], c.known[at] = b, true
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
	const first, id, capabilitiesMax = 0x34, 0x11, 48
	next, ok := c.number(first, 1)
	for n := 0; ok && n < capabilitiesMax && next != 0; n++ {
		at := int(next &^ 3)
		kind, known := c.number(at, 1)
		if known && kind == id {
			control, ok1 := c.number(at+2, 2)
			place, ok2 := c.number(at+4, 4)
			if !ok1 || !ok2 || place&7 > 5 {
				return nil
			}
			return &MSIXTable{uint8(place & 7), place &^ 7, 16 * (control&0x7ff + 1)}
		}
		next, ok = c.number(at+1, 1)
	}
	return nil
}
