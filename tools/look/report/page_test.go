package report

import (
	"bytes"
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// elements reads a page as strict XML and counts its elements.
func elements(t *testing.T, page []byte) map[string]int {
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
			t.Fatalf("%v in %.2000s", err, page)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

// asks finds what would make a browser fetch something.
var asks = regexp.MustCompile(`(?i)https?://|\bsrc=|@import|url\(|<link|<iframe|<object|<img`)

func checkPage(t *testing.T, page []byte) map[string]int {
	t.Helper()
	count := elements(t, page)
	text := strings.ReplaceAll(string(page), `xmlns="http://www.w3.org/1999/xhtml"`, "")
	if found := asks.FindString(text); found != "" {
		t.Errorf("the page asks for something: %s", found)
	}
	if strings.Contains(text, "ZgotmplZ") {
		t.Error("a value does not fit its place")
	}
	count["pictures"] = strings.Count(text, ` role="img" aria-label="`) +
		strings.Count(text, `<table class="grid" aria-label="`)
	return count
}

// made is the program and the time of the pages of tests.
var made = Generator{Program: "lm test", Time: time.Date(2026, 11, 25, 22, 30, 0, 0, time.UTC)}

// timelineOf is the timeline of a profile on a page without a listing.
func timelineOf(p *Profile) *timelinePicture {
	return (&Report{view: &fbs.View{}}).timelinePicture(p, &pageListing{})
}

// pageBytesMax is the largest page of any image.
const pageBytesMax = 1 << 20

func pageOf(t *testing.T, file []byte, runs int) []byte {
	t.Helper()
	view := verify(t, file)
	r := Analyze(view, WholeFile, nil)
	r.Image = "test.lmb"
	var p *Profile
	if runs > 0 {
		p, _ = profiled(t, view, device(view), "main", runs)
	}
	var out bytes.Buffer
	if err := r.WritePage(&out, p, made); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPagesAreWholeAndWellFormed(t *testing.T) {
	for name, file := range allImages(t) {
		count := checkPage(t, pageOf(t, file, 0))
		if count["pictures"] < 1 || count["table"] < 4 {
			t.Errorf("%s: %v", name, count)
		}
	}
	for _, name := range replayed {
		text := pageOf(t, read(t, name), 2)
		count := checkPage(t, text)
		grids := 0
		if strings.HasPrefix(name, "wh.") || strings.HasPrefix(name, "bh.") {
			grids = 1
		}
		if count["pictures"] != 2+grids {
			t.Errorf("%s: %d pictures", name, count["pictures"])
		}
		if !bytes.Contains(text, []byte("of 2 runs on mock:")) ||
			!bytes.Contains(text, []byte("time includes 0 ns for the measurement")) {
			t.Errorf("%s: nothing says how the time was taken", name)
		}
	}
}

func TestThePageSaysWhatTheTablesSay(t *testing.T) {
	text := string(pageOf(t, read(t, "wh.twoop.lmb"), 1))
	for _, want := range []string{
		"Tensix tile 1,1: 2,256 bytes written, 1,032 bytes read",   // the grid
		"Tensix tile 1,1 0x20000 to 0x203ff, 1 KiB: 1 KiB written", // the map
		"copy in, duration 12.8 us, ", "; tlb0 0x10000",            // the timeline
		"soft reset", "read output", "CRC-32C", "prefers-color-scheme: dark", "@media print",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestAPageOfASequenceSaysHowLongThatWaits, and not how long another can.
func TestAPageOfASequenceSaysHowLongThatWaits(t *testing.T) {
	view := verify(t, assemble(t,
		edu+"main:\n  call sub\n  delay 1us\nsub:\n  delay 3us\nlong:\n  delay 7ms\n"))
	for sequence, want := range map[int]string{0: "4 us", 1: "3 us", WholeFile: "7 ms"} {
		var out bytes.Buffer
		if err := Analyze(view, sequence, nil).WritePage(&out, nil, made); err != nil {
			t.Fatal(err)
		}
		if want = "<dt>waits at most</dt><dd><b>" + want +
			"</b>"; !strings.Contains(out.String(), want) {
			t.Errorf("sequence %d: no %s", sequence, want)
		}
	}
}

// TestTheAxisOfTimeEndsWithTheRun: the whole time stands at its end, and no number
// is in its way or in another's on the narrowest picture, of 640 pixels.
func TestTheAxisOfTimeEndsWithTheRun(t *testing.T) {
	const glyph = 6.7 / 640 * 100 // percent
	for _, ns := range []int64{1, 99, 300, 1000, 30_600, 999_999, 1 << 40} {
		d := timelineOf(&Profile{Timeline: [][]Slice{{{Ns: ns}}}})
		room := 100 - glyph*float64(len(d.Total))
		if d.Total != lmb.TimeText(ns) || len(d.Ticks) == 0 {
			t.Errorf("%d ns: %+v", ns, d)
		}
		for i, tick := range d.Ticks {
			if i > 0 && tick.Left < d.Ticks[i-1].Left+glyph*float64(len(d.Ticks[i-1].Text)) ||
				tick.Left+glyph*float64(len(tick.Text)) > room {
				t.Errorf("%d ns: %+v is in the way, the end has %v", ns, tick, room)
			}
		}
	}
	if page := pageOf(t, read(t, "edu.lmb"), 1); !bytes.Contains(page, []byte(`class="axis"`)) ||
		bytes.Contains(page, []byte("op-mixed\" style")) {
		t.Error("no axis, or a command without its colour")
	}
}

func TestALargePageIsSmall(t *testing.T) {
	text := pageOf(t, large(t, 3*slicesMax), 1)
	count := checkPage(t, text)
	if len(text) > pageBytesMax || count["i"]+count["div"] > 6000 {
		t.Errorf("%d bytes, %d boxes", len(text), count["i"]+count["div"])
	}
	for _, want := range []string{"What is not drawn",
		"adjacent commands that together take at most", "smallest gaps"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("nothing says %q", want)
		}
	}
}

func TestNamesCannotHurtThePage(t *testing.T) {
	evil := "</script><script>alert(1)</script>&amp;\"'\ufffe" + strings.Repeat("x", 100)
	image, err := lmb.Decode(assemble(t, scopes))
	if err != nil {
		t.Fatal(err)
	}
	image.Origin.Tool, image.Origin.Source = evil, "http\x00"
	image.Windows[0].Name = evil
	image.Tensors = []lmb.Tensor{{Name: evil, Role: gen.RoleInput, DType: gen.DTypeInt8,
		Shape: []uint32{3}, Data: []byte("abc")}}
	for i := range image.Sequences {
		for j := range image.Sequences[i].Commands {
			c := &image.Sequences[i].Commands[j]
			if name := string(c.Data); c.Opcode == lmb.OpcodeMark &&
				(name == "one" || name == "inner" || name == "a") {
				c.Data = []byte(name + evil)
			}
		}
	}
	view := verify(t, encode(t, image))
	p, _ := profiled(t, view, device(view), "main", 1)
	back, err := ReadTrace(bytes.NewReader(trace(t, p)))
	if err != nil {
		t.Fatal(err)
	}
	r := Analyze(view, WholeFile, nil)
	r.Image = evil + "\x01\x1b[2J\u202e"
	var out, text bytes.Buffer
	if err := r.WritePage(&out, back, made); err != nil {
		t.Fatal(err)
	}
	if count := elements(t, out.Bytes()); count["script"] != 1 ||
		bytes.Contains(out.Bytes(), []byte("alert(1)</script>")) {
		t.Errorf("%d scripts", count["script"])
	}
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x01\x1b\x00\u202e") {
		t.Error("control characters reach the terminal")
	}
}

// TestPicturesStayInside holds every box of a timeline inside it and beside the one
// before, and the boxes of a row of the map to what a row has room for.
func TestPicturesStayInside(t *testing.T) {
	for name, file := range allImages(t) {
		for _, row := range Analyze(verify(t, file), WholeFile, nil).mapPicture().Rows {
			if len(row.Boxes) == 0 || len(row.Boxes) > mapBoxesMax {
				t.Errorf("%s: %d boxes", name, len(row.Boxes))
			}
			for _, b := range row.Boxes {
				if !(b.Width > 72 && b.Width < 1000) || len(b.Parts) == 0 {
					t.Errorf("%s: box %+v", name, b)
				}
			}
		}
	}
	view := verify(t, assemble(t, scopes))
	p, _ := profiled(t, view, device(view), "main", 1)
	line := timelineOf(p)
	for _, row := range line.Rows {
		end := 0.0
		for _, s := range row {
			if s.Left < end-0.1 || s.Left+s.Width > 100.1 {
				t.Errorf("slice %+v behind %v", s, end)
			}
			end = s.Left + s.Width
		}
	}
	if len(line.Rows) < 3 || len(line.Ticks) < 3 || len(line.Ticks) > 10 {
		t.Errorf("%d rows, ticks %+v", len(line.Rows), line.Ticks)
	}
}

func TestTicksAreRound(t *testing.T) {
	for _, total := range []int64{1, 9, 100, 31_100, 85_600, 999_999, 3_556_300, 1 << 40, 1 << 62} {
		list := ticks(total)
		if len(list) < 1+int(min(1, total/9))*3 || len(list) > 10 {
			t.Errorf("%d: %d ticks", total, len(list))
		}
	}
}
