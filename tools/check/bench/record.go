package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/capture/recorder"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"
)

// copySize is the number of bytes of the copy whose time has a goal.
const copySize = 100_000_000

// measureRecordings measures the time of one access under lm record, to a file that represents a
// BAR, and the time of a copy.
func (b *bench) measureRecordings() {
	const what = "an access under lm record"
	var failure *recorder.Failure
	if _, err := b.record("-call", 2); errors.As(err, &failure) &&
		failure.Kind == recorder.Forbidden {
		b.addUnmeasured(what, failure.Error())
		return
	}
	recorded := func(mode string, count int, factor float64) sampler {
		return func() float64 { return fail.Must(b.record(mode, count)) * factor }
	}
	b.compare(comparison{what: what + ", by a call", unit: "us",
		ours: recorded("-call", 200*b.rounds, 1e-3), goal: goal{ownNumber, 60},
		note: "loads and stores of 4 bytes in turn"})
	loop := comparison{what: what + ", in a loop", unit: "us",
		ours: recorded("-loop", 10_000*b.rounds, 1e-3), goal: goal{ownNumber, 1e6 / 150_000.},
		note: "150,000 a second take 6.667 us each"}
	if runtime.GOARCH != "amd64" { // each access is a stop
		loop.goal.limit = 60
	}
	b.compare(loop)
	copied := copySize / fullRounds * b.rounds
	once := bench{programDir: b.programDir, imageDir: b.imageDir, rounds: 1}
	once.compare(comparison{what: "100 MB by memmove under lm record", unit: "s",
		ours: recorded("-copy", copied, copySize/1e9), goal: goal{ownNumber, 20},
		note: "Go's, 1 MiB at a time"})
	b.rows = append(b.rows, once.rows...)
}

// tracedPrograms are what this program does while it is recorded: count accesses to a BAR, or
// copies of as many bytes.
var tracedPrograms = map[string]func(bar []byte, count int){
	"-call": accessByCalls,
	"-loop": accessInLoop,
	"-copy": copyBytes,
}

// barName is the name of the file in memory that represents a BAR, and barSize its size.
const barName, barSize = "bench-bar", 1 << 20

// runTraced runs one of tracedPrograms and writes the nanoseconds of one access or byte to a file.
func runTraced(program func(bar []byte, count int), count, path string) {
	n := fail.Must(strconv.Atoi(count))
	bar := newMemory(barName, barSize)
	defer bar.close()
	began := time.Now()
	program(bar.bytes, n)
	text := fmt.Sprint(float64(time.Since(began)) / float64(n))
	fail.On(files.Write(path, []byte(text), 0o600, files.OpenToReplace))
}

// accessByCalls loads from a BAR and stores to it in turn, each by a function call.
func accessByCalls(bar []byte, count int) {
	window := hal.MappedAperture(bar, 0, pageSize, 0)
	for i := range count / 2 {
		at := uint32(4 * i % pageSize)
		v, _ := mock.LoadAt(&window, at, 4)
		mock.StoreAt(&window, at, 4, (v+1)&0xffffffff)
	}
}

// accessInLoop makes the same accesses directly in a loop.
func accessInLoop(bar []byte, count int) {
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&bar[0])), pageSize/4)
	for i := range count / 2 {
		words[i%len(words)]++
	}
}

// copyBytes copies count bytes to a BAR.
func copyBytes(bar []byte, count int) {
	source := bytes.Repeat([]byte("weights "), len(bar)/8)
	for left := count; left > 0; left -= len(bar) {
		copy(bar, source[:min(left, len(bar))])
	}
}

// record runs this program under the recorder, and checks how many accesses were recorded. It
// returns the nanoseconds of one.
func (b *bench) record(mode string, count int) (nanoseconds float64, err error) {
	path := filepath.Join(b.imageDir, "time")
	result, err := recorder.Run(recorder.Options{
		Program: []string{os.Args[0], mode, strconv.Itoa(count), path},
		Files:   []recorder.File{{Path: "memfd:" + barName}}, Out: io.Discard, Warnings: os.Stderr,
	})
	if err != nil {
		return 0, err
	}
	if n := uint64(count); result.ExitStatus != 0 || result.Gaps != 0 ||
		result.Accesses != n && (mode != "-copy" || result.Accesses < n/64) {
		return 0, fmt.Errorf("%d of %d accesses recorded, %d gaps, exit status %d",
			result.Accesses, n, result.Gaps, result.ExitStatus)
	}
	fail.Must(fmt.Sscan(string(fail.Must(os.ReadFile(path))), &nanoseconds))
	return nanoseconds, nil
}
