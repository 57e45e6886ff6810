package main

// This file lets the readers of the project execute random images side by side.

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/check/vectors/mutate"
)

// fuzzCases returns the number of cases of the fuzzer: LM_FUZZ_CASES, or what takes some seconds.
func fuzzCases(t *testing.T) int {
	cases := 20_000
	if testing.Short() {
		cases = 3_000
	}
	if text := os.Getenv("LM_FUZZ_CASES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		cases = n
	}
	return cases
}

// fuzzSeed returns the seed of the fuzzer: LM_FUZZ_SEED, or 1.
func fuzzSeed(t *testing.T) uint64 {
	text := os.Getenv("LM_FUZZ_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// baseImages returns the images that the fuzzer changes.
func baseImages(t *testing.T) (bases [][]byte) {
	t.Helper()
	for _, pattern := range []string{folder + "/*.lmb", folder + "/../images/*.lmb"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) < 5 {
			t.Fatal(len(paths), "images", err)
		}
		for _, path := range paths {
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			bases = append(bases, file)
		}
	}
	return bases
}

// other is the C player in a process of its own.
type other struct {
	command *exec.Cmd
	in      *bufio.Writer
	out     *bufio.Reader
	closer  io.Closer
	errors  bytes.Buffer
	report  []byte
}

func startOther(t *testing.T) *other {
	t.Helper()
	o := &other{command: exec.Command(compile(t, "fuzz.c", "port.c"))}
	in, err := o.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := o.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.command.Stderr = &o.errors
	o.in, o.out, o.closer = bufio.NewWriterSize(in, 1<<16), bufio.NewReaderSize(out, 1<<16), in
	if err := o.command.Start(); err != nil {
		t.Fatal(err)
	}
	return o
}

// send sends a case.
func (o *other) send(file []byte, seed uint64) error {
	var head [16]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(file)))
	binary.LittleEndian.PutUint64(head[8:], seed)
	o.in.Write(head[:])
	o.in.Write(file)
	return o.in.Flush()
}

// receive returns the report of the first case that was sent and not received. It is valid until
// the next call.
func (o *other) receive() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(o.out, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(size[:]))
	if n > len(o.report) {
		o.report = make([]byte, n)
	}
	_, err := io.ReadFull(o.out, o.report[:n])
	return o.report[:n], err
}

// stop ends the process.
func (o *other) stop() error {
	o.closer.Close()
	return o.command.Wait()
}

// readable returns the text of a report.
func readable(report []byte) string {
	var b strings.Builder
	for len(report) >= 24 && strings.IndexByte("LlSs", report[0]) >= 0 {
		fmt.Fprintf(&b, "%c width %d kind %d device %d number %d offset %#x value %#x\n", report[0],
			report[1], report[2], report[3], report[4],
			binary.LittleEndian.Uint64(report[8:]), binary.LittleEndian.Uint64(report[16:]))
		report = report[24:]
	}
	return b.String() + fmt.Sprintf("%q", report)
}

// TestPlayersAgreeOnRandomImagesAndDevices lets the Go runtime, the C player and the oracle execute
// changed images on devices that answer at random. Verdicts, accesses, results, times and outputs
// are the same.
func TestPlayersAgreeOnRandomImagesAndDevices(t *testing.T) {
	cases, seed := fuzzCases(t), fuzzSeed(t)
	m := &mutate.Mutator{Rand: rand.New(rand.NewPCG(seed, 27)), Bases: baseImages(t)}
	o := startOther(t)
	var report, third []byte
	ended := map[string]int{}
	began := time.Now()
	differences := 0
	for i := range cases {
		file, of := m.Image(), m.Uint64()
		if err := o.send(file, of); err != nil {
			t.Fatalf("case %d: %v\n%s", i, err, &o.errors)
		}
		report = play(&goRuntime{}, file, of, report[:0])
		theirs, err := o.receive()
		if err != nil {
			keep(t, file, of)
			o.stop()
			t.Fatalf("case %d: the C player ended: %v\n%s", i, err, &o.errors)
		}
		isSame := bytes.Equal(report, theirs)
		if !isSame {
			t.Errorf("case %d: the runtime and C differ:\n%s\n--- C\n%s", i, readable(report),
				readable(theirs))
		}
		if i%8 == 0 {
			third = play(&specified{settleNs: 5_000_000}, file, of, third[:0])
			if !bytes.Equal(report, third) {
				isSame = false
				t.Errorf("case %d: the runtime and the oracle differ:\n%s\n--- oracle\n%s", i,
					readable(report), readable(third))
			}
		}
		if !isSame {
			keep(t, file, of)
			if differences++; differences >= 5 {
				break
			}
		}
		ended[endingOf(report)]++
		if i%100_000 == 99_999 {
			t.Logf("%d cases, %d differ, %.0f a second", i+1, differences,
				float64(i+1)/time.Since(began).Seconds())
		}
	}
	if err := o.stop(); err != nil {
		t.Errorf("%v\n%s", err, &o.errors)
	}
	t.Logf("%.0f cases a second; they ended: %v", float64(cases)/time.Since(began).Seconds(), ended)
	if differences == 0 {
		t.Logf("evidence: %d random images and devices: runtime and C player agree", cases)
	}
	for _, ending := range []string{"done", "bus-fault", "device-gone", "expect-failed",
		"compare-failed", "deadline-passed", "rejected"} {
		if ended[ending] < cases/5000 {
			t.Errorf("only %d of %d cases ended with %s", ended[ending], cases, ending)
		}
	}
}

// endingOf returns how the first run of a report ended.
func endingOf(report []byte) string {
	_, end, found := strings.Cut(string(report), "end ")
	if !found {
		return "rejected"
	}
	code, _, _ := strings.Cut(end, " ")
	return code
}

// keep writes a case to a file, for later.
func keep(t *testing.T, file []byte, seed uint64) {
	directory := os.Getenv("LM_FUZZ_KEEP")
	if directory == "" {
		return
	}
	path := filepath.Join(directory, fmt.Sprintf("%x.lmb", seed))
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Error(err)
	}
	t.Logf("kept as %s", path)
}
