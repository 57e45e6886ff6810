package vfiouser

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/tools/record"
)

// TestRecordingHasWhatTheDeviceDidToMemory: the pages first; what it read in
// front of the store that had it look, and once; what it wrote behind.
func TestRecordingHasWhatTheDeviceDidToMemory(t *testing.T) {
	var trace bytes.Buffer
	c, f := serving(t, opened(&boards.Edu), &trace)
	fd, data := memfd(t, 2*4096)
	copy(data, "from client to device to client")
	c.must(cmdDMAMap, dma(dmaRead|dmaWrite, 0, 0x100000, 8192), fd)
	c.store(configRegion, regCommand, 2, 6)
	eduDMA(c, 0x100000, 0x101000, 31)
	eduDMA(c, 0x100000, 0x101000, 31) // the same again, and nothing changes
	if err := c.leave(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	capture, err := record.Read(&trace)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range capture.Records {
		switch r.Kind {
		case record.Memory:
			got = append(got, fmt.Sprintf("memory %x", r.Offset))
		case record.HostRead:
			got = append(got, fmt.Sprintf("read %x %s", r.Offset, r.Data))
		case record.HostWrite:
			got = append(got, fmt.Sprintf("wrote %x %s", r.Offset, r.Data))
		case record.BarWrite:
			if r.Offset == 0x98 {
				got = append(got, fmt.Sprintf("command %x", r.Data[0]))
			}
		}
	}
	const want = `memory 100000, memory 101000, read 100000 from client to device to client, command 1, command 3, ` +
		`wrote 101000 from cli, wrote 101008 ent to d, wrote 101010 evice to, wrote 101018  client, command 1, command 3`
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}
