package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/tools/importer"
	"lightmetal/tools/record"
)

// TestHugePagesAreFollowedByTheirPhysicalAddresses, which a program looks up that
// has no IOMMU. What is imported has the device copy from and to other memory.
func TestHugePagesAreFollowedByTheirPhysicalAddresses(t *testing.T) {
	file, _ := recordedIn(t, edu, "resource0", func(m *machine) {
		m.kernel, m.kernelArgs = tool(t, "LM_GUEST_NEW_KERNEL"), " hugepages=16"
		m.addProgram(t, "../recorder/testdata/huge.c")
	}, "/program", "PATH")
	capture, err := record.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("by page\x00")
	reached, inside := map[uint64]bool{}, map[record.Kind]uint64{}
	for _, r := range capture.Records {
		switch {
		case r.Kind == record.Memory && r.Size == 2<<20:
			reached[r.Offset] = true
		case (r.Kind == record.HostRead || r.Kind == record.HostWrite) &&
			bytes.Contains(r.Data, text):
			inside[r.Kind] = r.Offset + uint64(bytes.Index(r.Data, text))
		}
	}
	if !reached[inside[record.HostRead]-0x1000] || !reached[inside[record.HostWrite]-0x2000] ||
		len(reached) != 2 {
		t.Errorf("reached %v, the program stored to %x, the device to %x", reached,
			inside[record.HostRead], inside[record.HostWrite])
	}
	image, report, err := importer.Import(bytes.NewReader(file),
		importer.Options{From: importer.FromRecord})
	if err != nil || !strings.Contains(report.String(),
		"2 stores of its addresses became relocations") {
		t.Fatalf("%v, %v", report, err)
	}
	path := written(t, image)
	if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "replay", "--device", "mock:edu",
		path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	behindAnIOMMU(t, path, "vfio:1234:11e8", nil) // where two huge pages need not lie side by side
}

// TestContainerThatIsClosedReachesNoMemory: VFIO unmaps what a program has it map
// when the last of its files is closed, and what other memory is mapped then has
// all the room of --host-memory.
func TestContainerThatIsClosedReachesNoMemory(t *testing.T) {
	file, _ := recordedIn(t, edu, "vfio", func(m *machine) {
		m.virt, m.kernel = iommu, tool(t, "LM_GUEST_NEW_KERNEL")
		m.addModules(t, "LM_GUEST_NEW_MODULES")
		m.addProgram(t, "../recorder/testdata/closes.c")
	}, "--host-memory", "3M", "--", "/program", "DEVICE")
	capture, err := record.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range capture.Records {
		switch {
		case r.Kind == record.Memory:
			got = append(got, fmt.Sprintf("MEM %x %x", r.Offset, r.Size))
		case r.Kind == record.HostRead || r.Kind == record.HostWrite:
			got = append(got, fmt.Sprintf("%v %x %s",
				map[record.Kind]string{record.HostRead: "HR", record.HostWrite: "HW"}[r.Kind],
				r.Offset, r.Data))
		}
	}
	want := []string{"MEM 100000 200000", "HR 100000 first 8\x00", "HW 101000 first 8\x00",
		"MEM 800000 200000", "HR 800000 other 8\x00", "HW 801000 other 8\x00"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// behindAnIOMMU has a guest replay an image on a device by VFIO.
func behindAnIOMMU(t *testing.T, image, device string, setUp func(*machine)) {
	t.Helper()
	var console bytes.Buffer
	m := &machine{kernel: tool(t, "LM_GUEST_NEW_KERNEL"), modules: tool(t, "LM_GUEST_NEW_MODULES"),
		lmrun: tool(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, kernelArgs: " hugepages=32", dir: t.TempDir(),
		timeout: bootLimit, stdout: &console}
	if setUp != nil {
		setUp(m)
	}
	if exit, err := m.replay(image, []string{"-device", device}); err != nil || exit != 0 {
		t.Fatalf("exit %d, %v\n%s", exit, err, &console)
	}
}

// TestMemoryThatTheVendorsDriverPinsIsRecorded, of a program that a core of the
// chip moves data for: what is imported of the record has it moved again. That it
// is unpinned, and pinned anew, and that the driver resets the card, is in a
// record too.
func TestMemoryThatTheVendorsDriverPinsIsRecorded(t *testing.T) {
	onDriver(t, func(t *testing.T, m *machine, c *card) {
		withRecorder(t, m)
		m.addHosted(t, c)
		m.files["/arguments"] = []byte("/lmrun\n-device\ntt:/dev/tenstorrent/0\n/images/hosted.lmb")
	}, func(c *card) []string { return []string{"record", c.ids, "tt"} },
		func(t *testing.T, m *machine, c *card, console string) {
			_, file := recordsOf(t, console)
			path, image := made(t, "import", "--from", "record", saved(t, file))
			hosts, relocated := 0, 0
			for _, w := range image.Windows {
				if w.Kind == gen.WindowKindHost {
					hosts++
				}
			}
			for _, command := range image.Sequences[0].Commands {
				if command.Opcode == gen.OpcodeRelocate {
					relocated++
				}
			}
			if hosts == 0 || relocated < 3 {
				t.Errorf("%d windows of host memory, %d relocations", hosts, relocated)
			}
			if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "replay", "--device",
				"mock:"+c.board, path).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	onDriver(t, func(t *testing.T, m *machine, _ *card) {
		withRecorder(t, m)
		m.addProgram(t, "../recorder/testdata/pins.c")
		m.files["/arguments"] = []byte("/program\n/dev/tenstorrent/0")
	}, func(c *card) []string { return []string{"record", c.ids, "tt"} },
		func(t *testing.T, _ *machine, _ *card, console string) {
			_, file := recordsOf(t, console)
			zip, err := gzip.NewReader(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for text := bufio.NewScanner(zip); text.Scan(); {
				if line := text.Text(); strings.HasPrefix(line, "MEM") {
					got = append(got, line)
				} else if strings.HasPrefix(line, "HR") || strings.Contains(line, "RESET_DEVICE") {
					got = append(got, line[strings.LastIndex(line, " ")+1:])
				}
			}
			for i, text := range []string{"pinned1", "pinned2"} {
				_, rest, _ := strings.Cut(console, "= MEM ")
				if i == 1 {
					_, rest, _ = strings.Cut(rest, "= MEM ")
				}
				mem, _, _ := strings.Cut(rest, "\n")
				want = append(want, "MEM "+strings.TrimSpace(mem), fmt.Sprintf("%x00", text))
			}
			if want = append(want, "not"); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
}
