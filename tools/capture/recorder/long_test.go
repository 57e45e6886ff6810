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
)

// TestSeveralDevicesAndOpensAreInOneRecord, each device's accesses by its name.
func TestSeveralDevicesAndOpensAreInOneRecord(t *testing.T) {
	path, other := card(t), card(t)
	c, out := prepared(t, nil,
		Options{Files: []File{{Path: other, Vendor: 0x1234, Device: 0x11e8}}}, path,
		compiled(t, edges, "-O2"), "several", other)
	r := finished(t, c, path)
	if r.exit != 0 {
		t.Fatalf("exit %d: %s", r.exit, r.said)
	}
	// stores to the card, to the other, to the card again, and a load of the other
	list := expected(r.output)
	for name, want := range map[string][]string{"1af4:1110": {list[0], list[2]},
		"1234:11e8": {list[1], list[3]}} {
		file, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		one := run{}
		one.capture, one.err = record.ReadDevice(file, name)
		file.Close()
		if one.err != nil {
			t.Fatal(one.err)
		}
		if difference := differ(one.accesses(), want); difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
	}
}

// written counts what is not kept.
type written struct{ bytes int }

func (w *written) Write(p []byte) (int, error) {
	w.bytes += len(p)
	return len(p), nil
}

// TestLongRecordIsWrittenAsItGrows: the recorder holds no more for millions of
// accesses than for a few.
func TestLongRecordIsWrittenAsItGrows(t *testing.T) {
	var out written
	w := newWriter(&out, 0)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range uint64(1 << 20) {
		w.access('W', 0, i*4096%(1<<20), []byte{byte(i), byte(i >> 8), byte(i >> 16),
			byte(i >> 24)})
	}
	grown := int64(heap() - before)
	if err := w.close(); err != nil || grown > 8<<20 || out.bytes < 1<<20 {
		t.Errorf("%d bytes more are held, %d are written, %v", grown, out.bytes, err)
	}
}

// TestProgressIsToldOnceASecond, where somebody wants to know.
func TestProgressIsToldOnceASecond(t *testing.T) {
	var said bytes.Buffer
	r := &recording{options: &Options{Progress: &said}, accesses: 12345,
		lastProgress: time.Now().Add(-time.Minute)}
	for range 3 {
		r.printProgress()
	}
	if strings.Count(said.String(), "12345 accesses recorded") != 1 {
		t.Errorf("%q", said.String())
	}
}
