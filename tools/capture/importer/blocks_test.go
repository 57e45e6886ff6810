package importer

import (
	"bytes"
	"os"
	"testing"

	"lightmetal/tools/capture/importer/traces"
)

// TestBlocksOfACaptureAreItsInputsAndOutputs uses the capture of twoop: its inputs are at 0x20000
// and 0x21000, its output is at 0x23000, and its program at 0.
func TestBlocksOfACaptureAreItsInputsAndOutputs(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/captures/wh.twoop.mmiotrace")
	if err != nil {
		t.Fatal(err)
	}
	const small = ", 100 % of the nonzero words are small integers"
	want := []traces.Block{
		{Stored: true, Place: "1,1,0x0", Bytes: 172, Line: 10, Times: 1,
			Guess: "a program for RISC-V", Flag: "--input in1=1,1,0x0,uint8,172"},
		{Stored: true, Place: "1,1,0x20000", Bytes: 1024, Line: 39, Times: 1,
			Guess: "int32[256]" + small, Flag: "--input in2=1,1,0x20000,int32,256"},
		{Stored: true, Place: "1,1,0x21000", Bytes: 1024, Line: 168, Times: 1,
			Guess: "int32[256]" + small, Flag: "--input in3=1,1,0x21000,int32,256"},
		{Stored: false, Place: "1,1,0x23000", Bytes: 1024, Line: 346, Times: 1,
			Guess: "int32[256]" + small, Flag: "--output out1=1,1,0x23000,int32,256"},
	}
	got := Blocks(bytes.NewReader(data), Options{From: traces.FromMmiotrace})
	if len(got) != len(want) {
		t.Fatalf("blocks %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("block %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestNearestRangesComeFirst joins stores that touch, and sorts by the distance to a tensor.
func TestNearestRangesComeFirst(t *testing.T) {
	joined := joinRanges([]addressRange{{0x20, 0x2f}, {0x0, 0x3}, {0x4, 0x7}, {0x28, 0x33}})
	if len(joined) != 2 || joined[0] != (addressRange{0, 7}) ||
		joined[1] != (addressRange{0x20, 0x33}) {
		t.Errorf("joined %v, want 0..7 and 0x20..0x33", joined)
	}
	for _, c := range []struct {
		tensor addressRange
		want   uint64
	}{
		{addressRange{0x8, 0xb}, 0x15}, {addressRange{0x30, 0x40}, 0},
		{addressRange{0x40, 0x4f}, 0xd},
	} {
		if got := joined[1].distanceTo(c.tensor); got != c.want {
			t.Errorf("distance of %v to %v: %#x, want %#x", joined[1], c.tensor, got, c.want)
		}
	}
}
