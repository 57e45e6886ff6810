//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/check/effort"
)

// TestSeveralDevicesAndOpensAreInOneRecord reads the accesses of each device by its name.
func TestSeveralDevicesAndOpensAreInOneRecord(t *testing.T) {
	path, other := createCard(t), createCard(t)
	c, out := recorderCommand(t, nil,
		Options{Files: []File{{Path: other, Vendor: 0x1234, Device: 0x11e8}}}, path,
		compileProgram(t, edgesSource, "-O2"), "several", other)
	r := runCommand(t, c, path)
	if r.exit != 0 {
		t.Fatalf("exit status %d, want 0: %s", r.exit, r.messages)
	}
	// The program stores to the card, to the other device, to the card again, and loads from the
	// other device.
	list := printedAccesses(r.output)
	for name, want := range map[string][]string{"1af4:1110": {list[0], list[2]},
		"1234:11e8": {list[1], list[3]}} {
		file, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		one := runResult{}
		one.capture, one.err = record.ReadDevice(file, name)
		file.Close()
		if one.err != nil {
			t.Fatal(one.err)
		}
		if difference := firstDifference(one.accesses(), want); difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
	}
}

// byteCounter counts the written bytes and discards them.
type byteCounter struct{ bytes int }

func (w *byteCounter) Write(p []byte) (int, error) {
	w.bytes += len(p)
	return len(p), nil
}

// TestLongRecordIsWrittenAsItGrows: for a million accesses, the recorder uses no more memory than
// for a few.
func TestLongRecordIsWrittenAsItGrows(t *testing.T) {
	effort.SkipShort(t)
	var out byteCounter
	w := newWriter(&out, 0)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range uint64(1 << 20) {
		w.Access('W', 0, i*4096%(1<<20), []byte{byte(i), byte(i >> 8), byte(i >> 16),
			byte(i >> 24)})
	}
	grown := int64(heap() - before)
	if err := w.close(); err != nil || grown > 8<<20 || out.bytes < 1<<20 {
		t.Errorf("the heap grew by %d bytes, want at most 8 MiB; wrote %d bytes, want at least "+
			"1 MiB: %v", grown, out.bytes, err)
	}
}

// TestProgressIsPrintedOnceASecond calls printProgress three times in less than a second.
func TestProgressIsPrintedOnceASecond(t *testing.T) {
	var progress bytes.Buffer
	r := &recording{options: &Options{Progress: &progress}, accesses: 12345,
		lastProgress: time.Now().Add(-time.Minute)}
	for range 3 {
		r.printProgress()
	}
	if strings.Count(progress.String(), "12,345 accesses recorded") != 1 {
		t.Errorf("progress %q, want one line", progress.String())
	}
}
