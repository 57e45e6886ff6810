package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/capture/record"
)

// TestHugePagesAreFollowedByTheirPhysicalAddresses, which a program looks up that
// has no IOMMU. What is imported has the device copy from and to other memory.
func TestHugePagesAreFollowedByTheirPhysicalAddresses(t *testing.T) {
	t.Parallel()
	file, _ := recordedIn(t, edu, "resource0", func(m *machine) {
		m.kernel, m.kernelArgs = tool(t, "LM_GUEST_NEW_KERNEL"), " hugepages=16"
		m.addProgram(t, "../../capture/recorder/testdata/huge.c")
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

// TestHugePageHasWhoWroteEachWord: a program and a device, which is another process, write
// to one huge page, the program by atomics too: exclusives on a processor without LSE, and
// single instructions on one that has it.
func TestHugePageHasWhoWroteEachWord(t *testing.T) {
	t.Parallel()
	for name, processor := range map[string]string{"exclusives": "cortex-a72", "LSE": "max"} {
		t.Run(name, func(t *testing.T) {
			_, console := inside(t, func(m *machine) {
				withRecorder(t, m)
				m.kernel, m.kernelArgs = tool(t, "LM_GUEST_NEW_KERNEL"), " hugepages=16"
				m.addProgram(t, "../../capture/recorder/testdata/crowded.c")
				m.extra = append(m.extra, cmbDevice...)
				m.extra = append(m.extra, "-cpu", processor) // QEMU uses the last one
			}, "pci", "enable @cmb\nrecord --file memfd:crowded=bus:0x200000 -- /program "+
				"/sys/bus/pci/devices/@cmb/resource2 crowded huge\n")
			records, file := recordsOf(t, console)
			got, want := betweenStores(eventsOf(records)), betweenStores(announced(console))
			if !slices.Equal(got, want) || len(want) < 20 {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if text := unzipped(t, file); strings.Contains(text, "EVENT host memory") {
				t.Errorf("a page was opened to the program:\n%s", text)
			}
		})
	}
}

// eventsOf returns stores to BARs and what changed in host memory, as crowded.c prints them.
func eventsOf(records []record.Record) (list []string) {
	names := map[record.Kind]string{record.BarWrite: "W", record.HostRead: "HR",
		record.HostWrite: "HW"}
	for _, r := range records {
		if name := names[r.Kind]; name != "" {
			list = append(list, fmt.Sprintf("%s %x %d %x", name, r.Offset, len(r.Data), r.Data))
		}
	}
	return list
}

// announcedEvent is a line in which a program says what the record of it must have. The
// console may have something else before it.
var announcedEvent = regexp.MustCompile(`= ((?:W|HR|HW) [0-9a-f]+ \d+ [0-9a-f]+)`)

func announced(console string) (list []string) {
	for _, match := range announcedEvent.FindAllStringSubmatch(console, -1) {
		list = append(list, match[1])
	}
	return list
}

// betweenStores sorts what happened between two stores to a BAR, whose order in the record
// is that in which it was noticed.
func betweenStores(list []string) []string {
	start := 0
	for i, line := range list {
		if strings.HasPrefix(line, "W ") {
			slices.Sort(list[start:i])
			start = i + 1
		}
	}
	slices.Sort(list[start:])
	return list
}

// unzipped returns the text of a record.
func unzipped(t *testing.T, file []byte) string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestContainerThatIsClosedReachesNoMemory: VFIO unmaps what a program has it map
// when the last of its files is closed, and what other memory is mapped then has
// all the room of --host-memory.
func TestContainerThatIsClosedReachesNoMemory(t *testing.T) {
	t.Parallel()
	file, _ := recordedIn(t, edu, "vfio", func(m *machine) {
		m.virt, m.kernel = iommu, tool(t, "LM_GUEST_NEW_KERNEL")
		m.addModules(t, "LM_GUEST_NEW_MODULES")
		m.addProgram(t, "../../capture/recorder/testdata/closes.c")
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
// is unpinned, and pinned again, and that the driver resets the card, is in a
// record too.
func TestMemoryThatTheVendorsDriverPinsIsRecorded(t *testing.T) {
	t.Parallel()
	onDriver(t, func(t *testing.T, m *machine, c *card) {
		withRecorder(t, m)
		m.addHosted(t, c)
	}, func(c *card) string {
		return "ready\nrecord /lmrun -device tt:/dev/tenstorrent/0 /images/" + c.board +
			"/hosted.lmb\n"
	},
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
		m.addProgram(t, "../../capture/recorder/testdata/pins.c")
	}, func(*card) string { return "ready\nrecord /program /dev/tenstorrent/0\n" },
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
