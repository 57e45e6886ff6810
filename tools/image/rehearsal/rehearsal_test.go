package rehearsal

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

const source = `lightmetal 1
device wormhole 1e52:401e bar0 512MiB
window r bar0 offset 0x1fc00000 size 4KiB
window l1 tlb size 1MiB
tensor a input uint32[2] = uint32 1 2
main:
  %s
twice:
  expect.4 r+0x8 == 0x5
  compare.4 r+0x40 uint32 == a[0:8]
`

// rehearsalOf returns the rehearsal of main with these commands, after it went through a file.
func rehearsalOf(t *testing.T, commands string) (*Rehearsal, *fbs.View) {
	t.Helper()
	text := fmt.Sprintf(source, strings.ReplaceAll(commands, "; ", "\n  "))
	image, err := listing.Parse("x.lms", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	view := verified(t, image)
	r, err := Of(view, view.SequenceByName("main"))
	if err != nil {
		t.Fatal(err)
	}
	return r, verified(t, r.Image)
}

func verified(t *testing.T, image *lmb.Image) *fbs.View {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func TestChecksBecomeCopiesAndAllElseStays(t *testing.T) {
	r, view := rehearsalOf(t, "delay 1us; expect.4 r+0x4 == 0x2; read.4 r+0x4; "+
		"expect.4 r+0x4 == 0x3 else ignore; poll.4 r+0x4 == 0x2 within 1ms; call twice; fence; "+
		"call twice")
	var got strings.Builder
	image, err := lmb.FromView(view)
	if err != nil {
		t.Fatal(err)
	}
	for c := range image.Sequences[0].All() {
		fmt.Fprintln(&got, listing.CommandText(image, c))
	}
	const twice = "copy.4 rehearsal[%d:%d] <- r+0x8\ncopy.4 rehearsal[%d:%d] <- r+0x40\n"
	want := "delay 1us\ncopy.4 rehearsal[0:4] <- r+0x4\nread.4 r+0x4\n" +
		"expect.4 r+0x4 == 0x3 else ignore\npoll.4 r+0x4 == 0x2 within 1ms\n" +
		fmt.Sprintf(twice, 8, 12, 16, 24) + "fence\n" + fmt.Sprintf(twice, 24, 28, 32, 40)
	if text := strings.Join(strings.Fields(got.String()), " "); text != strings.Join(
		strings.Fields(want), " ") {
		t.Errorf("the rehearsal is\n%swant\n%s", &got, want)
	}
	if c := r.source.Commands[r.Command(6)]; c.Offset != 0x40 {
		t.Errorf("command 6 of the rehearsal is the one at offset %#x, want 0x40", c.Offset)
	}
}

// Each row has commands, what their checks load, and the flags that are proposed.
func TestFlagsFitWhatTheDeviceDid(t *testing.T) {
	const place = "bar0+0x1fc00004"
	for _, c := range []struct {
		name, commands string
		loads          []uint64
		want           []string
	}{
		{"all hold", "expect.4 r+0x4 == 0x2; expect.4 r+0x4 & 0x1 != 0x1", []uint64{2, 0}, nil},
		{"not yet there", "expect.4 r+0x4 == 0x1; expect.4 r+0x4 == 0x2", []uint64{1, 1},
			[]string{"wait " + place}},
		{"another number each time", "expect.4 r+0x4 == 0x9; expect.4 r+0x4 == 0x3",
			[]uint64{7, 5}, []string{"ignore " + place}},
		{"a counter beyond", "expect.4 r+0x4 == 0x3; expect.4 r+0x4 == 0x9", []uint64{5, 11},
			[]string{"reached " + place}},
		{"a job's end, in vain", "expect.4 r+0x4 == 0x2; expect.4 r+0x4 == 0x2", []uint64{0, 0},
			[]string{"wait " + place}},
		{"a bit that is set", "expect.4 r+0x4 & 0x1 != 0x1", []uint64{1},
			[]string{"ignore " + place}},
		{"memory", "compare.4 r+0x40 uint32 == uint32 1", []uint64{3},
			[]string{"ignore bar0+0x1fc00040-0x1fc00043"}},
		{"a tile", "point l1 tile 1,2 address 0x100000; expect.4 l1+0x8 == 0x1", []uint64{0},
			[]string{"wait 1,2,0x100008"}},
		{"an input", "compare.4 r+0x40 uint32 == a[4:8]", []uint64{1},
			[]string{"ignore bar0+0x1fc00040-0x1fc00043"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := rehearsalOf(t, c.commands)
			output := make([]byte, 8*len(c.loads))
			for i, n := range c.loads {
				binary.LittleEndian.PutUint64(output[8*i:], n)
			}
			report := r.Judge(output, len(r.commands),
				func(int) []byte { return []byte{1, 0, 0, 0, 2, 0, 0, 0} },
				func(Mismatch) string { return "" })
			var got []string
			for _, f := range report.Findings {
				got = append(got, f.Flag+" "+f.Place)
			}
			if !slices.Equal(got, c.want) || report.Checks != len(c.loads) {
				t.Errorf("%d checks, flags %q; want %d, %q", report.Checks, got,
					len(c.loads), c.want)
			}
		})
	}
}

func TestChecksBehindTheEndOfTheRunDoNotCount(t *testing.T) {
	r, _ := rehearsalOf(t, "expect.4 r+0x4 == 0x1; poll.4 r+0x8 == 0x1 within 1ms; "+
		"expect.4 r+0x4 == 0x1")
	for ran := 1; ran <= 2; ran++ { // the run ended at the poll, or at the load behind it
		report := r.Judge(make([]byte, 16), ran, nil, func(Mismatch) string { return "" })
		if report.Checks != 1 || report.Differ != 1 {
			t.Errorf("%d commands ran: %d checks of which %d differ, want 1 and 1", ran,
				report.Checks, report.Differ)
		}
	}
}

func TestSequenceWithoutChecksIsNotRehearsed(t *testing.T) {
	image, err := listing.Parse("x.lms", []byte(fmt.Sprintf(source, "delay 1us")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Of(verified(t, image), 0); err == nil ||
		!strings.Contains(err.Error(), "nothing to rehearse") {
		t.Errorf("the error is %v, want one", err)
	}
}
