package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/lmb"
	"lightmetal/tools/record"
)

// cmb is memory of an NVMe controller, in a BAR: of any width, and every access
// to it is in QEMU's trace.
var cmb = region{"nvme-cmb", 0x8086, 0x5845, 2, 1 << 20}

// withRecorder adds lm, and has QEMU trace.
func withRecorder(t *testing.T, m *machine) {
	t.Helper()
	lm := filepath.Join(t.TempDir(), "lm")
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", lm, "lightmetal/tools/lm")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.add(t, "/lm", lm)
	m.trace = filepath.Join(m.dir, "trace")
}

// addProgram puts a program in C, static, at /program.
func (m *machine) addProgram(t *testing.T, source string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("aarch64-linux-gnu-gcc", "-static", "-O2", "-o", program, source, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.add(t, "/program", program)
}

// recordOf takes the record from the console.
func recordOf(t *testing.T, console string) *record.Capture {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(console) {
		if part, ok := strings.CutPrefix(line, "record: "); ok {
			text.WriteString(strings.TrimSpace(part))
		}
	}
	data, err := base64.StdEncoding.DecodeString(text.String())
	if err != nil {
		t.Fatal(err)
	}
	capture, err := record.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return capture
}

// equalToTrace holds what was recorded of a BAR against what QEMU saw: order,
// width, address and value. QEMU cuts a store that is not aligned into bytes,
// and makes two loads of one.
func equalToTrace(t *testing.T, capture *record.Capture, of region, trace []access) {
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
	for _, r := range capture.Records {
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
			if a.store != (r.Kind == record.BarWrite) || a.offset != first+n*part || uint64(a.width) != part {
				t.Fatalf("access %d, line %d of the record: %x of %d bytes at %#x; QEMU saw %v", count, r.Line, r.Data, width, r.Offset, a)
			}
			data = append(data, binary.LittleEndian.AppendUint64(nil, a.value)[:part]...)
		}
		if data = data[r.Offset-first:][:width]; !bytes.Equal(data, r.Data) {
			t.Fatalf("access %d, line %d of the record: %x at %#x; QEMU saw %x", count, r.Line, r.Data, r.Offset, data)
		}
	}
	if at != len(trace) || count == 0 {
		t.Fatalf("%d accesses recorded, which are %d of QEMU's; it saw %d", count, at, len(trace))
	}
	t.Logf("evidence: %d recorded accesses equal to QEMU's own trace", count)
}

// recordedIn runs a program of the guest under lm record, on the device that
// has a region.
func recordedIn(t *testing.T, of region, resource string, setUp func(*machine), args ...string) {
	t.Helper()
	m, console := inside(t, func(m *machine) {
		withRecorder(t, m)
		setUp(m)
	}, "record", append([]string{fmt.Sprintf("%04x:%04x", of.vendor, of.device), resource}, args...)...)
	log, err := os.Open(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	trace, err := parseTrace(log, of)
	if err != nil {
		t.Fatal(err)
	}
	equalToTrace(t, recordOf(t, console), of, trace)
}

const patterns = "../recorder/testdata/patterns.c"

func onMemory(t *testing.T, scenario string) {
	t.Helper()
	device := []string{"-drive", "if=none,id=cmb,format=raw,file.driver=null-co,file.size=1M", "-device", "nvme,addr=6,serial=cmb,drive=cmb,cmb_size_mb=1,use-intel-id=on"}
	recordedIn(t, cmb, "resource2", func(m *machine) {
		m.addProgram(t, patterns)
		m.extra = append(m.extra, device...)
	}, "/program", "PATH", scenario)
}

// TestRecordedListIsWhatReachedTheDevice for accesses of all widths.
func TestRecordedListIsWhatReachedTheDevice(t *testing.T) { onMemory(t, "volatile") }

// TestReplayIsRecordedByEachLane records a program in Go, lmrun, on registers:
// by sysfs and by VFIO.
func TestReplayIsRecordedByEachLane(t *testing.T) {
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
			recordedIn(t, edu, resource, func(m *machine) {
				lane.setUp(t, m)
				m.files["/image.lmb"] = file
			}, "/lmrun", "-device", lane.name+":DEVICE", "/image.lmb")
		})
	}
}

// TestRecordedTrialsAreWhatReachedTheDevice for copies of all lengths, 20
// threads, and signals at every access: minutes.
func TestRecordedTrialsAreWhatReachedTheDevice(t *testing.T) {
	if os.Getenv("LM_RECORD_TRIALS") != "1" {
		t.Skip("trials of minutes: ./build.sh record-trials")
	}
	for _, scenario := range []string{"bulk", "threads", "signals"} {
		t.Run(scenario, func(t *testing.T) { onMemory(t, scenario) })
	}
}
