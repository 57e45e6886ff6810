package main

// This file makes the readers of the project execute the same random images, and compares them.

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
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/vectors/mutate"
	"lightmetal/tools/check/vectors/reader"
)

// fuzzAccesses is the number of accesses of a case of the fuzzer.
const fuzzAccesses = 250

// fuzzCases returns the number of cases of the fuzzer: LM_FUZZ_CASES, or a number that takes some
// seconds.
func fuzzCases(t *testing.T) int {
	cases := effort.Cases(0, 5_000, 400_000)
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

// baseImages returns the images of testdata and of its listings, or those that LM_FUZZ_IMAGES
// matches, such as vectors/scratch.lmb. The fuzzer changes them.
func baseImages(t *testing.T) (bases [][]byte) {
	t.Helper()
	patterns, fewest := []string{"vectors/*.lmb", "images/*.lmb", "listings/*.lms"}, 5
	if pattern := os.Getenv("LM_FUZZ_IMAGES"); pattern != "" {
		patterns, fewest = []string{pattern}, 1
	}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(folder, "..", pattern))
		if err != nil || len(paths) < fewest {
			t.Fatalf("%d files match %s, want at least %d; error %v", len(paths), pattern, fewest,
				err)
		}
		for _, path := range paths {
			read := os.ReadFile
			if strings.HasSuffix(path, ".lms") {
				read = assemble
			}
			file, err := read(path)
			if err != nil {
				t.Fatal(err)
			}
			bases = append(bases, file)
		}
	}
	return bases
}

// cPlayer is the C player in a separate process.
type cPlayer struct {
	command       *exec.Cmd
	in            *bufio.Writer
	out           *bufio.Reader
	closer        io.Closer
	errors        bytes.Buffer
	report        []byte // report of the C player
	runtimeReport []byte // report of the runtime

	ignorePlaces bool // the places of errors may differ
}

// startCPlayer compiles the C player with options, and starts it.
func startCPlayer(t *testing.T, options ...string) *cPlayer {
	t.Helper()
	sources := append([]string{"fuzz.c", "port.c"}, options...)
	o := &cPlayer{command: exec.Command(compileC(t, sources...))}
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

// send sends a case. After the given number of accesses, all accesses fail.
func (o *cPlayer) send(file []byte, seed uint64, accesses uint32) error {
	var head [16]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(file)))
	binary.LittleEndian.PutUint32(head[4:], accesses)
	binary.LittleEndian.PutUint64(head[8:], seed)
	o.in.Write(head[:])
	o.in.Write(file)
	return o.in.Flush()
}

// receive returns the report of the next case that was sent. The report is valid until the next
// call.
func (o *cPlayer) receive() ([]byte, error) {
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
func (o *cPlayer) stop(t *testing.T) {
	t.Helper()
	o.closer.Close()
	if err := o.command.Wait(); err != nil {
		t.Errorf("the C player ended with %v\n%s", err, &o.errors)
	}
}

// placeOfRejection matches a report that an image is rejected, including the place of the error.
var placeOfRejection = regexp.MustCompile("(reject [a-z-]+) [^\n]*")

// compare makes the runtime and the C player execute a case, and reports whether their reports are
// equal.
func (o *cPlayer) compare(t *testing.T, name string, file []byte, seed uint64,
	accesses uint32) bool {
	t.Helper()
	if err := o.send(file, seed, accesses); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, &o.errors)
	}
	o.runtimeReport = executeCase(&reader.Runtime{}, file, seed, accesses, o.runtimeReport[:0])
	cReport, err := o.receive()
	if err != nil {
		saveCase(t, file, seed)
		o.stop(t)
		t.Fatalf("%s: the C player ended: %v\n%s", name, err, &o.errors)
	}
	runtimeReport := o.runtimeReport
	if o.ignorePlaces {
		runtimeReport = placeOfRejection.ReplaceAll(runtimeReport, []byte("$1"))
		cReport = placeOfRejection.ReplaceAll(cReport, []byte("$1"))
	}
	if !bytes.Equal(runtimeReport, cReport) {
		t.Errorf("%s: the runtime and C differ:\n%s\n--- C\n%s", name, formatReport(runtimeReport),
			formatReport(cReport))
		return false
	}
	return true
}

// entryBytes is the size of an entry in a report, see reportAccess.
const entryBytes = 24

// startsWithEntry reports whether a report, or the rest of one, begins with an entry.
func startsWithEntry(report []byte) bool {
	return len(report) >= entryBytes && strings.IndexByte("LlSsM", report[0]) >= 0
}

// unspecifiedValues matches the end of a run that has seen no wrong value. FORMAT.md does not
// specify its values.
var unspecifiedValues = regexp.MustCompile(
	"(end [^\n]*ignored [0-9]+(?: safe [^\n]*)?\n)values [^\n]*\n")

// specifiedPart returns a report without the parts for which FORMAT.md has no rules: the entries
// about bus mastering, and the values of a run that has seen no wrong value.
func specifiedPart(report []byte) (specified []byte) {
	for startsWithEntry(report) {
		if report[0] != 'M' {
			specified = append(specified, report[:entryBytes]...)
		}
		report = report[entryBytes:]
	}
	return append(specified, unspecifiedValues.ReplaceAll(report, []byte("$1"))...)
}

// formatReport returns a report as text.
func formatReport(report []byte) string {
	var b strings.Builder
	for startsWithEntry(report) {
		fmt.Fprintf(&b, "%c width %d kind %d device %d number %d offset %#x value %#x\n", report[0],
			report[1], report[2], report[3], report[4],
			binary.LittleEndian.Uint64(report[8:]), binary.LittleEndian.Uint64(report[16:]))
		report = report[entryBytes:]
	}
	return b.String() + fmt.Sprintf("%q", report)
}

// TestPlayersAgreeOnRandomImagesAndDevices makes the Go runtime, the C player and the oracle
// execute changed images on devices that answer at random. Verdicts, accesses, results, times and
// outputs must be equal. The runtime and the C player must enable bus mastering at the same places.
func TestPlayersAgreeOnRandomImagesAndDevices(t *testing.T) {
	cases, seed := fuzzCases(t), fuzzSeed(t)
	m := &mutate.Mutator{Rand: rand.New(rand.NewPCG(seed, 27)), Bases: baseImages(t)}
	o := startCPlayer(t)
	var report []byte // report of the oracle
	endings := map[string]int{}
	began := time.Now()
	differences := 0
	for i := range cases {
		file, caseSeed := m.Image(), m.Uint64()
		isSame := o.compare(t, fmt.Sprint("case ", i), file, caseSeed, fuzzAccesses)
		if i%8 == 0 {
			report = executeCase(&reader.Oracle{SettleNs: 5_000_000}, file, caseSeed, fuzzAccesses,
				report[:0])
			runtimeReport, oracleReport := specifiedPart(o.runtimeReport), specifiedPart(report)
			if !bytes.Equal(runtimeReport, oracleReport) {
				isSame = false
				t.Errorf("case %d: the runtime and the oracle differ:\n%s\n--- oracle\n%s", i,
					formatReport(runtimeReport), formatReport(oracleReport))
			}
		}
		if !isSame {
			saveCase(t, file, caseSeed)
			if differences++; differences >= 5 {
				break
			}
		}
		endings[endingOf(o.runtimeReport)]++
		if i%100_000 == 99_999 {
			t.Logf("%d cases, %d differ, %.0f cases a second", i+1, differences,
				float64(i+1)/time.Since(began).Seconds())
		}
	}
	o.stop(t)
	t.Logf("%.0f cases a second; number of cases by ending: %v",
		float64(cases)/time.Since(began).Seconds(), endings)
	if differences == 0 {
		t.Logf("evidence: %d random images and devices: runtime and C player agree", cases)
	}
	if os.Getenv("LM_FUZZ_IMAGES") != "" {
		return // a few images do not end in all ways
	}
	for _, ending := range []string{"done", "bus-fault", "device-gone", "expect-failed",
		"compare-failed", "deadline-passed", "rejected"} {
		if endings[ending] < cases/5000 {
			t.Errorf("only %d of %d cases ended with %s, want at least %d", endings[ending], cases,
				ending, cases/5000)
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

// saveCase writes the image of a case to the directory LM_FUZZ_KEEP, if it is set.
func saveCase(t *testing.T, file []byte, seed uint64) {
	directory := os.Getenv("LM_FUZZ_KEEP")
	if directory == "" {
		return
	}
	path := filepath.Join(directory, fmt.Sprintf("%x.lmb", seed))
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Error(err)
	}
	t.Logf("the image of this case is in %s", path)
}
