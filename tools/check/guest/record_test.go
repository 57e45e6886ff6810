package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
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

// cmb is memory of an NVMe controller, in a BAR: of any width, and every access
// to it is in QEMU's trace.
var cmb = region{"nvme-cmb", 0x8086, 0x5845, 2, 1 << 20}

// withRecorder adds lm, and has QEMU trace.
func withRecorder(t *testing.T, m *machine) {
	t.Helper()
	m.add(t, "/lm", static(t, "lightmetal/tools/lm"))
	m.processors = 2 // threads of programs, devices and the recorder run at once
	m.traceIt()
}

// addProgram puts a program in C, static, at /program.
func (m *machine) addProgram(t *testing.T, source string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("aarch64-linux-gnu-gcc", "-static", "-O2", "-o", program, source,
		"-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.add(t, "/program", program)
}

// recordsOf returns the records of the console, one after the other, and the file of the
// last one.
func recordsOf(t *testing.T, console string) (all []record.Record, file []byte) {
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
		if err != nil {
			t.Fatal(err)
		}
		capture, err := record.Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		all, file = append(all, capture.Records...), data
		text.Reset()
	}
	return all, file
}

// equalToTrace compares what was recorded of a BAR with what QEMU saw: order, width,
// address and value. QEMU cuts a store that is not aligned into bytes,
// and makes two loads of one.
func equalToTrace(t *testing.T, records []record.Record, of region, trace []access) {
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
		if r.Kind != record.BarRead && r.Kind != record.BarWrite || r.Bar != of.bar {
			continue
		}
		count++
		width := uint64(len(r.Data))
		first, part, parts := r.Offset, width, uint64(1)
		if r.Offset%width != 0 && r.Kind == record.BarWrite {
			part, parts = 1, width
		} else if r.Offset%width != 0 {
			first, parts = r.Offset&^(width-1), 2
		}
		var data []byte
		for n := range parts {
			a := next()
			if a.store != (r.Kind == record.BarWrite) || a.offset != first+n*part ||
				uint64(a.width) != part {
				t.Fatalf("access %d, line %d of the record: %x of %d bytes at %#x; QEMU saw %v",
					count, r.Line, r.Data, width, r.Offset, a)
			}
			data = append(data, binary.LittleEndian.AppendUint64(nil, a.value)[:part]...)
		}
		if data = data[r.Offset-first:][:width]; !bytes.Equal(data, r.Data) {
			t.Fatalf("access %d, line %d of the record: %x at %#x; QEMU saw %x", count, r.Line,
				r.Data, r.Offset, data)
		}
	}
	if at != len(trace) || count == 0 {
		t.Fatalf("%d accesses recorded, which are %d of QEMU's; it saw %d", count, at, len(trace))
	}
	t.Logf("evidence: %d recorded accesses equal to QEMU's own trace", count)
}

// recordings are the ways to a device for a program: a backend, and the steps that make the device
// ready. DEVICE is its name in scenarios.
var recordings = map[string]struct{ backend, steps string }{
	"vfio": {"vfio", "prepare-dpdk\nready DEVICE\n"},
	"tt":   {"tt", "ready\n"},
	// Modules that bind a card which has its registers in BAR 0, as edu, and any card.
	"uio": {"pci", "modules uio.ko uio_cif.ko\nbind hilscher @DEVICE\n"},
	"uio_pci_generic": {"pci", "prepare-dpdk\nmodules uio.ko uio_pci_generic.ko\n" +
		"bind uio_pci_generic @DEVICE\n"},
}

// recordedIn runs programs of the guest under lm record, on the device that has a region, by a
// resource or in one of recordings; a time after that lets the programs start again if they do not
// end within it. The programs are words, with ; between them: PATH is the path of the resource,
// DEVICE the device's address, and ADDRESS that of its BAR 0. Flags of lm may come first.
func recordedIn(t *testing.T, of region, resource string, setUp func(*machine),
	words ...string) (file []byte, trace []access) {
	t.Helper()
	resource, limit, _ := strings.Cut(resource, " ")
	way, known := recordings[resource]
	if !known {
		way.backend, way.steps = "pci", "enable @DEVICE\n"
	}
	device := map[region]string{edu: "edu", cmb: "cmb", nvmeBar: "nvme"}[of]
	if device == "" {
		device = "slot6"
	}
	steps := strings.ReplaceAll(way.steps, "DEVICE", device) + recordSteps(device, resource, limit,
		words)
	m, console := inside(t, func(m *machine) {
		withRecorder(t, m)
		setUp(m)
	}, way.backend, steps)
	records, file := recordsOf(t, console)
	trace = m.qemuTrace(t, of)
	equalToTrace(t, records, of, trace)
	return file, trace
}

// recordSteps are the steps that record programs.
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

const patterns = "../../capture/recorder/testdata/patterns.c"

// cmbDevice are QEMU's arguments for the controller that has cmb.
var cmbDevice = []string{
	"-drive", "if=none,id=cmb,format=raw,file.driver=null-co,file.size=1M",
	"-device", "nvme,addr=6,serial=cmb,drive=cmb,cmb_size_mb=1,use-intel-id=on",
}

func onMemory(t *testing.T, scenario string) {
	t.Helper()
	recordedIn(t, cmb, "resource2", func(m *machine) {
		m.addProgram(t, patterns)
		m.extra = append(m.extra, cmbDevice...)
	}, "/program", "PATH", scenario)
}

// TestRecordedListIsWhatReachedTheDevice for accesses of all widths.
func TestRecordedListIsWhatReachedTheDevice(t *testing.T) {
	t.Parallel()
	onMemory(t, "volatile")
}

// TestReplayIsRecordedByEachLane records a program in Go, lmrun, on registers:
// by sysfs and by VFIO. What is imported of the record does the same again.
func TestReplayIsRecordedByEachLane(t *testing.T) {
	t.Parallel()
	file, err := lmb.Encode(identified())
	if err != nil {
		t.Fatal(err)
	}
	for _, lane := range lanes {
		t.Run(lane.name, func(t *testing.T) {
			resource := "resource0"
			if lane.name == "vfio" {
				resource = "vfio"
			}
			record, trace := recordedIn(t, edu, resource, func(m *machine) {
				lane.setUp(t, m)
				m.files["/image.lmb"] = file
			}, "/lmrun", "-device", lane.name+":DEVICE", "/image.lmb")
			if text := configurationIn(t, record); !strings.Contains(text, "CR 4 2 ") {
				t.Errorf("configuration space:\n%s", text)
			}
			image, _, err := importer.Import(bytes.NewReader(record),
				importer.Options{From: importer.FromRecord})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := expand(image, "main", edu, nil)
			if err != nil {
				t.Fatal(err)
			}
			if failed, rest, err := plan.match(trace); failed != "" || len(rest) != 0 ||
				err != nil {
				t.Errorf("the image stops at %q, leaves %d accesses: %v", failed, len(rest), err)
			}
		})
	}
}

// configurationIn is what a record has of configuration space.
func configurationIn(t *testing.T, file []byte) string {
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

// TestOtherWaysToABarAreRecorded: physical memory, UIO, and a device that was
// reset and configured by its files, which the record has in order.
func TestOtherWaysToABarAreRecorded(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"mem", "uio", "files"} {
		t.Run(way, func(t *testing.T) {
			file, _ := recordedIn(t, edu, map[bool]string{true: "uio",
				false: "resource0"}[way == "uio"], func(m *machine) {
				m.addModules(t, "LM_GUEST_MODULES")
				m.addProgram(t, "../../capture/recorder/testdata/ways.c")
			}, "/program", way, "DEVICE", "0000:00:04.0")
			if way != "files" {
				return
			}
			if text := configurationIn(t,
				file); text != "CR 4 2 0200\nCW 4 2 0600\nCR 10 4 00000010\nCR 14 4 00000000\n" {
				t.Errorf("configuration space:\n%s", text)
			}
			_, report, err := importer.Import(bytes.NewReader(file),
				importer.Options{From: importer.FromRecord})
			if err != nil || !strings.Contains(report.String(),
				"stores to reset of device 0000:00:04.0") {
				t.Errorf("%v, %v", report, err)
			}
		})
	}
}

// TestReplayByTheVendorsDriverIsRecorded: a program that has Tenstorrent's own
// driver point its windows. What is imported of that computes what the program
// did, from other input, and says what the driver was asked for.
func TestReplayByTheVendorsDriverIsRecorded(t *testing.T) {
	t.Parallel()
	onDriver(t, func(t *testing.T, m *machine, c *card) {
		withRecorder(t, m)
		path, _ := made(t, append([]string{"import"}, c.captures["twoop"]...)...)
		m.add(t, "/image.lmb", path)
	}, func(*card) string {
		return "ready\nrecord /lmrun -device tt:/dev/tenstorrent/0 /image.lmb\n"
	},
		func(t *testing.T, m *machine, c *card, console string) {
			_, file := recordsOf(t, console)
			flags := slices.Clone(c.captures["twoop"])
			flags[1], flags[len(flags)-1] = "record", saved(t, file)
			path, image := made(t, append([]string{"import"}, flags...)...)
			input, want := otherInput(image)
			a, d := saved(t, input), filepath.Join(t.TempDir(), "d")
			if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "replay", "--device",
				"mock:"+c.board, "--input", "a="+a, "--output", "d="+d,
				path).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got, err := os.ReadFile(d); err != nil || !bytes.Equal(got, want) {
				t.Errorf("another output, %v", err)
			}
		})
}

// nvmeBar is QEMU's NVMe controller.
var nvmeBar = region{"nvme", 0x1b36, 0x0010, 0, 16 << 10}

// TestBlockDriverOfQemuIsRecorded records qemu-io, whose driver of NVMe is a
// program's own: it maps the BAR twice, the doorbells to write only. What is
// imported of that, host memory and all, replays on the mock and on QEMU's
// controller. For a kernel that does not report who writes, --watch names the completion
// queues. What the controller says of itself is another's on the mock, and is
// ignored, as is how the run before left CC.
//
// Without the recorder too it hangs here in some of its runs, before its first
// request (3 of 15 runs; with it 1 of 13), for want of an interrupt; then it is
// ended and begun again, and the records hold what it did until then.
func TestBlockDriverOfQemuIsRecorded(t *testing.T) {
	t.Parallel()
	qemuIO := []string{"--", "/usr/bin/qemu-io", "-f", "raw", "-c", "write -P 0x5a 0 4096", "-c",
		"read -P 0x5a 0 4096", "-c", "flush", "nvme://DEVICE/1"}
	for _, way := range []struct {
		name, kernel, modules string
		flags                 []string
	}{
		{"pages tell", "LM_GUEST_NEW_KERNEL", "LM_GUEST_NEW_MODULES",
			[]string{"--limit", "1000000"}},
		{"by name", "LM_GUEST_KERNEL", "LM_GUEST_MODULES",
			[]string{"--watch", "0x91000-0x91fff,0x113000-0x113fff"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			file, _ := recordedIn(t, nvmeBar, "vfio 20s", func(m *machine) {
				m.virt, m.kernel = iommu, tool(t, way.kernel)
				m.addModules(t, way.modules)
				m.addDebian(t, "/usr/bin/qemu-io")
			}, append(way.flags, qemuIO...)...)
			o := importer.Options{From: importer.FromRecord,
				Ignore: []importer.Range{{Place: importer.Place{Bus: true}, First: 0x7ffffff000,
					Last: 0x7fffffffff}, {First: 0x14, Last: 0x17}}}
			image, report, err := importer.Import(bytes.NewReader(file), o)
			if err != nil {
				t.Fatal(err)
			}
			// it makes the controller a master
			if text := configurationIn(t, file); !strings.Contains(text,
				"CR 4 2 0200\nCW 4 2 0600\n") {
				t.Errorf("configuration space:\n%s", text)
			}
			if text := report.String(); !strings.Contains(text, "resets device 0000:00:04.0") ||
				!strings.Contains(text, "store to PCI configuration space") {
				t.Error(text)
			}
			path := written(t, image)
			if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "replay", "--device", "mock:nvme",
				"--loop", "2", path).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			onDisk(t, replayOnQemu(t, path), bytes.Repeat([]byte{0x5a}, 4096), 0)
		})
	}
}

// replayOnQemu has a guest with huge pages replay an image, twice.
func replayOnQemu(t *testing.T, path string) *machine {
	t.Helper()
	var console bytes.Buffer
	m := &machine{kernel: tool(t, "LM_GUEST_KERNEL"), lmrun: tool(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, kernelArgs: " hugepages=16",
		dir: t.TempDir(), timeout: bootLimit, stdout: &console}
	if exit, err := m.replay(path, []string{"-loop", "2"}); err != nil || exit != 0 {
		t.Fatalf("exit %d, %v\n%s", exit, err, &console)
	}
	return m
}

// TestRecordedTrialsAreWhatReachedTheDevice for copies of all lengths, 20
// threads, and signals at every access: minutes.
func TestRecordedTrialsAreWhatReachedTheDevice(t *testing.T) {
	t.Parallel()
	if os.Getenv("LM_RECORD_TRIALS") != "1" {
		t.Skip("trials of minutes: ./build.sh record-trials")
	}
	for _, scenario := range []string{"bulk", "threads", "signals"} {
		t.Run(scenario, func(t *testing.T) { onMemory(t, scenario) })
	}
	for _, card := range []networkCard{e1000, vmxnet3, e1000e.byUIO(), vmxnet3.byUIO(),
		virtio.byUIO()} {
		packets(t, card)
	}
}

// onNewProcessor records the program of scalable.c on QEMU's `-cpu max`.
func onNewProcessor(t *testing.T, resource, scenario string, setUp func(*machine)) {
	t.Helper()
	recordedIn(t, cmb, resource, func(m *machine) {
		m.addProgram(t, "../../capture/recorder/testdata/scalable.c")
		m.extra = append(m.extra, cmbDevice...)
		m.extra = append(m.extra, "-cpu", "max") // QEMU uses the last one
		setUp(m)
	}, "/program", "PATH", scenario)
}

// TestRecordedScalableVectorsAreWhatReachedTheDevice records SVE: each kind of
// access with vectors of 16, 64 and 256 bytes, and libc's copies. The program
// itself compares registers and bytes with those of ordinary memory. Accesses
// that are not aligned, as those of libc, are cut otherwise by QEMU 11.
func TestRecordedScalableVectorsAreWhatReachedTheDevice(t *testing.T) {
	t.Parallel()
	t.Run("each", func(t *testing.T) {
		onNewProcessor(t, "resource2", "sve", func(*machine) {})
	})
	t.Run("library", func(t *testing.T) {
		onNewProcessor(t, "resource2_wc", "library", func(*machine) {})
	})
}

// TestRecordedCopyInstructionsAreWhatReachedTheDevice records FEAT_MOPS, in the
// same way: copies of all stages, in both directions, and sets. Programs may use
// it from QEMU 8.2 and Linux 6.5 on.
func TestRecordedCopyInstructionsAreWhatReachedTheDevice(t *testing.T) {
	t.Parallel()
	onNewProcessor(t, "resource2", "mops", func(m *machine) {
		m.kernel, m.qemu = tool(t, "LM_GUEST_NEW_KERNEL"), tool(t, "LM_GUEST_QEMU")
	})
}
