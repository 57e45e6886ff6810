package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// hostWindowBytes returns the contents of a host window of a loaded image.
func hostWindowBytes(t *testing.T, replay *runtime.Replay, image *lmb.Image, name string) []byte {
	t.Helper()
	for i, w := range image.Windows {
		if w.Kind != gen.WindowKindHost || w.Name != name {
			continue
		}
		data := make([]byte, w.Size)
		aperture := replay.Aperture(i)
		if c := mock.CopyAt(aperture, gen.OpcodeCopyOut, 0, 8, gen.AccessBulk, data); c != hal.OK {
			t.Fatalf("copying out of host window %s: %v", name, c)
		}
		return data
	}
	t.Fatalf("the image has no host window %s", name)
	return nil
}

// captureFile returns the contents of a file in testdata/captures.
func captureFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/captures/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCaptureOfDMAReplaysWithTheHostMemoryItReached(t *testing.T) {
	text := string(captureFile(t, "edu-dma.qemutrace"))
	o := Options{From: FromQemu, Board: &boards.Edu,
		Regions: []traces.Region{{Name: "edu-mmio", Base: 0x10000000}}}
	wantError(t, text, o, "line 3: store of 0x100000 to the DMA source address: a replay needs "+
		"host memory there, which the trace lacks; add a file of this memory with --host")
	o.Host = []HostSpec{{"from", 0x100000, captureFile(t, "edu-dma.from.bin")}}
	wantError(t, text, o, "line 21: store of 0x102000 to the DMA destination address: a replay "+
		"needs host memory there, which the trace lacks; add a file of this memory with --host")
	o.Host = append(o.Host, HostSpec{"to", 0x102000, captureFile(t, "edu-dma.to.bin")})
	const warning = "the trace has no accesses to host memory, so the image neither waits for " +
		"nor compares what the device writes there; record with `lm record` or `lm serve`"
	for _, without := range [][]string{nil, {"coalesce", "fence"}} {
		o.Without = without
		image, report := mustImport(t, text, o)
		if passSummary(report, "host") != "2 stores of host memory addresses became relocations" ||
			passSummary(report, "fill") != "host memory from: 4096 bytes with 0 host memory "+
				"addresses; to: 4096 bytes with 0 host memory addresses" ||
			len(report.Warnings) != 1 || report.Warnings[0].String() != warning {
			t.Errorf("without %v: want 2 relocations, 2 host memories and a warning; report:\n%v",
				without, report)
		}
		replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
		for range 2 {
			mustRun(t, replay, device)
			if want := append(bytes.Clone(o.Host[0].Data[:4095]),
				0xa5); !bytes.Equal(hostWindowBytes(t, replay, image, "to"), want) {
				t.Errorf("without %v: the DMA did not copy the data from host memory and back",
					without)
			}
		}
	}
}

// qemuTrace returns a trace of QEMU and the options that import it: "w 28 4 0x1000" is a store of 4
// bytes at 0x28, "r 1c 4 0x1" a load.
func qemuTrace(list ...string) (string, Options) {
	var text strings.Builder
	for _, line := range list {
		var verb, value string
		var offset, width uint64
		fmt.Sscanf(line, "%s %x %d %s", &verb, &offset, &width, &value)
		verb = map[string]string{"r": "read", "w": "write"}[verb]
		fmt.Fprintf(&text,
			"memory_region_ops_%s cpu 0 mr 0x7f addr 0x%x value %s size %d name 'it'\n", verb,
			eduBase+offset, value, width)
	}
	return text.String(), Options{From: FromQemu, Board: &boards.Nvme,
		Regions: []traces.Region{{Name: "it", Base: eduBase}}}
}

// TestAddressesInHostMemoryBecomeRelocations: an NVMe controller finds its queues by the addresses
// in its registers, and a buffer by the address in a queue.
func TestAddressesInHostMemoryBecomeRelocations(t *testing.T) {
	const bus = 0x1_4308_0000 // different bits in both halves
	ring := make([]byte, 0x3000)
	ring[0], ring[2], ring[40] = 6, 1, 1                    // Identify controller, as command 1
	binary.LittleEndian.PutUint64(ring[24:], bus+0x2000)    // into the third page
	binary.LittleEndian.PutUint64(ring[0x100:], bus+0x3000) // after the memory
	text, o := qemuTrace(
		"w 24 4 0x10001", "w 28 4 0x43080000", "w 2c 4 0x1", "w 34 4 0x1", "w 30 4 0x43081000",
		"r 30 8 0x143081000",
		"w 14 4 0x460001", "r 1c 4 0x1", "w 1000 4 0x1")
	o.Host = []HostSpec{{"ring", bus, ring}}
	image, report := mustImport(t, text, o)
	wantSummary(t, report, "host", "2 stores of host memory addresses became relocations, 2 of "+
		"them "+
		"joined from two halves; 1 load of host memory addresses ignored")
	wantSummary(t, report, "fill", "host memory ring: 12288 bytes "+
		"with 1 host memory address")
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	device.Sleep(1_000_000)
	got := hostWindowBytes(t, replay, image, "ring")
	if binary.LittleEndian.Uint16(got[0x2000:]) != 0x1b36 ||
		binary.LittleEndian.Uint32(got[0x100c:]) != 0x10001 {
		t.Errorf("the controller wrote data %x and completion %x; want vendor 1b36, status 10001",
			got[0x2000:0x2010], got[0x1000:0x1010])
	}
	if !bytes.Equal(got[0x100:0x108], ring[0x100:0x108]) {
		t.Error("the importer changed a number that is not an address in host memory")
	}
}

func TestControllerOfLinuxIsImportedWithItsQueues(t *testing.T) {
	o := Options{From: FromQemu, Board: &boards.Nvme,
		Regions: []traces.Region{{Name: "nvme", Base: 0x8001004000}},
		Host:    []HostSpec{{"queues", 0x43080000, make([]byte, 8192)}}}
	text := string(captureFile(t, "linux-nvme.qemutrace"))
	image, _ := mustImport(t, text, o)
	var relocations []string
	for i := range image.Sequences[0].Commands {
		if c := &image.Sequences[0].Commands[i]; c.Opcode == gen.OpcodeRelocate {
			relocations = append(relocations,
				strings.Join(strings.Fields(listing.CommandText(image, c)), " "))
		}
	}
	if got := strings.Join(relocations,
		"\n"); got != "write.8 bar0+0x28 bus(queues)+0x1000\nwrite.8 bar0+0x30 bus(queues)" {
		t.Errorf("relocations:\n%s", got)
	}
	s, err := Summarize(strings.NewReader(text), o)
	if err != nil || len(s.Blocked) != 0 {
		t.Errorf("summary %v, error %v; want no blocked access", s, err)
	}
}

// listingAfterFirst returns the commands after the first in the syntax of listings, in one line.
func listingAfterFirst(image *lmb.Image) string {
	var list []string
	for i := range image.Sequences[0].Commands[1:] {
		list = append(list,
			strings.Join(strings.Fields(listing.CommandText(image,
				&image.Sequences[0].Commands[1+i])), " "))
	}
	return strings.Join(list, "; ")
}

func TestOnlyStoresOfAddressesBecomeRelocations(t *testing.T) {
	for _, c := range []struct {
		board    *boards.Board
		bar      uint8
		trace    []string
		want     string
		warnings int
	}{
		{&boards.Edu, 0, []string{"w 80 8 0x2000", "w 60 4 0x3000"},
			"write.8 bar0+0x80 bus(m); write.4 bar0+0x60 0x3000", 0},
		// a register without an address, with a value that looks like one
		{&boards.Edu, 0, []string{"w 04 4 0x2008"}, "write.4 bar0+0x4 bus(m)+0x8", 1},
		{&boards.Edu, 0, []string{"w 80 4 0x2000", "w 84 4 0x0"}, "write.8 bar0+0x80 bus(m)", 0},
		{&boards.Edu, 0, []string{"w 90 4 0x20", "w 94 4 0x0"},
			"write.4 bar0+0x90 0x20; write.4 bar0+0x94 0x0", 0},
		{&boards.Edu, 0, []string{"w 84 4 0x2000", "w 88 4 0x0"},
			"write.4 bar0+0x84 bus(m); write.4 bar0+0x88 0x0", 0},
		// registers that do not accept 8 bytes
		{&boards.Edu, 0, []string{"w 60 4 0x2000", "w 64 4 0x0"},
			"write.4 bar0+0x60 bus(m); write.4 bar0+0x64 0x0", 1},
		// a load of what would be the upper half
		{&boards.Edu, 0, []string{"w 80 4 0x2000", "r 84 4 0x0"},
			"write.4 bar0+0x80 bus(m); expect.4 bar0+0x84 == 0x0", 0},
		{&boards.Ivshmem, 2, []string{"w 10 2 0x2008", "w 20 8 0x2008"},
			"write.2 bar2+0x10 0x2008; write.8 bar2+0x20 bus(m)+0x8", 1},
		{&boards.Edu, 0, []string{"r 98 8 0x1", "w 80 8 0x2000", "r 98 8 0x0"},
			"poll.8 bar0+0x98 & 0x1 == 0x1 within 1s; write.8 bar0+0x80 bus(m); poll.8 bar0+0x98 " +
				"& 0x1 == 0x0 within 1s", 0},
	} {
		text, o := qemuTrace(c.trace...)
		o.Board, o.Host = c.board, []HostSpec{{"m", 0x2000, make([]byte, 4096)}}
		o.Regions[0].Bar = c.bar
		image, report := mustImport(t, text, o)
		if got := listingAfterFirst(image); got != "fence; "+c.want {
			t.Errorf("%v: got %s, want fence; %s", c.trace, got, c.want)
		}
		report.Warnings = slices.DeleteFunc(report.Warnings, isWidthWarning)
		if len(report.Warnings) != c.warnings+1 {
			t.Errorf("%v: warnings %v, want %d", c.trace, report.Warnings, c.warnings+1)
		}
		const warning = "line 1: the value 0x2008, stored to bar0 + 0x4, is treated as an " +
			"address in host memory m: a replay stores the address of its own memory instead"
		if c.trace[0] == "w 04 4 0x2008" && report.Warnings[0].String() != warning {
			t.Errorf("%v: warning %s, want %s", c.trace, report.Warnings[0], warning)
		}
	}
}

func TestInvalidHostFlagIsRejected(t *testing.T) {
	for spec, want := range map[string]string{
		"ring":         `host memory "ring" must have the form ` + hostForm,
		"ring=0x1000":  `host memory "ring=0x1000" must have the form ` + hostForm,
		"ring=0x1000,": `host memory "ring=0x1000," must have the form ` + hostForm,
		"ring=q,f":     `host memory "ring=q,f" must have the form ` + hostForm,
		"=0x1000,f": `host memory "=0x1000,f": the name is empty (the form is ` + hostForm +
			")",
		"a b=0x1000,f": `host memory "a b=0x1000,f": the name has blanks, commas, or invisible ` +
			`or control characters (the form is ` + hostForm + ")",
		"ring=0x1000,f": "",
	} {
		h, file, err := ParseHost(spec)
		if want == "" {
			if err != nil || h.Name != "ring" || h.Bus != 0x1000 || file != "f" {
				t.Errorf("%s: got %+v, file %s, error %v; want ring at 0x1000, file f", spec, h,
					file, err)
			}
		} else if err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", spec, err, want)
		}
	}
	page := make([]byte, 4096)
	addressError := func(bus string) string {
		return "host memory a: bus address " + bus +
			" must be a nonzero multiple of 8, and the 4096 bytes there must end below 2^64"
	}
	for want, hosts := range map[string][]HostSpec{
		"host memory a has 0 bytes, but must have 1 to 4294967296": {{"a", 0x1000, nil}},
		addressError("0x0"):                       {{"a", 0, page}},
		addressError("0x1004"):                    {{"a", 0x1004, page}},
		addressError("0xfffffffffffff008"):        {{"a", 0xfffffffffffff008, page}},
		"host memory a and host memory b overlap": {{"a", 0x1000, page}, {"b", 0x1ff8, page}},
		"two --host flags have the name a":        {{"a", 0x1000, page}, {"a", 0x4000, page}},
	} {
		text, o := qemuTrace("r 08 4 0x10400")
		o.Host = hosts
		wantError(t, text, o, want)
	}
}
