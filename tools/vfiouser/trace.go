package vfiouser

import (
	"bufio"
	"fmt"
	"io"

	"lightmetal/hal"
)

// trace writes accesses as tools/record reads them: tools/record/FORMAT.md.
// Its methods do nothing on nil.
type trace struct {
	to    *bufio.Writer
	lines int
}

// barStride is between the addresses that BARs have in a trace.
const barStride = 0x10_0000_0000

func newTrace(to io.Writer, id hal.Identity) *trace {
	t := &trace{to: bufio.NewWriter(to)}
	fmt.Fprintf(t.to, "LMRECORD 1\nDEVICE %04x %04x\n", id.Vendor, id.Device)
	for bar := 0; bar < 6; bar += 2 {
		fmt.Fprintf(t.to, "BAR %d %x %x\n", bar, barStride*(1+bar), id.Bars[bar])
	}
	return t
}

func (t *trace) access(kind byte, bar uint32, offset uint64, data []byte) {
	if t == nil {
		return
	}
	t.lines++
	fmt.Fprintf(t.to, "%c %d %x %d %x\n", kind, bar, offset, len(data), data)
}

func (t *trace) end() error {
	fmt.Fprintf(t.to, "END %d\n", t.lines)
	return t.to.Flush()
}
