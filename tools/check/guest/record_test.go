package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/capture/importer"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/lmb"
)

// cmbRegion is the controller memory buffer of an NVMe controller: memory in a BAR that accepts all
// widths. QEMU traces every access to it.
var cmbRegion = region{"nvme-cmb", 0x8086, 0x5845, 2, 1 << 20}

// addRecorder adds lm to the guest, and enables QEMU's trace.
func addRecorder(t *testing.T, m *machine) {
	t.Helper()
	m.addFile(t, "/lm", buildForGuest(t, "lightmetal/tools/lm"))
	m.processors = 2 // threads of programs, devices and the recorder run in parallel
	m.enableTrace()
}

// addProgram compiles a C program, static, and adds it to the guest as /program.
func (m *machine) addProgram(t *testing.T, source string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("aarch64-linux-gnu-gcc", "-static", "-O2", "-o", program, source,
		"-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("aarch64-linux-gnu-gcc %s: %v\n%s", source, err, out)
	}
	m.addFile(t, "/program", program)
}

// recordsOnConsole returns the records of all record files on the console, in order, and the last
// file.
func recordsOnConsole(t *testing.T, console string) (all []record.Record, file []byte) {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(console) {
		part, ok := strings.CutPrefix(strings.TrimSpace(line), "record: ")
		if part != "end" {
			if ok {
				text.WriteString(part)
			}
			continue
		}
		data, err := base64.StdEncoding.DecodeString(text.String())
		text.Reset()
		if err != nil {
			t.Fatal(err)
		}
		capture, err := record.Read(bytes.NewReader(data))
		if errors.Is(err, record.ErrEmpty) {
			continue // the program was killed before it mapped the device
		}
		if err != nil {
			t.Fatal(err)
		}
		all, file = append(all, capture.Records...), data
	}
	return all, file
}

// requireEqualToTrace requires that the recorded accesses to a BAR and QEMU's trace have the same
// order, widths, offsets and values. QEMU splits an unaligned store into stores of bytes, and an
// unaligned load into two loads.
func requireEqualToTrace(t *testing.T, records []record.Record, traced region, trace []access) {
	t.Helper()
	at := 0
	next := func() (a access) {
		if at < len(trace) {
			a = trace[at]
		}
		at++
		return a
	}
	count := 0
	for _, r := range records {
		if r.Kind != record.BarRead && r.Kind != record.BarWrite || r.Bar != traced.bar {
			continue
		}
		count++
		width := uint64(len(r.Data))
		first, partWidth, partCount := r.Offset, width, uint64(1)
		if r.Offset%width != 0 && r.Kind == record.BarWrite {
			partWidth, partCount = 1, width
		} else if r.Offset%width != 0 {
			first, partCount = r.Offset&^(width-1), 2
		}
		var data []byte
		for n := range partCount {
			a := next()
			if a.store != (r.Kind == record.BarWrite) || a.offset != first+n*partWidth ||
				uint64(a.width) != partWidth {
				t.Fatalf("access %d, line %d of the record: %x of %d bytes at %#x; QEMU traced %v",
					count, r.Line, r.Data, width, r.Offset, a)
			}
			data = append(data, binary.LittleEndian.AppendUint64(nil, a.value)[:partWidth]...)
		}
		if data = data[r.Offset-first:][:width]; !bytes.Equal(data, r.Data) {
			t.Fatalf("access %d, line %d of the record: %x at %#x; QEMU traced %x", count, r.Line,
				r.Data, r.Offset, data)
		}
	}
	if at != len(trace) || count == 0 {
		t.Fatalf("%d accesses recorded, which are %d accesses of QEMU; QEMU traced %d", count, at,
			len(trace))
	}
	t.Logf("evidence: %d recorded accesses equal to QEMU's own trace", count)
}

// recordingBackends are the ways in which a recorded program accesses a device: a backend, and the
// steps that prepare the device. DEVICE is replaced by the name of the device in scenarios.
var recordingBackends = map[string]struct{ backend, steps string }{
	"vfio": {"vfio", "prepare-dpdk\nready DEVICE\n"},
	"tt":   {"tt", "ready\n"},
	// The module uio_cif binds a card that has its registers in BAR 0, like edu. The module
	// uio_pci_generic binds any card.
	"uio": {"pci", "modules uio.ko uio_cif.ko\nbind hilscher @DEVICE\n"},
	"uio_pci_generic": {"pci", "prepare-dpdk\nmodules uio.ko uio_pci_generic.ko\n" +
		"bind uio_pci_generic @DEVICE\n"},
}

// recordPrograms runs programs of the guest under `lm record`, on the device that has the traced
// region. It requires that the record and QEMU's trace have the same accesses, and returns the
// record file and the trace.
//
// The parameter `resource` is a key of recordingBackends, or the name of a resource file in sysfs.
// A time may follow: if the programs do not end within that time, they are killed and started
// again. `words` are the words of the programs, separated by ";". PATH is replaced by the path of
// the resource file, DEVICE by the device's address, and ADDRESS by the address of its BAR 0. Flags
// of `lm record` may come first.
func recordPrograms(t *testing.T, traced region, resource string, setUp func(*machine),
	words ...string) (file []byte, trace []access) {
	t.Helper()
	resource, limit, _ := strings.Cut(resource, " ")
	how, isListed := recordingBackends[resource]
	if !isListed {
		how.backend, how.steps = "pci", "enable @DEVICE\n"
	}
	device := map[region]string{edu: "edu", cmbRegion: "cmb", nvmeBar: "nvme"}[traced]
	if device == "" {
		device = "slot6"
	}
	steps := strings.ReplaceAll(how.steps, "DEVICE", device) + recordSteps(device, resource, limit,
		words)
	m, console := runInside(t, func(m *machine) {
		addRecorder(t, m)
		setUp(m)
	}, how.backend, steps)
	records, file := recordsOnConsole(t, console)
	trace = m.qemuTrace(t, traced)
	requireEqualToTrace(t, records, traced, trace)
	return file, trace
}

// recordSteps returns the text of the steps that record programs.
func recordSteps(device, resource, limit string, words []string) string {
	step := "record"
	if limit != "" {
		step = "record-again " + limit
	}
	names := strings.NewReplacer("PATH", "/sys/bus/pci/devices/@"+device+"/"+resource, "DEVICE",
		"@"+device, "ADDRESS", "%"+device)
	steps := step
	for _, word := range words {
		if word == ";" {
			steps += "\n" + step
			continue
		}
		steps += fmt.Sprintf(" %q", names.Replace(word))
	}
	return steps + "\n"
}

// patternsSource is the path of a program that makes accesses of all kinds.
const patternsSource = "../../capture/recorder/testdata/patterns.c"

// cmbDevice are QEMU's arguments for the controller that has cmbRegion.
var cmbDevice = []string{
	"-drive", "if=none,id=cmb,format=raw,file.driver=null-co,file.size=1M",
	"-device", "nvme,addr=6,serial=cmb,drive=cmb,cmb_size_mb=1,use-intel-id=on",
}

// recordPatterns records the program patternsSource, which runs the given scenario on cmbRegion.
func recordPatterns(t *testing.T, scenario string) {
	t.Helper()
	recordPrograms(t, cmbRegion, "resource2", func(m *machine) {
		m.addProgram(t, patternsSource)
		m.extraArgs = append(m.extraArgs, cmbDevice...)
	}, "/program", "PATH", scenario)
}

// TestRecordedAccessesAreWhatReachedTheDevice records accesses of all widths.
func TestRecordedAccessesAreWhatReachedTheDevice(t *testing.T) {
	t.Parallel()
	recordPatterns(t, "volatile")
}

// TestReplayIsRecordedWithEachBackend records lmrun, a Go program, on registers of edu: through
// sysfs and through VFIO. The imported image must require the recorded accesses.
func TestReplayIsRecordedWithEachBackend(t *testing.T) {
	t.Parallel()
	file, err := lmb.Encode(factorialImage())
	if err != nil {
		t.Fatal(err)
	}
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) {
			resource := "resource0"
			if backend.name == "vfio" {
				resource = "vfio"
			}
			record, trace := recordPrograms(t, edu, resource, func(m *machine) {
				backend.setUp(t, m)
				m.files["/image.lmb"] = file
			}, "/lmrun", "-device", backend.name+":DEVICE", "/image.lmb")
			if text := configAccesses(t, record); !strings.Contains(text, "CR 4 2 ") {
				t.Errorf("recorded accesses to configuration space, want CR 4 2:\n%s", text)
			}
			image, _, err := importer.Import(bytes.NewReader(record),
				importer.Options{From: importer.FromRecord})
			if err != nil {
				t.Fatal(err)
			}
			mustLoadImage(t, image, edu).requireRun(t, "main", trace)
		})
	}
}

// configAccesses returns the accesses to configuration space in a record, one in each line.
func configAccesses(t *testing.T, file []byte) string {
	t.Helper()
	capture, err := record.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range capture.Records {
		if kind := map[record.Kind]string{record.ConfigRead: "CR",
			record.ConfigWrite: "CW"}[r.Kind]; kind != "" {
			fmt.Fprintf(&b, "%s %x %d %x\n", kind, r.Offset, len(r.Data), r.Data)
		}
	}
	return b.String()
}

// TestOtherMappingsOfABarAreRecorded records a program that maps a BAR through physical memory or
// UIO. Another case resets and configures the device through its files in sysfs, which the record
// must have in order. In the last case, the program hangs, is killed and is started again: the
// records of both runs together must be equal to QEMU's trace.
func TestOtherMappingsOfABarAreRecorded(t *testing.T) {
	t.Parallel()
	resources := map[string]string{"mem": "resource0", "uio": "uio", "files": "resource0",
		"hangs": "resource0 4s"}
	for mode, resource := range resources {
		t.Run(mode, func(t *testing.T) {
			file, trace := recordPrograms(t, edu, resource, func(m *machine) {
				m.addModules(t, "LM_GUEST_MODULES")
				m.addProgram(t, "../../capture/recorder/testdata/ways.c")
			}, "/program", mode, "DEVICE", "0000:00:04.0")
			started := 0
			for _, a := range trace {
				if a.store && a.offset == 8 {
					started++
				}
			}
			if (started > 1) != (mode == "hangs") {
				t.Errorf("the program started %d factorials; want several only in mode hangs",
					started)
			}
			if mode != "files" {
				return
			}
			if text := configAccesses(t,
				file); text != "CR 4 2 0200\nCW 4 2 0600\nCR 10 4 00000010\nCR 14 4 00000000\n" {
				t.Errorf("configuration space:\n%s", text)
			}
			_, report, err := importer.Import(bytes.NewReader(file),
				importer.Options{From: importer.FromRecord})
			if err != nil || !strings.Contains(report.String(),
				"stores to reset of device 0000:00:04.0") {
				t.Errorf("import: error %v, or the report has no stores to reset:\n%v", err, report)
			}
		})
	}
}

// TestReplayThroughTheVendorsDriverIsRecorded records lmrun on Tenstorrent's driver, which programs
// the TLB windows. The imported image must compute the right output from another input.
func TestReplayThroughTheVendorsDriverIsRecorded(t *testing.T) {
	t.Parallel()
	runOnVendorDriver(t, func(t *testing.T, m *machine, c *chip) {
		addRecorder(t, m)
		path, _ := makeImage(t, append([]string{"import"}, c.captures["twoop"]...)...)
		m.addFile(t, "/image.lmb", path)
	}, func(*chip) string {
		return "ready\nrecord /lmrun -device tt:/dev/tenstorrent/0 /image.lmb\n"
	},
		func(t *testing.T, m *machine, c *chip, console string) {
			_, file := recordsOnConsole(t, console)
			flags := slices.Clone(c.captures["twoop"])
			flags[1], flags[len(flags)-1] = "record", writeTempImage(t, file)
			path, image := makeImage(t, append([]string{"import"}, flags...)...)
			input, want := newTwoopInput(image)
			a, d := writeTempImage(t, input), filepath.Join(t.TempDir(), "d")
			if out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "replay", "--device",
				"mock:"+c.board, "--input", "a="+a, "--output", "d="+d,
				path).CombinedOutput(); err != nil {
				t.Fatalf("lm replay: %v\n%s", err, out)
			}
			if got, err := os.ReadFile(d); err != nil || !bytes.Equal(got, want) {
				t.Errorf("output d has other values than expected, or error %v", err)
			}
		})
}

// nvmeBar is the BAR of QEMU's NVMe controller.
var nvmeBar = region{"nvme", 0x1b36, 0x0010, 0, 16 << 10}

// TestBlockDriverOfQemuIsRecorded records qemu-io, which has an NVMe driver in user space. The
// driver maps the BAR twice, and maps the doorbells for writing only. The imported image, which
// includes host memory, is replayed on the mock and on QEMU's controller. For a kernel that does
// not report which process writes to a page, the flag --watch names the completion queues. The
// import ignores the controller's identification, which is different on the mock, and the first
// value of the register CC, which depends on the previous run.
//
// Some runs of qemu-io hang before the first request, because an interrupt is missing: 3 of 15
// runs without the recorder, and 1 of 13 with it. Then qemu-io is killed and started again, and
// the records include the accesses up to that time.
func TestBlockDriverOfQemuIsRecorded(t *testing.T) {
	t.Parallel()
	qemuIO := []string{"--", "/usr/bin/qemu-io", "-f", "raw", "-c", "write -P 0x5a 0 4096", "-c",
		"read -P 0x5a 0 4096", "-c", "flush", "nvme://DEVICE/1"}
	for _, variant := range []struct {
		name, kernel, modules string
		flags                 []string
	}{
		{"kernel reports writers", "LM_GUEST_NEW_KERNEL", "LM_GUEST_NEW_MODULES",
			[]string{"--limit", "1000000"}},
		{"watched by address", "LM_GUEST_KERNEL", "LM_GUEST_MODULES",
			[]string{"--watch", "0x91000-0x91fff,0x113000-0x113fff"}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			file, _ := recordPrograms(t, nvmeBar, "vfio 20s", func(m *machine) {
				m.machineType, m.kernel = iommuMachine, fromEnv(t, variant.kernel)
				m.addModules(t, variant.modules)
				m.addDebianPrograms(t, "/usr/bin/qemu-io")
			}, append(variant.flags, qemuIO...)...)
			o := importer.Options{From: importer.FromRecord,
				Ignore: []importer.Range{{Place: importer.Place{Bus: true}, First: 0x7ffffff000,
					Last: 0x7fffffffff}, {First: 0x14, Last: 0x17}}}
			image, report, err := importer.Import(bytes.NewReader(file), o)
			if err != nil {
				t.Fatal(err)
			}
			// The driver enables bus mastering of the controller.
			if text := configAccesses(t, file); !strings.Contains(text,
				"CR 4 2 0200\nCW 4 2 0600\n") {
				t.Errorf("configuration space:\n%s", text)
			}
			if text := report.String(); !strings.Contains(text, "resets device 0000:00:04.0") ||
				!strings.Contains(text, "store to PCI configuration space") {
				t.Error(text)
			}
			path := writeImage(t, image)
			if out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "replay", "--device",
				"mock:nvme", "--loop", "2", path).CombinedOutput(); err != nil {
				t.Errorf("lm replay: %v\n%s", err, out)
			}
			requireOnDisk(t, replayOnQemu(t, path), bytes.Repeat([]byte{0x5a}, 4096), 0)
		})
	}
}

// replayOnQemu replays an image twice, in a guest with huge pages.
func replayOnQemu(t *testing.T, path string) *machine {
	t.Helper()
	var console bytes.Buffer
	m := &machine{kernel: fromEnv(t, "LM_GUEST_KERNEL"), lmrun: fromEnv(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, kernelArgs: " hugepagesz=2M hugepages=16",
		dir: t.TempDir(), timeout: bootTimeout, stdout: &console}
	if exit, err := m.replay(path, []string{"-loop", "2"}); err != nil || exit != 0 {
		t.Fatalf("exit status %d, error %v; the console:\n%s", exit, err, &console)
	}
	return m
}

// TestRecordedTrialsAreWhatReachedTheDevice records copies of all lengths, a program with 20
// threads, and a program that gets a signal at every access. Then it records packets of further
// network cards. It takes minutes.
func TestRecordedTrialsAreWhatReachedTheDevice(t *testing.T) {
	t.Parallel()
	if os.Getenv("LM_RECORD_TRIALS") != "1" {
		t.Skip("takes minutes; ./build.sh record-trials runs it")
	}
	for _, scenario := range []string{"bulk", "threads", "signals"} {
		t.Run(scenario, func(t *testing.T) { recordPatterns(t, scenario) })
	}
	for _, card := range []networkCard{e1000, vmxnet3, e1000e.withUIO(), vmxnet3.withUIO(),
		virtio.withUIO()} {
		recordPackets(t, card)
	}
}

// recordOnMaxProcessor records the program scalable.c on QEMU's processor `-cpu max`.
func recordOnMaxProcessor(t *testing.T, resource, scenario string, setUp func(*machine)) {
	t.Helper()
	recordPrograms(t, cmbRegion, resource, func(m *machine) {
		m.addProgram(t, "../../capture/recorder/testdata/scalable.c")
		m.extraArgs = append(m.extraArgs, cmbDevice...)
		m.extraArgs = append(m.extraArgs, "-cpu", "max,pauth=off")
		setUp(m)
	}, "/program", "PATH", scenario)
}

// TestRecordedScalableVectorsAreWhatReachedTheDevice records SVE instructions: each kind of access
// with vectors of 16, 64 and 256 bytes, and the copies of libc. The program itself compares
// registers and bytes with those of accesses to ordinary memory. QEMU 11 splits unaligned accesses,
// such as those of libc, in another way.
func TestRecordedScalableVectorsAreWhatReachedTheDevice(t *testing.T) {
	t.Parallel()
	t.Run("each", func(t *testing.T) {
		recordOnMaxProcessor(t, "resource2", "sve", func(*machine) {})
	})
	t.Run("library", func(t *testing.T) {
		recordOnMaxProcessor(t, "resource2_wc", "library", func(*machine) {})
	})
}

// TestRecordedCopyInstructionsAreWhatReachedTheDevice records the instructions of FEAT_MOPS: copies
// of all stages in both directions, and sets. Programs can use them since QEMU 8.2 and Linux 6.5.
func TestRecordedCopyInstructionsAreWhatReachedTheDevice(t *testing.T) {
	t.Parallel()
	recordOnMaxProcessor(t, "resource2", "mops", func(m *machine) {
		m.kernel, m.qemu = fromEnv(t, "LM_GUEST_NEW_KERNEL"), fromEnv(t, "LM_GUEST_QEMU")
	})
}
