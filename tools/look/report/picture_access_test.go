package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// accessCellsOf returns the picture of a file and, from its paths, the number of cells by kind.
func accessCellsOf(t *testing.T, file []byte) (*accessPicture, map[string]int) {
	t.Helper()
	p := Analyze(verify(t, file), WholeFile, nil).accessPicture()
	counts := map[string]int{}
	for _, cells := range p.Cells {
		for _, run := range regexp.MustCompile(`h(\d+)`).FindAllStringSubmatch(cells.Path, -1) {
			n, err := strconv.Atoi(run[1])
			if err != nil {
				t.Fatal(err)
			}
			counts[cells.Class] += n
		}
		if counts[cells.Class] != cells.Count {
			t.Errorf("the path of %s has %d cells, want %d", cells.Class, counts[cells.Class],
				cells.Count)
		}
	}
	return p, counts
}

// TestAccessPictureHasTheCellsOfAKnownImage: nine commands, a column each; the 32 bytes from 0x80
// on have two rows, every other range has one.
func TestAccessPictureHasTheCellsOfAKnownImage(t *testing.T) {
	p, got := accessCellsOf(t, assemble(t, edu+`
main:
  write.4 r+0x4 1
  expect.4 r+0x4 == 0xfffffffe
  poll.4 r+0x20 & 0x80 == 0 within 10us
  delay 1us
  write.8 r+0x80 1
  write.8 r+0x88 1
  write.8 r+0x90 1
sub:
  write.8 r+0x98 1
  write.4 r+0x4 2 mask 0xf
`))
	want := map[string]int{"written": 6, "read": 1, "poll": 1, "delay": 1}
	if fmt.Sprint(got) != fmt.Sprint(want) || p.Columns != 9 || len(p.tops) != 1+4 {
		t.Errorf("the picture has %v in %d columns and %d rows, want %v in 9 and 5", got,
			p.Columns, len(p.tops), want)
	}
	second := p.Bands[1].Ranges[2]
	wantPath := fmt.Sprintf("M4 %dh2M6 %dh2", second.Top+p.RowHeight/2,
		second.Top+p.RowHeight+p.RowHeight/2)
	if path := p.Cells[1].Path; !strings.HasSuffix(path, wantPath) {
		t.Errorf("the writes are drawn as %q, want the end %q", path, wantPath)
	}
	if len(p.Sequences) != 2 || p.Sequences[1].Name != "sub" ||
		int(p.Sequences[1].Left) != 77 || int(p.Sequences[1].Width) != 22 {
		t.Errorf("sequences %+v, want sub from 7/9 on", p.Sequences)
	}
}

// TestAccessCellShowsTheWait: a column of several commands shows a poll before what else it has.
func TestAccessCellShowsTheWait(t *testing.T) {
	_, got := accessCellsOf(t, assemble(t, edu+"main:\n"+strings.Repeat(
		"  poll.4 r+0x4 & 0x1 == 0 within 10us\n  write.4 r+0x4 1\n", accessColumnsMax)))
	if len(got) != 1 || got["poll"] != accessColumnsMax {
		t.Errorf("%v cells, want %d polls", got, accessColumnsMax)
	}
}

// TestAccessPictureOfNoiseIsSmall: 300,000 commands store and load, in no order, registers in 128
// ranges of two rows each.
func TestAccessPictureOfNoiseIsSmall(t *testing.T) {
	var text strings.Builder
	text.WriteString(edu + "main:\n")
	for i, state := 0, uint32(1); i < 300_000; i++ {
		state = state*1664525 + 1013904223
		line := "  read.8 r+0x%x\n"
		if state>>16&1 == 0 {
			line = "  write.8 r+0x%x 1\n"
		}
		fmt.Fprintf(&text, line, 0x100+64*(state>>25)+8*(state>>21%3))
	}
	p, got := accessCellsOf(t, assemble(t, text.String()))
	size := 0
	for _, cells := range p.Cells {
		size += len(cells.Path)
	}
	if len(p.tops) != accessRowsMax || p.Columns != accessColumnsMax || size > accessBytesMax ||
		got["read"] < 50_000 || got["written"] < 50_000 {
		t.Errorf("%d rows, %d columns, %d bytes, cells %v; want %d, %d and at most %d bytes",
			len(p.tops), p.Columns, size, got, accessRowsMax, accessColumnsMax, accessBytesMax)
	}
	t.Logf("%d bytes of paths for %v cells", size, got)
}

// TestFurtherSpacesShareABand: no row is outside the picture, and every access has a band.
func TestFurtherSpacesShareABand(t *testing.T) {
	text := "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\nwindow w tlb size 1MiB\nmain:\n"
	for y := 1; y < 6; y++ {
		for x := 1; x < 10; x++ {
			text += fmt.Sprintf("  point w tile %d,%d address 0x0\n  write.4 w+0x%x 1\n", x, y,
				0x100*x)
		}
	}
	p, got := accessCellsOf(t, assemble(t, text))
	last := p.Bands[len(p.Bands)-1]
	if len(p.Bands) != accessBandsMax+1 || len(p.Notes) == 0 || got["written"] == 0 ||
		!strings.Contains(fmt.Sprint(p.Bands), "13 further address spaces") ||
		last.Top+last.Height > p.Height {
		t.Errorf("%d bands, notes %q, cells %v", len(p.Bands), p.Notes, got)
	}
}
