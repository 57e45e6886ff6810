package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// countElements parses a page as strict XML and returns the number of its elements by name.
func countElements(t *testing.T, page []byte) map[string]int {
	t.Helper()
	count := map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict = true
	for {
		token, err := d.Token()
		if err == io.EOF {
			return count
		}
		if err != nil {
			t.Fatalf("the page is not well-formed XML: %v in %.2000s", err, page)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

// fetchPattern matches text that would make a browser fetch something.
var fetchPattern = regexp.MustCompile(
	`(?i)https?://|\bsrc=|@import|url\(|<link|<iframe|<object|<img`)

// checkPage fails the test if a page is not well-formed or would fetch something. It returns the
// number of elements by name, and that of pictures.
func checkPage(t *testing.T, page []byte) map[string]int {
	t.Helper()
	count := countElements(t, page)
	text := strings.NewReplacer(`xmlns="http://www.w3.org/1999/xhtml"`, "",
		`xmlns="http://www.w3.org/2000/svg"`, "").Replace(string(page))
	if found := fetchPattern.FindString(text); found != "" {
		t.Errorf("a browser would fetch something for the page: %s", found)
	}
	if strings.Contains(text, "ZgotmplZ") {
		t.Error("the template rejects a value for its place (ZgotmplZ)")
	}
	count["pictures"] = strings.Count(text, ` role="img" aria-label="`) +
		strings.Count(text, `<table class="grid" aria-label="`)
	return count
}

// testGenerator is the program and the time on the pages of tests.
var testGenerator = Generator{Program: "lm test",
	Time: time.Date(2026, 11, 25, 22, 30, 0, 0, time.UTC)}

// timelineOf returns the timeline of a profile for a page without a listing.
func timelineOf(p *Profile) *timelinePicture {
	return (&Report{view: &fbs.View{}}).timelinePicture(p, &pageListing{})
}

// The largest allowed sizes of the picture of accesses, and of a page with it.
const (
	accessBytesMax = 2_000_000
	pageBytesMax   = 1<<20 + accessBytesMax
)

// pageOf returns the page of an image, with a profile of main if runs is not 0.
func pageOf(t *testing.T, file []byte, runs int) []byte {
	t.Helper()
	view := verify(t, file)
	r := Analyze(view, WholeFile, nil)
	r.Image = "test.lmb"
	var p *Profile
	if runs > 0 {
		p, _ = profileRuns(t, view, recordingMock(view), "main", runs)
	}
	var out bytes.Buffer
	if err := r.WritePage(&out, p, testGenerator); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPagesAreCompleteAndWellFormed(t *testing.T) {
	for name, file := range allImages(t) {
		count := checkPage(t, pageOf(t, file, 0))
		if count["pictures"] < 1 || count["table"] < 4 {
			t.Errorf("%s: want at least 1 picture and 4 tables, got %v", name, count)
		}
	}
	for _, name := range replayableImages {
		text := pageOf(t, readImage(t, name), 2)
		count := checkPage(t, text)
		grids := 0
		if strings.HasPrefix(name, "wh.") || strings.HasPrefix(name, "bh.") {
			grids = 1
		}
		if count["pictures"] != 2+grids {
			t.Errorf("%s: %d pictures, want %d", name, count["pictures"], 2+grids)
		}
		if !bytes.Contains(text, []byte("of 2 runs on mock:")) ||
			!bytes.Contains(text, []byte("time includes 0 ns for the measurement")) {
			t.Errorf("%s: the page does not say how the time was measured", name)
		}
	}
}

func TestPageHasTheExpectedTexts(t *testing.T) {
	text := string(pageOf(t, readImage(t, "wh.twoop.lmb"), 1))
	for _, want := range []string{
		"Tensix tile 1,1: 2,256 bytes written, 1,032 bytes read", // the grid
		"; 0x20000 to 0x203ff, 1 KiB (L1)",                       // the accesses
		"copy in, duration 12.8 us, ", "; tlb0 0x10000",          // the timeline
		"soft reset", "read output", "CRC-32C", "prefers-color-scheme: dark", "@media print",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// TestPageOfASequenceShowsItsLongestWait, not that of another sequence.
func TestPageOfASequenceShowsItsLongestWait(t *testing.T) {
	view := verify(t, assemble(t,
		edu+"main:\n  call sub\n  delay 1us\nsub:\n  delay 3us\nlong:\n  delay 7ms\n"))
	for sequence, want := range map[int]string{0: "4 us", 1: "3 us", WholeFile: "7 ms"} {
		var out bytes.Buffer
		if err := Analyze(view, sequence, nil).WritePage(&out, nil, testGenerator); err != nil {
			t.Fatal(err)
		}
		if want = "<dt>waits at most</dt><dd><b>" + want +
			"</b>"; !strings.Contains(out.String(), want) {
			t.Errorf("the page of sequence %d has no %s", sequence, want)
		}
	}
}

// TestTimeAxisEndsWithTheRun: the last number is the time of the run, and no number overlaps
// another one, also behind a wait of nine tenths that is drawn shorter: in a picture of 640 pixels,
// and on a phone, where page.css hides late ticks and every second tick.
func TestTimeAxisEndsWithTheRun(t *testing.T) {
	for _, ns := range []int64{1, 99, 300, 1000, 30_600, 999_999, 3_556_300, 1 << 40} {
		for _, wait := range []Slice{{}, {Name: "poll", Start: ns / 20, Ns: ns - ns/10},
			{Name: "poll", Start: ns / 12, Ns: ns - ns/10}} {
			d := timelineOf(&Profile{Timeline: [][]Slice{{{Ns: ns}}, {}, {wait}}})
			if d.Total != lmb.TimeText(ns) || len(d.Ticks) == 0 {
				t.Errorf("%d ns: the timeline ends with %q and has %d ticks: %+v", ns, d.Total,
					len(d.Ticks), d)
			}
			checkTicks(t, d, d.Ticks, 640)
			var few []tick
			for i, tick := range d.Ticks {
				if i%2 == 0 && !tick.Late() {
					few = append(few, tick)
				}
			}
			checkTicks(t, d, few, 332)
		}
	}
	page := pageOf(t, readImage(t, "edu.lmb"), 1)
	if !bytes.Contains(page, []byte(`class="axis"`)) ||
		bytes.Contains(page, []byte("op-mixed\" style")) {
		t.Error("the page has no time axis, or a command without its colour")
	}
}

// checkTicks compares the ends of ticks in a picture of some pixels with what is behind them.
func checkTicks(t *testing.T, d *timelinePicture, ticks []tick, pixels float64) {
	t.Helper()
	percent := func(text string) float64 { return (6.7*float64(len(text)) + 3) / pixels * 100 }
	if c := d.Cut; c != nil && c.Text != "" {
		if end := c.Left + c.Width/2 + percent(c.Text)/2; end > 100-percent(d.Total) {
			t.Errorf("%s in %v pixels: the time of the break ends at %v", d.Total, pixels, end)
		}
	}
	for i, tick := range ticks {
		limit := 100 - percent(d.Total)
		if i+1 < len(ticks) {
			limit = ticks[i+1].Left
		}
		if d.Cut != nil && tick.Left < d.Cut.Left {
			limit = min(limit, d.Cut.Left)
		}
		if end := tick.Left + percent(tick.Text); end > limit {
			t.Errorf("%s in %v pixels: tick %+v ends at %v, but another number begins at %v",
				d.Total, pixels, tick, end, limit)
		}
	}
}

func TestPageOfALargeImageIsSmall(t *testing.T) {
	text := pageOf(t, largeImage(t, 3*slicesMax), 1)
	count := checkPage(t, text)
	if len(text) > pageBytesMax || count["i"]+count["div"] > 6000 {
		t.Errorf("the page has %d bytes, want at most %d; %d boxes, want at most 6000", len(text),
			pageBytesMax, count["i"]+count["div"])
	}
	for _, want := range []string{"What is not drawn",
		"adjacent commands that together take at most", "smallest gaps"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestNamesAreEscapedOnThePage(t *testing.T) {
	hostile := "</script><script>alert(1)</script>&amp;\"'\ufffe" + strings.Repeat("x", 100)
	image, err := lmb.Decode(assemble(t, scopesListing))
	if err != nil {
		t.Fatal(err)
	}
	image.Origin.Tool, image.Origin.Source = hostile, "http\x00"
	image.Windows[0].Name = hostile
	image.Tensors = []lmb.Tensor{{Name: hostile, Role: gen.RoleInput, DType: gen.DTypeInt8,
		Shape: []uint32{3}, Data: []byte("abc")}}
	for i := range image.Sequences {
		for j := range image.Sequences[i].Commands {
			c := &image.Sequences[i].Commands[j]
			if name := string(c.Data); c.Opcode == lmb.OpcodeMark &&
				(name == "one" || name == "inner" || name == "a") {
				c.Data = []byte(name + hostile)
			}
		}
	}
	view := verify(t, encode(t, image))
	p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
	back, err := ReadTrace(bytes.NewReader(traceFile(t, p)))
	if err != nil {
		t.Fatal(err)
	}
	r := Analyze(view, WholeFile, nil)
	r.Image = hostile + "\x01\x1b[2J\u202e"
	var out, text bytes.Buffer
	if err := r.WritePage(&out, back, testGenerator); err != nil {
		t.Fatal(err)
	}
	if count := countElements(t, out.Bytes()); count["script"] != 1 ||
		bytes.Contains(out.Bytes(), []byte("alert(1)</script>")) {
		t.Errorf("the page has %d scripts, want 1 and no script of a name", count["script"])
	}
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x01\x1b\x00\u202e") {
		t.Error("the text of the report or the profile has control characters")
	}
}

// TestTimelineStaysInside: boxes of a timeline are inside of it and do not overlap.
func TestTimelineStaysInside(t *testing.T) {
	view := verify(t, assemble(t, scopesListing))
	p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
	line := timelineOf(p)
	for _, row := range line.Rows {
		end := 0.0
		for _, s := range row {
			if s.Left < end-0.1 || s.Left+s.Width > 100.1 {
				t.Errorf("slice %+v overlaps the previous one, which ends at %v, or the end", s,
					end)
			}
			end = s.Left + s.Width
		}
	}
	if len(line.Rows) < 3 || len(line.Ticks) < 3 || len(line.Ticks) > 10 {
		t.Errorf("the timeline has %d rows, want at least 3; ticks %+v, want 3 to 10",
			len(line.Rows), line.Ticks)
	}
}

// TestTicksAreFewAndAtRoundTimes: the first tick is at 0, and the distance of two ticks is 1, 2 or
// 5 times a power of ten nanoseconds.
func TestTicksAreFewAndAtRoundTimes(t *testing.T) {
	for _, total := range []int64{1, 9, 100, 31_100, 85_600, 999_999, 3_556_300, 1 << 40, 1 << 62} {
		list := timeScale{total, total, total}.ticks()
		if len(list) < 1+int(min(1, total/9))*3 || len(list) > 10 {
			t.Errorf("%d ns: %d ticks, want 4 to 10 (1 to 10 below 9 ns)", total, len(list))
		}
		if list[0].Left != 0 {
			t.Errorf("%d ns: the first tick is %+v, want it at 0", total, list[0])
		}
		timeOf := func(i int) float64 { return list[i].Left / 100 * float64(total) }
		for i := 1; i < len(list); i++ {
			distance := timeOf(i) - timeOf(i-1)
			factor, _, _ := strings.Cut(fmt.Sprintf("%.3e", distance), "e")
			if !slices.Contains([]string{"1.000", "2.000", "5.000"}, factor) {
				t.Errorf("%d ns: the distance of the ticks %+v and %+v is %g ns, want 1, 2 or 5 "+
					"times a power of ten", total, list[i-1], list[i], distance)
			}
		}
	}
}
