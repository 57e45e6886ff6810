package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/tools/check/guest/scenario"
)

// hostSteps are the steps of scenarios that run on the host, after the boot of the machine. Those
// of scenarios on `host` boot machines themselves. TEXT is part of the output of the program.
var hostSteps = map[string]hostStep[*hostRun]{
	"lm":          {"STATUS TEXT ARGUMENT...", (*hostRun).runLm},
	"import":      {"STATUS ARGUMENT...", (*hostRun).importRecord},
	"guest":       {"STATUS TEXT ARGUMENT...", (*hostRun).runGuest}, // its files are in $dir
	"bare":        {"STATUS TEXT [ARGUMENT...]", (*hostRun).runBare},
	"firmware":    {"STATUS TEXT [ARGUMENT...]", (*hostRun).bootFirmware}, // PATH=FILE, or PID 1's
	"bootimage":   {"ARGUMENT...", (*hostRun).buildBootImage},             // in $dir/image
	"drives":      {"COUNT", (*hostRun).addDrives},                        // of the boot image
	"qemu":        {"ARGUMENT...", (*hostRun).addQemuArguments},           // for the boot image
	"config":      {"TEXT", (*hostRun).replaceConfig},                     // in the boot image
	"boot":        {"STATUS off|reset [LINE...]", (*hostRun).bootImage},
	"printed":     {"TEXT...", (*hostRun).requirePrinted},
	"console":     {"COUNT TEXT", (*hostRun).countOnConsole},
	"no-warnings": {"EXCEPT", (*hostRun).requireNoWarnings}, // in the log that the guest showed
	"matches":     {"REGEXP", (*hostRun).requireMatch},
	"keep":        {"FILE [AFTER [BEFORE]]", (*hostRun).keepOutput},
	"dumped":      {"OUTPUT FILE", (*hostRun).requireDumped},

	"data":       {"FILE TEXT [TIMES]", writeData},
	"pattern":    {"FILE SEED SIZE", writePattern},
	"same":       {"FILE FILE", compareHostFiles},
	"begins":     {"FILE TEXT", requireBeginning},
	"blocks":     {"FILE BLOCK...", (*hostRun).requireBlocks}, // on the disk of the NVMe device
	"empty-from": {"BLOCK", (*hostRun).requireEmpty},
	"disk":       {"FILE BLOCK", (*hostRun).requireDisk}, // blocks, and none after them
	"shared":     {"FILE OFFSET...", (*hostRun).requireShared},
	"memory":     {"IMAGE SEQUENCE", (*hostRun).requireMemory}, // of ivshmem

	// Traces. The accesses to a region (namedRegions) are those of all replays of the machine's
	// scenarios, or of one run, or those that this scenario has recorded.
	"traced":         {"REGION...", (*hostRun).requireTraces},
	"accesses":       {"REGION IMAGE SEQUENCE [TENSOR=FILE...]", (*hostRun).requireAccesses},
	"stores":         {"REGION OFFSET VALUE...", (*hostRun).requireStores}, // the first ones
	"traced-many":    {"FEWEST REGION [OFFSET VALUE]", (*hostRun).countAccesses},
	"alike":          {"REGION REGION", (*hostRun).requireAlike},
	"recorded":       {"REGION", (*hostRun).requireRecorded}, // the record is $dir/record
	"record-has":     {"LINES...", (*hostRun).requireInRecord},
	"save-record":    {"", (*hostRun).saveRecord}, // to $dir/record
	"announced":      {"KIND", (*hostRun).requireAnnounced},
	"record-matches": {"REGEXP", (*hostRun).matchRecord},
	"record-lacks":   {"TEXT", (*hostRun).requireNotInRecord},
	"events":         {"", (*hostRun).requireEvents},
	"sent-again":     {"FILE FILE COUNT FEWEST", (*hostRun).requireSentAgain},
}

// hostRun is the state of the steps of a scenario on the host.
type hostRun struct {
	hostFiles
	boot     *scenarioRun // the machine of the scenario, or the last one that a step has booted
	name     string       // of the scenario
	output   string       // of the last program
	drives   []string     // of the boot image
	qemuArgs []string     // for the boot image
	recorded map[region][]access
}

func newHostRun(t *testing.T, r *scenarioRun, name string) *hostRun {
	dir := t.TempDir()
	if r == nil {
		r = &scenarioRun{machine: &machine{dir: dir, traceFile: filepath.Join(dir, "trace")}}
	}
	boot := *r // steps may boot other machines
	return &hostRun{hostFiles: hostFiles{t, dir, r.dir}, boot: &boot, name: name,
		recorded: map[region][]access{}}
}

func (h *hostRun) runSteps(steps []scenario.Step) {
	h.t.Helper()
	for _, step := range steps {
		requireStep(h.hostFiles, step, hostSteps, h)
	}
}

// run runs a program in $dir, and requires a status and a text.
func (h *hostRun) run(status, text, program string, args ...string) error {
	c := exec.Command(program, args...)
	c.Dir = h.dir
	output, err := c.CombinedOutput()
	if errors.As(err, new(*exec.ExitError)) {
		err = nil
	}
	h.output = string(output)
	return errors.Join(err, h.requireEnd(status, text, c.ProcessState.ExitCode()))
}

func (h *hostRun) requireEnd(status, text string, exit int) error {
	if !slices.Contains(strings.Split(status, "|"), strconv.Itoa(exit)) ||
		!strings.Contains(h.output, text) {
		return fmt.Errorf("got exit status %d, want %s with %q; it said:\n%s", exit, status, text,
			h.output)
	}
	return nil
}

func (h *hostRun) runLm(args []string) error {
	return h.run(args[0], args[1], fromEnv(h.t, "LM_GUEST_LM"), args[2:]...)
}

// importRecord runs lm import. If that rejects a page that both the program and the device wrote,
// it runs again, and the bytes that were named are the program's.
func (h *hostRun) importRecord(args []string) error {
	args = append([]string{args[0], "", "import"}, args[1:]...)
	err := h.runLm(args)
	if data := regexp.MustCompile(`--as-data (bus:\S+)`).FindStringSubmatch(h.output); data != nil {
		err = h.runLm(append(args, "--as-data", data[1]))
	}
	return err
}

func (h *hostRun) runGuest(args []string) error {
	m := &machine{files: map[string][]byte{}, extraArgs: h.qemuArgs}
	h.boot.machine = m
	return h.runProgram(args, m, func(args []string) (int, error) { return runGuest(args, m) },
		"-kernel", fromEnv(h.t, "LM_GUEST_KERNEL"), "-lmrun", fromEnv(h.t, "LM_GUEST_LMRUN"))
}

func (h *hostRun) runBare(args []string) error {
	b := &bareMachine{machine: &machine{extraArgs: h.qemuArgs}}
	h.boot.machine = b.machine
	run := func(args []string) (int, error) { return runBare(args, b) }
	return h.runProgram(args, b.machine, run, "-firmware", fromEnv(h.t, "LM_GUEST_BARE"))
}

// runProgram runs the command `guest` or `guest bare` in this process.
func (h *hostRun) runProgram(args []string, m *machine, run func([]string) (int, error),
	flags ...string) error {
	var output bytes.Buffer
	m.stdout = &output
	flags = append(flags, "-dir", h.dir, "-trace", filepath.Join(h.dir, "trace"), "-timeout",
		bootTimeout().String())
	if slices.Contains(args, "-with") {
		flags = append(flags, "-qemu", fromEnv(h.t, "LM_GUEST_QEMU"), "-lm",
			fromEnv(h.t, "LM_GUEST_LM"))
	}
	exit, err := run(append(flags, args[2:]...))
	if h.output = output.String(); err != nil {
		h.output += err.Error()
	}
	return h.requireEnd(args[0], args[1], exit)
}

// bootFirmware boots a machine with the firmware of testdata/firmware as PID 1. If PID 1 has an
// argument, the machine has a served Wormhole.
func (h *hostRun) bootFirmware(args []string) error {
	m := &machine{kernel: fromEnv(h.t, "LM_GUEST_KERNEL"),
		initProgram: fromEnv(h.t, "LM_GUEST_FIRMWARE"), files: map[string][]byte{}, dir: h.dir,
		traceFile: filepath.Join(h.dir, "trace")}
	for _, arg := range args[2:] {
		if path, file, ok := strings.Cut(arg, "="); ok {
			m.files[path] = readFile(h.t, file)
		} else {
			m.args = append(m.args, arg)
			m.addServed(h.t, "mock:wormhole")
		}
	}
	exit, err := h.bootMachine(m)
	return errors.Join(err, m.serversErr, h.requireEnd(args[0], args[1], exit))
}

func (h *hostRun) addQemuArguments(args []string) error {
	h.qemuArgs = args
	return nil
}

func (h *hostRun) bootMachine(m *machine) (exit int, err error) {
	var console bytes.Buffer
	m.stdout, m.timeout = &console, bootTimeout()
	h.boot.machine = m
	exit, err = m.boot()
	h.output = console.String()
	return exit, err
}

func (h *hostRun) requirePrinted(texts []string) error {
	for _, text := range texts {
		if !strings.Contains(h.output, text) {
			return fmt.Errorf("no %q; it said:\n%s", text, h.output)
		}
	}
	return nil
}

func (h *hostRun) countOnConsole(args []string) error {
	if got := strings.Count(h.boot.console, args[1]); strconv.Itoa(got) != args[0] {
		return fmt.Errorf("%d times; the console:\n%s", got, h.boot.console)
	}
	return nil
}

// kernelWarning matches a line of the kernel's log that is a warning or an error.
var kernelWarning = regexp.MustCompile(`the kernel says: <[0-4]>.*`)

func (h *hostRun) requireNoWarnings(args []string) error {
	for _, line := range kernelWarning.FindAllString(h.boot.output[h.name], -1) {
		if !strings.Contains(line, args[0]) {
			return errors.New(line)
		}
	}
	return nil
}

func (h *hostRun) requireMatch(args []string) error {
	if !regexp.MustCompile(args[0]).MatchString(h.output) {
		return fmt.Errorf("no match; it said:\n%s", h.output)
	}
	return nil
}

// keepOutput writes the output of the last program, after a text, to a file.
func (h *hostRun) keepOutput(args []string) error {
	output := h.output
	if len(args) > 1 {
		_, output, _ = strings.Cut(output, args[1])
	}
	if len(args) > 2 {
		output, _, _ = strings.Cut(output, args[2])
	}
	return os.WriteFile(args[0], []byte(output), 0o600)
}

// requireDumped compares an output that the firmware has printed, with its checksum, with a file.
func (h *hostRun) requireDumped(args []string) error {
	_, rest, _ := strings.Cut(h.output, "\noutput "+args[0]+": ")
	line, rest, _ := strings.Cut(rest, "\n")
	var data []byte
	for text := range strings.Lines(rest) {
		part, err := hex.DecodeString(strings.TrimSpace(text))
		if err != nil || !strings.HasPrefix(text, "  ") {
			break
		}
		data = append(data, part...)
	}
	sum := fmt.Sprintf("CRC-32C %08x:", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	if !strings.Contains(line, sum) || !bytes.Equal(data, h.readData(args[1])) {
		return fmt.Errorf("the output with %s has other data; it said:\n%s", sum, h.output)
	}
	return nil
}

func writeData(_ *hostRun, args []string) error {
	data, err := dataOf(args[1:])
	return errors.Join(err, os.WriteFile(args[0], data, 0o600))
}

func writePattern(_ *hostRun, args []string) error {
	data, err := patternOf(args[1:])
	return errors.Join(err, os.WriteFile(args[0], data, 0o600))
}

func compareHostFiles(h *hostRun, args []string) error {
	if !bytes.Equal(readFile(h.t, args[0]), readFile(h.t, args[1])) {
		return errors.New("the files differ")
	}
	return nil
}

func requireBeginning(h *hostRun, args []string) error {
	if got := readFile(h.t, args[0]); !bytes.HasPrefix(got, []byte(args[1])) {
		return fmt.Errorf("it begins with %q", got[:min(len(got), len(args[1]))])
	}
	return nil
}

// readData returns the contents of a file of the host or of the guest.
func (h *hostRun) readData(path string) []byte {
	if data := h.boot.files[path]; data != nil {
		return data
	}
	return readFile(h.t, path)
}

// requireBlocks requires that the disk of the NVMe device has the data of a file from each of the
// given blocks on.
func (h *hostRun) requireBlocks(args []string) error {
	disk, data := readFile(h.t, filepath.Join(h.boot.dir, "nvme.img")), h.readData(args[0])
	for _, text := range args[1:] {
		block, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if !bytes.Equal(disk[block*512:][:len(data)], data) {
			return fmt.Errorf("the disk has other data from block %d on", block)
		}
	}
	return nil
}

func (h *hostRun) requireEmpty(args []string) error {
	block, err := strconv.Atoi(args[0])
	disk := readFile(h.t, filepath.Join(h.boot.dir, "nvme.img"))
	for i, value := range disk[block*512:] {
		if value != 0 {
			return fmt.Errorf("the disk has %#x at %#x", value, block*512+i)
		}
	}
	return err
}

func (h *hostRun) requireDisk(args []string) error {
	block, err := strconv.Atoi(args[1])
	end := strconv.Itoa(block + len(h.readData(args[0]))/512)
	return errors.Join(err, h.requireBlocks(args), h.requireEmpty([]string{end}))
}

// requireShared requires that the memory of the ivshmem device has the data of a file at offsets.
func (h *hostRun) requireShared(args []string) error {
	memory, data := readFile(h.t, h.boot.shmPath()), h.readData(args[0])
	for _, text := range args[1:] {
		offset, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return err
		}
		if !bytes.Equal(memory[offset:][:len(data)], data) {
			return fmt.Errorf("the memory of ivshmem at %#x has other data", offset)
		}
	}
	return nil
}

// requireMemory requires that the memory of the ivshmem device has exactly what the oracle writes.
func (h *hostRun) requireMemory(args []string) error {
	f := mustLoad(h.t, readFile(h.t, args[0]), ivshmem)
	f.memory = make([]byte, shmSize)
	f.requireRun(h.t, args[1], nil)
	if !bytes.Equal(f.memory, readFile(h.t, h.boot.shmPath())) {
		return errors.New("the memory of ivshmem has other data")
	}
	return nil
}

// iommuMachine is the machine type of QEMU in which all devices are behind an SMMUv3.
const iommuMachine = "virt,iommu=smmuv3,gic-version=3"

// nvmeRegion is the BAR with the registers of QEMU's NVMe controller.
var nvmeRegion = region{"nvme", 0x1b36, 0x0010, 0, 16 << 10}

// namedRegions are the regions that steps name. "served" N:B is BAR B of the served device N.
var namedRegions = map[string]region{"edu": edu, "nvme": nvmeRegion,
	// memory in a BAR, which accepts all widths: the buffer of an NVMe controller
	"cmb":     {"nvme-cmb", 0x8086, 0x5845, 2, 1 << 20},
	"ecam":    {name: "pcie-mmcfg-mmio", size: 256 << 20},
	"xhci":    {"operational", 0x1b36, 0x000d, 0, 16 << 10},
	"e1000":   {"e1000-mmio", 0x8086, 0x100e, 0, 128 << 10},
	"e1000e":  {"e1000e-mmio", 0x8086, 0x10d3, 0, 128 << 10},
	"vmxnet3": {"vmxnet3-b1", 0x15ad, 0x07b0, 1, 4 << 10},
	"virtio":  {"virtio-pci-*", 0x1af4, 0x1041, 4, 16 << 10},
}

// trace returns a region, and the accesses to it that QEMU has traced.
func (h *hostRun) trace(name string) (traced region, trace []access, err error) {
	index, bar := 0, uint8(0)
	if n, _ := fmt.Sscanf(name, "served%d:%d", &index, &bar); n != 2 {
		traced, known := namedRegions[name]
		if !known {
			return traced, nil, fmt.Errorf("no region %s", name)
		}
		return traced, h.boot.qemuTrace(h.t, traced), nil
	}
	traced.bar = bar
	if board, ok := strings.CutPrefix(h.boot.servedDevices[index][0], "mock:"); ok {
		if b := chips.BoardByName(board); b != nil {
			traced.vendor, traced.device = b.Vendor, b.Device
		}
	}
	return traced, h.boot.servedTrace(h.t, index, bar), nil
}

// requireTraces requires that the trace of each region has the accesses of all replays of the
// machine's scenarios.
func (h *hostRun) requireTraces(names []string) error {
	for _, name := range names {
		traced, trace, err := h.trace(name)
		if err != nil {
			return err
		}
		h.boot.requireTrace(h.t, traced, trace)
	}
	return nil
}

// requireAccesses requires that the trace has the accesses of a run of an image.
func (h *hostRun) requireAccesses(args []string) error {
	traced, trace, err := h.trace(args[0])
	if err != nil {
		return err
	}
	if part, ok := h.recorded[traced]; ok {
		trace = part
	}
	f := mustLoad(h.t, readFile(h.t, args[1]), traced)
	for _, arg := range args[3:] {
		tensor, file, _ := strings.Cut(arg, "=")
		f.setInput(tensor, readFile(h.t, file))
	}
	f.requireRun(h.t, args[2], trace)
	h.t.Logf("evidence: %d accesses in QEMU's trace as the image says", len(trace))
	return nil
}

// requireStores requires that the stores to an offset begin with the given values. More may follow
// only after a value `...`.
func (h *hostRun) requireStores(args []string) error {
	traced, trace, err := h.trace(args[0])
	if part, ok := h.recorded[traced]; ok {
		trace = part
	}
	var got []string
	for _, a := range trace {
		if a.store && fmt.Sprintf("%#x", a.offset) == args[1] {
			got = append(got, fmt.Sprintf("%#x", a.value))
		}
	}
	want := args[2:]
	if n := len(want) - 1; want[n] == "..." {
		want, got = want[:n], got[:min(n, len(got))]
	}
	if !slices.Equal(got, want) {
		err = errors.Join(err, fmt.Errorf("stored %v", got))
	}
	return err
}

// countAccesses requires that many accesses to a region are traced, or stores of a value.
func (h *hostRun) countAccesses(args []string) error {
	_, trace, err := h.trace(args[1])
	count := 0
	for _, a := range trace {
		if len(args) == 2 || a.store && fmt.Sprintf("%#x", a.offset) == args[2] &&
			fmt.Sprintf("%#x", a.value) == args[3] {
			count++
		}
	}
	if fewest, _ := strconv.Atoi(args[0]); count < fewest {
		err = errors.Join(err, fmt.Errorf("%d accesses", count))
	}
	return err
}

// freeBits are the bits of values that may differ between QEMU's devices and their mocks, by
// offset: addresses of memory, and bits in which versions of QEMU differ. QEMU 7.2 and the mock
// set bit 7 of CAP.CSS (no I/O command set), QEMU 11.1 does not.
var freeBits = map[region]map[uint64]uint64{edu: {0x80: ^uint64(0), 0x88: ^uint64(0)},
	nvmeRegion: {0: 1 << 44, 0x28: ^uint64(0), 0x30: ^uint64(0)}}

// requireAlike compares the accesses to QEMU's own device with those to a served device.
func (h *hostRun) requireAlike(args []string) error {
	traced, qemus, err := h.trace(args[0])
	_, served, servedErr := h.trace(args[1])
	if err = errors.Join(err, servedErr); err != nil {
		return err
	}
	qemus, served = dropRepeatedLoads(qemus, freeBits[traced]), dropRepeatedLoads(served,
		freeBits[traced])
	for i := range min(len(qemus), len(served)) {
		if qemus[i] != served[i] {
			return fmt.Errorf("access %d: QEMU's device %v, the mock %v", i, qemus[i], served[i])
		}
	}
	if len(qemus) == 0 || len(qemus) != len(served) {
		return fmt.Errorf("QEMU's device had %d accesses, the mock %d", len(qemus), len(served))
	}
	return nil
}

// dropRepeatedLoads returns the trace with only the last load of each series of equal loads, and
// without the free bits of values.
func dropRepeatedLoads(trace []access, freeBits map[uint64]uint64) (out []access) {
	for _, a := range trace {
		a.value &^= freeBits[a.offset]
		if n := len(out); n > 0 && !a.store && !out[n-1].store && a.offset == out[n-1].offset &&
			a.width == out[n-1].width {
			out = out[:n-1]
		}
		out = append(out, a)
	}
	return out
}

// servedSocket matches the socket of a served device in QEMU's trace.
var servedSocket = regexp.MustCompile(`vfio-user:([^:]+/(\d+)):region`)

// servedTrace returns the accesses to a BAR of a served device, by its index, in QEMU's trace.
func (m *machine) servedTrace(t *testing.T, device int, bar uint8) []access {
	t.Helper()
	log := readFile(t, m.traceFile)
	sockets := map[string]string{}
	for _, match := range servedSocket.FindAllSubmatch(log, -1) {
		sockets[string(match[2])] = string(match[1])
	}
	trace, err := parseServedTrace(bytes.NewReader(log),
		servedRegionName(sockets[strconv.Itoa(device)], bar))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}
