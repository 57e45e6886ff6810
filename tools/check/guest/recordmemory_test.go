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

// TestHugePagesAreFollowedByTheirPhysicalAddresses records a program without an IOMMU, which reads
// the physical addresses of its huge pages from the kernel. The imported image must make the device
// copy from and to other memory.
func TestHugePagesAreFollowedByTheirPhysicalAddresses(t *testing.T) {
	t.Parallel()
	file, _ := recordPrograms(t, edu, "resource0", func(m *machine) {
		m.kernel = fromEnv(t, "LM_GUEST_NEW_KERNEL")
		m.kernelArgs = " hugepagesz=2M hugepages=16"
		m.addProgram(t, "../../capture/recorder/testdata/huge.c")
	}, "/program", "PATH")
	capture, err := record.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("by page\x00")
	// The addresses of the huge pages, and the address of the text in each kind of record.
	hugePages, textAddress := map[uint64]bool{}, map[record.Kind]uint64{}
	for _, r := range capture.Records {
		switch {
		case r.Kind == record.Memory && r.Size == 2<<20:
			hugePages[r.Offset] = true
		case (r.Kind == record.HostRead || r.Kind == record.HostWrite) &&
			bytes.Contains(r.Data, text):
			textAddress[r.Kind] = r.Offset + uint64(bytes.Index(r.Data, text))
		}
	}
	if !hugePages[textAddress[record.HostRead]-0x1000] ||
		!hugePages[textAddress[record.HostWrite]-0x2000] || len(hugePages) != 2 {
		t.Errorf("huge pages %v, want 2; the program stored to %x, want offset 0x1000 of one; "+
			"the device stored to %x, want offset 0x2000 of one", hugePages,
			textAddress[record.HostRead], textAddress[record.HostWrite])
	}
	image, report, err := importer.Import(bytes.NewReader(file),
		importer.Options{From: importer.FromRecord})
	if err != nil || !strings.Contains(report.String(),
		"2 stores of host memory addresses became relocations") {
		t.Fatalf("import: error %v, or the report has no 2 relocations:\n%v", err, report)
	}
	path := writeImage(t, image)
	if out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "replay", "--device", "mock:edu",
		path).CombinedOutput(); err != nil {
		t.Errorf("lm replay: %v\n%s", err, out)
	}
	// Behind an IOMMU, the two huge pages need not be contiguous.
	replayBehindIOMMU(t, path, "vfio:1234:11e8", nil)
}

// TestHugePageShowsTheWriterOfEachWord records a program and a device that both write to one huge
// page. The device is another process. The program also uses atomic operations: load-exclusive and
// store-exclusive on a processor without LSE, and single instructions on a processor with LSE.
func TestHugePageShowsTheWriterOfEachWord(t *testing.T) {
	t.Parallel()
	for name, processor := range map[string]string{"exclusives": "cortex-a72", "LSE": "max"} {
		t.Run(name, func(t *testing.T) {
			_, console := runInside(t, func(m *machine) {
				addRecorder(t, m)
				m.kernel = fromEnv(t, "LM_GUEST_NEW_KERNEL")
				m.kernelArgs = " hugepagesz=2M hugepages=16"
				m.addProgram(t, "../../capture/recorder/testdata/crowded.c")
				m.extraArgs = append(m.extraArgs, cmbDevice...)
				m.extraArgs = append(m.extraArgs, "-cpu", processor) // QEMU uses the last one
			}, "pci", "enable @cmb\nrecord --file memfd:crowded=bus:0x200000 -- /program "+
				"/sys/bus/pci/devices/@cmb/resource2 crowded huge\n")
			records, file := recordsOnConsole(t, console)
			got := sortBetweenStores(formatEvents(records))
			want := sortBetweenStores(expectedEvents(console))
			if !slices.Equal(got, want) || len(want) < 20 {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if text := gunzip(t, file); strings.Contains(text, "EVENT host memory") {
				t.Errorf("a page was made accessible to the program:\n%s", text)
			}
		})
	}
}

// formatEvents returns the stores to BARs and the changes of host memory in a record, in the format
// that crowded.c prints.
func formatEvents(records []record.Record) (list []string) {
	names := map[record.Kind]string{record.BarWrite: "W", record.HostRead: "HR",
		record.HostWrite: "HW"}
	for _, r := range records {
		if name := names[r.Kind]; name != "" {
			list = append(list, fmt.Sprintf("%s %x %d %x", name, r.Offset, len(r.Data), r.Data))
		}
	}
	return list
}

// expectedEvent matches an event that a program prints because its record must have this event. The
// line may start with other text.
var expectedEvent = regexp.MustCompile(`= ((?:W|HR|HW) [0-9a-f]+ \d+ [0-9a-f]+)`)

// expectedEvents returns the events on the console that the record must have.
func expectedEvents(console string) (list []string) {
	for _, match := range expectedEvent.FindAllStringSubmatch(console, -1) {
		list = append(list, match[1])
	}
	return list
}

// sortBetweenStores sorts the events between two stores to a BAR, and returns the list. In a
// record, these events are in the order in which the recorder detected them.
func sortBetweenStores(list []string) []string {
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

// gunzip returns the text of a record file.
func gunzip(t *testing.T, file []byte) string {
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

// TestClosedVFIOContainerReachesNoMemory records a program that closes its VFIO files. VFIO then
// unmaps the memory that the program has mapped, and memory that is mapped later may use the whole
// limit of --host-memory.
func TestClosedVFIOContainerReachesNoMemory(t *testing.T) {
	t.Parallel()
	file, _ := recordPrograms(t, edu, "vfio", func(m *machine) {
		m.machineType, m.kernel = iommuMachine, fromEnv(t, "LM_GUEST_NEW_KERNEL")
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

// replayBehindIOMMU replays an image in a guest, on a device of the backend vfio. The function
// setUp, if it is not nil, changes the machine before the boot.
func replayBehindIOMMU(t *testing.T, image, device string, setUp func(*machine)) {
	t.Helper()
	var console bytes.Buffer
	m := &machine{
		kernel:    fromEnv(t, "LM_GUEST_NEW_KERNEL"),
		moduleDir: fromEnv(t, "LM_GUEST_NEW_MODULES"),
		lmrun:     fromEnv(t, "LM_GUEST_LMRUN"),
		files:     map[string][]byte{}, kernelArgs: " hugepagesz=2M hugepages=32", dir: t.TempDir(),
		timeout: bootTimeout, stdout: &console}
	if setUp != nil {
		setUp(m)
	}
	if exit, err := m.replay(image, []string{"-device", device}); err != nil || exit != 0 {
		t.Fatalf("exit status %d, error %v; the console:\n%s", exit, err, &console)
	}
}

// TestMemoryThatTheVendorsDriverPinsIsRecorded records a replay in which a core of the chip copies
// data in host memory. The imported image must make the core copy the data again. A second program
// unpins memory, pins it again and makes the driver reset the card: the record must have all this.
func TestMemoryThatTheVendorsDriverPinsIsRecorded(t *testing.T) {
	t.Parallel()
	runOnVendorDriver(t, func(t *testing.T, m *machine, c *chip) {
		addRecorder(t, m)
		m.addHostMemoryImage(t, c)
	}, func(c *chip) string {
		return "ready\nrecord /lmrun -device tt:/dev/tenstorrent/0 /images/" + c.board +
			"/hosted.lmb\n"
	},
		func(t *testing.T, m *machine, c *chip, console string) {
			_, file := recordsOnConsole(t, console)
			path, image := makeImage(t, "import", "--from", "record", writeTempImage(t, file))
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
				t.Errorf("%d windows of host memory, %d relocations, want at least 1 and 3", hosts,
					relocated)
			}
			if out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "replay", "--device",
				"mock:"+c.board, path).CombinedOutput(); err != nil {
				t.Errorf("lm replay: %v\n%s", err, out)
			}
		})
	runOnVendorDriver(t, func(t *testing.T, m *machine, _ *chip) {
		addRecorder(t, m)
		m.addProgram(t, "../../capture/recorder/testdata/pins.c")
	}, func(*chip) string { return "ready\nrecord /program /dev/tenstorrent/0\n" },
		func(t *testing.T, _ *machine, _ *chip, console string) {
			_, file := recordsOnConsole(t, console)
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
