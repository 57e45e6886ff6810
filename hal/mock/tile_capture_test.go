package mock

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/check/effort"
)

// The tests of this file repeat the accesses of the recordings in testdata/captures on the mock.
// The recordings were made on ttsim. The mock must return the values that ttsim returned and, if
// the inputs are changed, the values that the sources of the kernels compute.

// barAccess is one line of a recording: an access to BAR 0.
type barAccess struct {
	op     Op
	width  uint8
	offset uint64
	value  uint64
	output bool // the access is between the mark "read output" and the next mark
}

// readMmiotrace reads an mmiotrace. Its line MAP has the address of BAR 0. Each line W or R has the
// width, time, map, address and value of a store or load.
func readMmiotrace(t testing.TB, name string) (trace []barAccess) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/captures/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var base uint64
	output := false
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		f := strings.Fields(s.Text())
		switch f[0] {
		case "MAP":
			base = parseNumber(t, f[3])
		case "MARK":
			output = strings.HasSuffix(s.Text(), "read output")
		case "R", "W":
			a := barAccess{Load, uint8(parseNumber(t, f[1])), parseNumber(t, f[4]) - base,
				parseNumber(t, f[5]), output}
			if f[0] == "W" {
				a.op = Store
			}
			trace = append(trace, a)
		}
	}
	return trace
}

func parseNumber(t testing.TB, s string) uint64 {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// replayTrace repeats the accesses of a recording on the device, and returns the bytes of the
// output. If the recording loads one address several times in sequence, replayTrace loads it until
// the value is the last recorded one. Every other load outside the output must return the recorded
// value.
func replayTrace(d *Device, trace []barAccess) (output []byte, err error) {
	bar, err := d.Map(fbs.Window{Kind: gen.WindowKindBar, Size: 512 << 20})
	if err != nil {
		return nil, err
	}
	for i, a := range trace {
		if a.op == Store {
			if c := StoreAt(&bar, uint32(a.offset), a.width, a.value); c != hal.OK {
				return nil, fmt.Errorf("access %d: %v: %s", i, c, d.Refusal())
			}
			continue
		}
		again := func(b barAccess) bool { return b.op == Load && b.offset == a.offset }
		if i+1 < len(trace) && again(trace[i+1]) {
			continue
		}
		loads := 1
		if i > 0 && again(trace[i-1]) {
			loads = 100_000
		}
		value, c := LoadAt(&bar, uint32(a.offset), a.width)
		for ; value != a.value && c == hal.OK && loads > 1; loads-- {
			value, c = LoadAt(&bar, uint32(a.offset), a.width)
		}
		switch {
		case c != hal.OK:
			return nil, fmt.Errorf("access %d: %v: %s", i, c, d.Refusal())
		case a.output:
			output = binary.LittleEndian.AppendUint64(output, value)[:len(output)+int(a.width)]
		case value != a.value:
			return nil, fmt.Errorf("access %d: load at %#x returned %#x, want the recorded %#x", i,
				a.offset, value, a.value)
		}
	}
	return output, nil
}

func recordedOutput(trace []barAccess) (output []byte) {
	for _, a := range trace {
		if a.output {
			output = binary.LittleEndian.AppendUint64(output, a.value)[:len(output)+int(a.width)]
		}
	}
	return output
}

// storedBytes returns the `size` bytes that a recording stores from an offset of the BAR on.
func storedBytes(trace []barAccess, offset uint64, size int) []byte {
	data := make([]byte, size+8)
	for _, a := range trace {
		if a.op == Store && a.offset >= offset && a.offset < offset+uint64(size) {
			storeLittleEndian(data[a.offset-offset:], a.width, a.value)
		}
	}
	return data[:size]
}

// replaceStores returns a copy of the recording that stores other data from an offset of the BAR
// on.
func replaceStores(trace []barAccess, offset uint64, data []byte) []barAccess {
	trace = append([]barAccess(nil), trace...)
	for i := range trace {
		if a := &trace[i]; a.op == Store && a.offset >= offset &&
			a.offset < offset+uint64(len(data)) {
			a.value = loadLittleEndian(data[a.offset-offset:], a.width)
		}
	}
	return trace
}

// capture is a recording and the computation of its kernel.
type capture struct {
	name    string
	board   *boards.Board
	l1      uint64    // offset in BAR 0 of the TLB window that shows L1
	inputs  []l1Range // inputs of the kernel
	random  int       // number of inputs that tests replace by random data, from the first on
	compute func(inputs [][]byte) []byte
}

type l1Range struct {
	address uint64
	size    int
}

var (
	// a, b
	twoopInputs = []l1Range{{0x20000, 1024}, {0x21000, 1024}}
	// x, w1, b1, w2, b2
	mlpInputs = []l1Range{{0x20000, 64}, {0x21000, 2048}, {0x22000, 128}, {0x23000, 320},
		{0x24000, 40}}

	captures = []capture{
		{"wh.twoop.mmiotrace", &boards.Wormhole, 0x0b000000, twoopInputs, 2, computeTwoop},
		{"bh.twoop.mmiotrace", &boards.Blackhole, 0, twoopInputs, 2, computeTwoop},
		{"wh.mlp.mmiotrace", &boards.Wormhole, 0x0b000000, mlpInputs, 1, computeMLP},
	}
)

// computeTwoop returns relu(a + b - 100), computed modulo 2^32.
func computeTwoop(in [][]byte) (output []byte) {
	for i := 0; i < len(in[0]); i += 4 {
		d := int32(word(in[0][i:])+word(in[1][i:])) - 100
		output = binary.LittleEndian.AppendUint32(output, uint32(max(d, 0)))
	}
	return output
}

// computeMLP returns the outputs of an int8 network: a layer from 64 to 32 values, which are
// shifted right by 7 and clamped to 0..127, and a layer from 32 to 10 values.
func computeMLP(in [][]byte) (output []byte) {
	layer := func(x, w, b []byte, outputs int) (y []int32) {
		for o := range outputs {
			s := int32(word(b[4*o:]))
			for i := range x {
				s += int32(int8(x[i])) * int32(int8(w[o*len(x)+i]))
			}
			y = append(y, s)
		}
		return y
	}
	var hidden []byte
	for _, s := range layer(in[0], in[1], in[2], 32) {
		hidden = append(hidden, byte(min(max(s>>7, 0), 127)))
	}
	for _, s := range layer(hidden, in[3], in[4], 10) {
		output = binary.LittleEndian.AppendUint32(output, uint32(s))
	}
	return output
}

func word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// TestRecordingsReplayAsOnTtsim compares every load outside the polls.
func TestRecordingsReplayAsOnTtsim(t *testing.T) {
	for _, c := range captures {
		trace := readMmiotrace(t, c.name)
		output, err := replayTrace(NewWith(c.board, NewTiles(c.board)), trace)
		want := recordedOutput(trace)
		if err != nil || len(want) == 0 || !bytes.Equal(output, want) {
			t.Errorf("%s: error %v, output\n%x, want the recorded\n%x", c.name, err, output, want)
		}
	}
}

// TestRecordingsComputeWithOtherInputs repeats each recording with 1,000 random inputs on one
// device, and compares the output with the same computation in Go.
func TestRecordingsComputeWithOtherInputs(t *testing.T) {
	effort.SkipShort(t)
	for _, c := range captures {
		random := rand.New(rand.NewPCG(1, 2))
		original := readMmiotrace(t, c.name)
		d := NewWith(c.board, NewTiles(c.board))
		for run := range 1000 {
			trace := original
			var inputs [][]byte
			for i, in := range c.inputs {
				if i < c.random {
					trace = replaceStores(trace, c.l1+in.address, randomBytes(random, in.size))
				}
				inputs = append(inputs, storedBytes(trace, c.l1+in.address, in.size))
			}
			want := c.compute(inputs)
			output, err := replayTrace(d, trace)
			if err != nil || !bytes.Equal(output, want) {
				t.Fatalf("%s, run %d: error %v, output\n%x, want\n%x", c.name, run, err, output,
					want)
			}
		}
	}
}

// randomBytes returns words as bytes. Some words are random in all bits, others are small.
func randomBytes(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := 0; i < size; i += 4 {
		binary.LittleEndian.PutUint32(b[i:], uint32(int32(r.Uint32())>>(8*r.UintN(4))))
	}
	return b
}

// TestRecordedPollsEndAfterTheSameNumberOfLoads shows that cores and clock are deterministic.
func TestRecordedPollsEndAfterTheSameNumberOfLoads(t *testing.T) {
	trace := readMmiotrace(t, "wh.mlp.mmiotrace")
	operations := 0
	for range 3 {
		d := NewWith(&boards.Wormhole, NewTiles(&boards.Wormhole))
		if _, err := replayTrace(d, trace); err != nil {
			t.Fatal(err)
		}
		if operations != 0 && d.Operations() != operations {
			t.Errorf("%d operations in one replay, %d in another", d.Operations(), operations)
		}
		operations = d.Operations()
	}
}

func BenchmarkRecordingOfMLP(b *testing.B) {
	trace := readMmiotrace(b, "wh.mlp.mmiotrace")
	d := NewWith(&boards.Wormhole, NewTiles(&boards.Wormhole))
	for b.Loop() {
		if _, err := replayTrace(d, trace); err != nil {
			b.Fatal(err)
		}
	}
}
