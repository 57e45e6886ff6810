package record

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestPagesKnowWhatWasSet sets and forgets memory across pages, and compares it with data.
func TestPagesKnowWhatWasSet(t *testing.T) {
	const at = 3*PageSize - 4
	data := []byte("01234567")
	for _, c := range []struct {
		name   string
		pages  Pages
		change func(*Pages)
		want   string // runs of data at the address
		equal  bool
	}{
		{"zero", Pages{}, func(*Pages) {}, "2ffc 0123 1, 3000 4567 1", false},
		{"unknown", Pages{Unknown: true}, func(*Pages) {}, "2ffc 0123 2, 3000 4567 2", false},
		{"set", Pages{Unknown: true}, func(p *Pages) { p.Set(at, data) },
			"2ffc 0123 0, 3000 4567 0", true},
		{"set in part", Pages{Unknown: true}, func(p *Pages) { p.Set(at+1, data[1:6]) },
			"2ffc 0 2, 2ffd 123 0, 3000 45 0, 3002 67 2", false},
		{"changed", Pages{}, func(p *Pages) { p.Set(at, data); p.Set(at+3, []byte("xx")) },
			"2ffc 012 0, 2fff 3 1, 3000 4 1, 3001 567 0", false},
		{"forgotten", Pages{}, func(p *Pages) { p.Set(at, data); p.Forget(at+3, PageSize) },
			"2ffc 012 0, 2fff 3 2, 3000 4567 2", false},
		{"page forgotten", Pages{},
			func(p *Pages) { p.Set(at, data); p.Forget(2*PageSize, PageSize) },
			"2ffc 0123 2, 3000 4567 0", false},
		{"set again", Pages{}, func(p *Pages) { p.Forget(0, 4*PageSize); p.Set(at, data) },
			"2ffc 0123 0, 3000 4567 0", true},
	} {
		c.change(&c.pages)
		var list []string
		for r := range c.pages.Runs(at, data) {
			list = append(list, fmt.Sprintf("%x %s %d", r.Address, r.Data, r.State))
		}
		if got := strings.Join(list, ", "); got != c.want || c.pages.Equal(at, data) != c.equal {
			t.Errorf("%s: runs %s, equal: %v; want %s, %v", c.name, got, c.pages.Equal(at, data),
				c.want, c.equal)
		}
	}
}

func TestPagesListTouchedPages(t *testing.T) {
	var p Pages
	p.Set(2*PageSize-1, []byte{1, 2})
	p.Touch(5 * PageSize)
	if got := fmt.Sprint(p.Addresses()); got != "[4096 8192 20480]" || p.Touched(0) ||
		!p.Touched(2*PageSize+8) {
		t.Errorf("pages %s, want those at 4096, 8192 and 20480", got)
	}
	if got := p.Bytes(2*PageSize-2, 4); !bytes.Equal(got, []byte{0, 1, 2, 0}) {
		t.Errorf("bytes % x, want 00 01 02 00", got)
	}
}

// TestWriterKeepsTheOrderOfLines: a run of accesses, which waits for further accesses, comes before
// the next line, and times are written in lines of at most 32 bits.
func TestWriterKeepsTheOrderOfLines(t *testing.T) {
	var out bytes.Buffer
	now := time.Duration(0)
	w := NewWriter(&out, func() time.Duration { return now })
	w.Device(0, 0x1234, 0x11e8, "file")
	w.Bar(0, 0, 2, 0, 0x1000)
	now = 5 * time.Second
	w.AddToRun('R', 0, 0, 4, []byte{1, 2, 3, 4})
	w.AddToRun('R', 0, 4, 4, []byte{5, 6, 7, 8})
	w.HostAccess("HR", 0x10008, []byte{9})
	w.AddToRun('W', 0, 0x10, 2, []byte{1, 2})
	w.Memory(0x10000, 0x1000)
	now += 3
	w.Interrupt(0, 1)
	w.End()
	const want = "LMRECORD 2\nDEVICE 0 1234 11e8 file\nBAR 0 0 2 0 1000\nCLK 4294967295\n" +
		"CLK 705032705\nRS 0 4 0 8 0102030405060708\nHR 10008 1 09\nW 0 10 2 0102\n" +
		"MEM 10000 1000\nCLK 3\nIRQ 0 1\nEND 10\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
