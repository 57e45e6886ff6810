package again

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/tools/capture/importer/traces"
)

// accesses returns accesses of 4 bytes to BAR 0: "W OFFSET VALUE" or "R OFFSET VALUE", hex numbers,
// each on a line of its own.
func accesses(t *testing.T, text string) *Recording {
	t.Helper()
	var list []traces.Access
	for line, one := range strings.Split(text, "; ") {
		a := traces.Access{Line: line + 1, Width: 4, Op: traces.OpLoad}
		var op string
		if _, err := fmt.Sscanf(one, "%s %x %x", &op, &a.Offset, &a.Value); err != nil {
			t.Fatalf("%q: %v", one, err)
		}
		if op == "W" {
			a.Op = traces.OpStore
		}
		list = append(list, a)
	}
	return &Recording{Accesses: list}
}

// Each row has two recordings, and the differences between them.
func TestEveryDifferenceIsExplainedAsWhatItIs(t *testing.T) {
	for _, c := range []struct{ name, a, b, want string }{
		{"none", "W 0 1; R 4 2", "W 0 1; R 4 2", ""},
		{"a value that varies", "W 0 1; R 4 2; R 4 3", "W 0 1; R 4 2; R 4 7",
			"varies bar0+0x4 3 7"},
		{"a wait", "W 0 1; R 4 0; R 4 1; W 0 2", "W 0 1; R 4 0; R 4 0; R 4 0; R 4 1; W 0 2",
			"waits bar0+0x4 2 4"},
		{"a wait without a load", "W 0 1; R 4 1; W 0 2", "W 0 1; W 0 2", "waits bar0+0x4 1 0"},
		{"a carried value", "R 4 5; W 8 5", "R 4 6; W 8 6",
			"varies bar0+0x4 5 6, carried bar0+0x8 5 6"},
		{"an interrupt address", "W 0 fee00378", "W 0 fee00298",
			"interrupt bar0+0x0 fee00378 fee00298"},
		{"an input", "W 100 5; W 0 1", "W 100 6; W 0 1", "input bar0+0x100 5 6"},
		{"unknown", "W 0 5", "W 0 6", "unknown bar0+0x0 5 6"},
		{"a value that is no longer the last", "R 4 5; R 4 7; W 8 5", "R 4 6; R 4 7; W 8 6",
			"waits bar0+0x4 2 2, carried bar0+0x8 5 6"},
		{"a job of a queue", "R 4 5; R 4 7; W 8 5; W 8 7", "R 4 6; R 4 9; W 8 6; W 8 9",
			"waits bar0+0x4 2 2, varies bar0+0x4 7 9, carried bar0+0x8 5 6"},
		{"a value of a poll", "R 4 0; R 4 5; W 8 5", "R 4 0; R 4 0; R 4 6; W 8 6",
			"waits bar0+0x4 2 3, varies bar0+0x4 5 6, derived bar0+0x8 5 6"},
		{"stores before the load", "W 8 5; W 8 5; R 4 5", "W 8 5; W 8 6; R 4 6",
			"unknown bar0+0x8 5 6, varies bar0+0x4 5 6"},
		{"a constant before a carried value", "R 4 5; W 8 0; R 4 7; W 8 7",
			"R 4 6; W 8 0; R 4 9; W 8 9",
			"varies bar0+0x4 5 6, carried bar0+0x8 7 9"},
		{"an index", "R 4 5; W 8 6", "R 4 7; W 8 0", "varies bar0+0x4 5 7, derived bar0+0x8 6 0"},
		{"a part of a value", "R 4 105; W 8 5", "R 4 207; W 8 7",
			"varies bar0+0x4 105 207, derived bar0+0x8 5 7"},
		{"a load in one only", "W 0 1; W 0 2", "W 0 1; R 4 1; W 0 2", "waits bar0+0x4 0 1"},
		{"a store in one only", strings.Repeat("W 0 1; ", 60) + "W 8 3; W 0 1",
			strings.Repeat("W 0 1; ", 60) + "W 0 1", "missing bar0+0x8 3 0"},
		{"a device that is gone", "W 0 1; R 4 2", "W 0 1; R 4 ffffffff",
			"varies bar0+0x4 2 ffffffff, gone bar0+0x0 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Compare(accesses(t, c.a), accesses(t, c.b),
				func(p Place) bool { return p.Offset == 0x100 })
			if err != nil {
				t.Fatal(err)
			}
			var list []string
			for _, d := range got.Differences {
				list = append(list, fmt.Sprintf("%s %v %x %x", d.Kind, d.Place, d.A, d.B))
			}
			if text := strings.Join(list, ", "); text != c.want {
				t.Errorf("differences %q, want %q", text, c.want)
			}
			refused := regexp.MustCompile("derived|interrupt|gone|unknown").MatchString(c.want)
			if err := got.Err(); refused != (hal.CodeOf(err) == hal.BadImage) {
				t.Errorf("the error is %v, want one: %v", err, refused)
			}
		})
	}
}

func TestRecordingsOfOtherWorkAreRefused(t *testing.T) {
	a := strings.TrimSuffix(strings.Repeat("W 0 1; W 4 2; ", 100), "; ")
	missing := strings.TrimPrefix(a, "W 0 1; ")
	got, err := Compare(accesses(t, a), accesses(t, missing), nil)
	if err != nil || got.Unaligned != 1 || got.Stores != 199 {
		t.Errorf("one store of 200 is missing: %+v, %v; want it left out", got, err)
	}
	_, err = Compare(accesses(t, a), accesses(t, strings.ReplaceAll(a, "W 4 2", "W 8 2")), nil)
	if hal.CodeOf(err) != hal.BadImage ||
		!strings.Contains(err.Error(), "the first at line 2 of this recording and line 2 of") {
		t.Errorf("half of the stores go elsewhere: %v", err)
	}
}

// Each row has the transfers of two recordings whose host memory has other addresses, and what is
// different between them. The program stores the address of the memory to a register.
func TestTransfersOfHostMemoryAreComparedByBlock(t *testing.T) {
	recording := func(page uint64, text string) *Recording {
		r := accesses(t, fmt.Sprintf("W 0 %x; R 4 1", page+0x40))
		for line, one := range strings.Split(text, "; ") {
			var op string
			var at, value uint64
			if _, err := fmt.Sscanf(one, "%s %x %x", &op, &at, &value); err != nil {
				t.Fatalf("%q: %v", one, err)
			}
			if op == "P" { // a program's store of an address
				value += page
			}
			r.Transfers = append(r.Transfers, Transfer{Line: 10 + line, Bus: page + at,
				Write: op == "D", Data: binary.LittleEndian.AppendUint64(nil, value)})
		}
		return r
	}
	for _, c := range []struct{ name, a, b, want string }{
		{"the same", "S 40 7; D 80 1", "S 40 7; D 80 1", "address bar0+0x0"},
		{"an address", "P 40 80; D 80 1", "P 40 80; D 80 1",
			"address bar0+0x0, address bus:0x5040-0x5047"},
		{"what the device wrote", "S 40 7; D 80 1; D 90 5", "S 40 7; D 80 1; D 90 6",
			"address bar0+0x0, varies bus:0x5090-0x5097"},
		{"an input", "S 100 7; D 80 1", "S 100 8; D 80 1",
			"address bar0+0x0, input bus:0x5100-0x5107"},
		{"a number that the device returns", "S 40 70006; D 80 1000700000002",
			"S 40 90006; D 80 1000900000002",
			"address bar0+0x0, returned bus:0x5040-0x5047, returned bus:0x5080-0x5087"},
		{"what the program stored", "S 40 7; D 80 1", "S 40 8; D 80 1",
			"address bar0+0x0, unknown bus:0x5040-0x5047"},
	} {
		got, err := Compare(recording(0x5000, c.a), recording(0x9000, c.b),
			func(p Place) bool { return p.Offset == 0x5100 })
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var list []string
		for _, d := range got.Differences {
			list = append(list, fmt.Sprintf("%s %v", d.Kind, d.Place))
		}
		if text := strings.Join(list, ", "); text != c.want {
			t.Errorf("%s: differences %q, want %q", c.name, text, c.want)
		}
		if err := got.Err(); (err != nil) != strings.Contains(c.want, "unknown") {
			t.Errorf("%s: the error is %v", c.name, err)
		}
	}
	_, err := Compare(recording(0x5000, "S 40 7; D 80 1"), recording(0x9000, "S 48 7; D 80 1"),
		func(Place) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "line 10: 2 of 4 transfers of host memory") {
		t.Errorf("transfers elsewhere: %v", err)
	}
}
