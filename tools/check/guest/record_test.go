package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/capture/record"
)

// addRecorder adds lm to the guest, and enables QEMU's trace.
func addRecorder(t *testing.T, m *machine) {
	t.Helper()
	m.addFile(t, "/lm", buildForGuest(t, "lightmetal/tools/lm"))
	m.processors = 2 // threads of programs, devices and the recorder run in parallel
	m.enableTrace()
}

// addProgram compiles a C program, static, and adds it to the guest: NAME.c as /NAME.
func (m *machine) addProgram(t *testing.T, source string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("aarch64-linux-gnu-gcc", "-static", "-O2", "-o", program, source,
		"-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("aarch64-linux-gnu-gcc %s: %v\n%s", source, err, out)
	}
	m.addFile(t, "/"+strings.TrimSuffix(filepath.Base(source), ".c"), program)
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

// countEqualAccesses requires that the recorded accesses to a BAR are the first ones of QEMU's
// trace, with the same order, widths, offsets and values, and returns their number in the trace.
// QEMU splits an unaligned store into stores of bytes, and an unaligned load into two loads.
func countEqualAccesses(records []record.Record, traced region, trace []access) (at int,
	err error) {
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
			var a access
			if at < len(trace) {
				a = trace[at]
			}
			if at++; a.store != (r.Kind == record.BarWrite) || a.offset != first+n*partWidth ||
				uint64(a.width) != partWidth {
				return 0, fmt.Errorf("access %d, line %d of the record: %x of %d bytes at %#x; "+
					"QEMU traced %v", count, r.Line, r.Data, width, r.Offset, a)
			}
			data = append(data, binary.LittleEndian.AppendUint64(nil, a.value)[:partWidth]...)
		}
		if data = data[r.Offset-first:][:width]; !bytes.Equal(data, r.Data) {
			return 0, fmt.Errorf("access %d, line %d of the record: %x at %#x; QEMU traced %x",
				count, r.Line, r.Data, r.Offset, data)
		}
	}
	if count == 0 {
		return 0, errors.New("no access is recorded")
	}
	return at, nil
}

// requireRecorded requires that the next accesses of QEMU's trace are those that the scenario has
// recorded, and writes its last record to $dir/record.
func (h *hostRun) requireRecorded(args []string) error {
	traced, trace, err := h.trace(args[0])
	if err != nil {
		return err
	}
	records, file := recordsOnConsole(h.t, h.boot.output[h.name])
	h.write("record", file)
	trace = trace[min(len(trace), h.boot.recorded[traced]):]
	count, err := countEqualAccesses(records, traced, trace)
	if err == nil {
		h.t.Logf("evidence: %d accesses of QEMU's own trace recorded", count)
		h.boot.recorded[traced] += count
		h.recorded[traced] = trace[:count]
	}
	return err
}

// saveRecord writes the last record to $dir/record.
func (h *hostRun) saveRecord([]string) error {
	_, file := recordsOnConsole(h.t, h.boot.output[h.name])
	h.write("record", file)
	return nil
}

// requireAnnounced requires that the record has the lines of a kind that the program has printed,
// as `= KIND ...`.
func (h *hostRun) requireAnnounced(args []string) error {
	lines := regexp.MustCompile(`= (`+args[0]+` .*)`).FindAllStringSubmatch(
		h.boot.output[h.name], -1)
	for _, line := range lines {
		if !strings.Contains(h.recordText(), "\n"+strings.TrimSpace(line[1])+"\n") {
			return fmt.Errorf("the record has no line %s", line[1])
		}
	}
	if len(lines) == 0 {
		return errors.New("nothing was announced")
	}
	return nil
}

// recordText returns the text of $dir/record.
func (h *hostRun) recordText() string { return gunzip(h.t, readFile(h.t, h.dir+"/record")) }

// requireInRecord requires consecutive lines among those lines of the record that begin with the
// same words. After the argument `only`, these must be all such lines.
func (h *hostRun) requireInRecord(want []string) error {
	only := want[0] == "only"
	if only {
		want = want[1:]
	}
	kind := func(line string) string { word, _, _ := strings.Cut(line, " "); return word }
	var lines []string
	for line := range strings.Lines(h.recordText()) {
		if slices.ContainsFunc(want, func(w string) bool { return kind(w) == kind(line) }) {
			lines = append(lines, line)
		}
	}
	for first := range max(0, len(lines)-len(want)+1) {
		if slices.EqualFunc(lines[first:][:len(want)], want, strings.HasPrefix) &&
			(!only || len(lines) == len(want)) {
			return nil
		}
	}
	return fmt.Errorf("the record has\n%s", strings.Join(lines, ""))
}

func (h *hostRun) matchRecord(args []string) error {
	if text := h.recordText(); !regexp.MustCompile(args[0]).MatchString(text) {
		return fmt.Errorf("the record has\n%s", text)
	}
	return nil
}

func (h *hostRun) requireNotInRecord(args []string) error {
	if text := h.recordText(); strings.Contains(text, args[0]) {
		return fmt.Errorf("the record has\n%s", text)
	}
	return nil
}

// requireEvents requires that the record has the stores to BARs and the changes of host memory
// that the program has announced.
func (h *hostRun) requireEvents([]string) error {
	records, _ := recordsOnConsole(h.t, h.boot.output[h.name])
	got := sortBetweenStores(formatEvents(records))
	want := sortBetweenStores(expectedEvents(h.boot.output[h.name]))
	if !slices.Equal(got, want) || len(want) < 20 {
		return fmt.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return nil
}

// formatEvents returns the stores to BARs and the changes of host memory in a record, in the
// format that crowded.c prints.
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

// expectedEvent matches an event that a program prints because its record must have this event.
// The line may start with other text.
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

// requireSentAgain compares the packets of two files: COUNT in the first, FEWEST or more in the
// second, all equal to those of the first.
func (h *hostRun) requireSentAgain(args []string) error {
	first, again := readPcap(h.t, args[0]), readPcap(h.t, args[1])
	count, _ := strconv.Atoi(args[2])
	fewest, err := strconv.Atoi(args[3])
	if err != nil || len(first) != count || len(again) < fewest || len(again) > count {
		return fmt.Errorf("%d packets were sent under the recorder, %d by the replay", len(first),
			len(again))
	}
	for i := range again {
		if !bytes.Equal(again[i], first[i]) {
			return fmt.Errorf("packet %d is %x, want %x", i, again[i], first[i])
		}
	}
	h.t.Logf("evidence: %d packets that a replay of a recording sends (of %d)", len(again), count)
	return nil
}

// readPcap returns the packets of a file in the format pcap. The file has a header of 24 bytes.
// Each packet has a header of 16 bytes, whose third word is the length of the packet.
func readPcap(t *testing.T, path string) (list [][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || len(data) < 24 {
		t.Fatalf("the packet file has %d bytes, error %v", len(data), err)
	}
	for data = data[24:]; len(data) >= 16; {
		n := 16 + int(binary.NativeEndian.Uint32(data[8:]))
		list, data = append(list, data[16:n]), data[n:]
	}
	return list
}
