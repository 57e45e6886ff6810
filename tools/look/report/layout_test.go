package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/golden"
	"lightmetal/tools/image/lmb"
)

// pictures is a directory for pictures of all pages that TestPageLayoutInABrowser measures.
var pictures = flag.String("pictures", "", "folder to write pictures of all measured pages to")

// failingListing fails at a poll, in a sequence with a call, and then runs the sequence safe.
const failingListing = edu + `
main:
  begin "check the device"
  write.4 r+0x4 0x1
  expect.4 r+0x4 == 0xfffffffe
  end "check the device"
  begin "compute"
  call kick
  poll.4 r+0x20 & 0x81 == 0x80 within 20us
  end "compute"
  write.4 r+0x4 0x2
kick:
  write.4 r+0x20 0x0
  write.4 r+0x8 0x5
safe:
  write.4 r+0x20 0x0
  delay 1us
`

// examplePage returns the page of a profiled run of main.
func examplePage(t *testing.T, name string, file []byte) []byte {
	t.Helper()
	view := verify(t, file)
	p, result := profileRuns(t, view, recordingMock(view), "main", 1)
	if result.Code != hal.OK {
		failure := Failure{Code: result.Code.Error(), Reason: result.Code.Error() + ": " + name,
			Command: result.Command, Got: result.Got, Want: result.Want, Mask: result.Mask,
			Element: result.ElementIndex, Ns: p.MostNs}
		if result.SafeRan {
			failure.Safe = result.SafeSequenceCode.Error()
		}
		for _, s := range p.Timeline[rowCommands] {
			if s.Command == uint32(result.Command) {
				failure.Ns = s.End()
			}
		}
		p.Failed = &failure
	}
	for i := range view.Tensors {
		if tensor := &view.Tensors[i]; tensor.Role == gen.RoleOutput {
			data := view.TensorData(tensor)
			c := (&lmb.Golden{}).Compare(view.Name(tensor.Name), tensor.Dtype,
				tensor.Shape()[:tensor.Dims], data, data)
			p.Golden = append(p.Golden, GoldenResultOf(c))
		}
	}
	r := Analyze(view, WholeFile, nil)
	r.Image, r.Checksum, r.SHA256 = name, view.ID(), fmt.Sprintf("%x", sha256.Sum256(file))
	var out bytes.Buffer
	if err := r.WritePage(&out, p, Generator{Program: "lm 0.1",
		Time: testGenerator.Time}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// layout is the result of testdata/measure.js.
type layout struct {
	Width, Page int
	Dark        bool
	Texts       int
	Outside     []string // texts that are outside of the window
	Overlaps    []string
	Faint       []string // texts with a contrast below 4.5, the limit of WCAG 2.2 AA (1.4.3)
	Small       []string // texts below 11 pixels
	Scrolling   []string // parts that are wider than the window
	Broken      []string // links whose target does not exist
	Headless    []string // tables with columns without a header
	Failure     float64  // end of the banner of a failure; -1: there is no banner
	Marks       int      // number of marks of the failed command
	Beside      bool     // the listing is next to the tables, not below them
	Timeline    float64  // width; -1: there is no timeline
}

// TestPageLayoutInABrowser measures pages in a browser: no text is outside of the window, no texts
// overlap, every text has enough contrast, and every link has a target.
func TestPageLayoutInABrowser(t *testing.T) {
	b := startBrowser(t)
	measure, err := os.ReadFile(filepath.Join("testdata", "measure.js"))
	if err != nil {
		t.Fatal(err)
	}
	_, function, _ := strings.Cut(string(measure), "\nfunction")
	few := []viewport{{1440, 1000, false}, {500, 900, true}, {360, 740, false}}
	all := append([]viewport{{1440, 1000, true}, {900, 1000, false}, {500, 900, false}}, few...)
	all = all[effort.Cases(3, 3, 0):]
	folder := t.TempDir()
	for _, page := range []struct {
		name   string
		file   []byte
		failed bool
		views  []viewport
	}{
		{"wh.twoop.lmb", readImage(t, "wh.twoop.lmb"), false, all},
		{"wh.mlp.lmb", readImage(t, "wh.mlp.lmb"), false, few},
		{"bh.twoop.lmb", readImage(t, "bh.twoop.lmb"), false, few},
		{"multicast.lmb", assemble(t, multicastListing), false, few},
		{"failed.lmb", assemble(t, failingListing), true, all},
		{"large.lmb", largeImage(t, 20_000), false, few},
	} {
		path := filepath.Join(folder, page.name+".html")
		if err := os.WriteFile(path, examplePage(t, page.name, page.file), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, v := range page.views {
			t.Run(page.name+"/"+v.String(), func(t *testing.T) {
				b.t = t
				b.show(path, v)
				var got layout
				b.evaluate("function"+function, &got)
				checkLayout(t, &got, v, page.failed)
				if len(b.requests) != 1 || b.requests[0] != "file://"+path {
					t.Errorf("the page requests %v, want only itself", b.requests)
				}
				if *pictures != "" {
					savePicture(t, b, v, page.name)
				}
			})
		}
	}
}

// TestDiffPageLayoutInABrowser measures the page of two images that differ in data and commands.
func TestDiffPageLayoutInABrowser(t *testing.T) {
	b := startBrowser(t)
	measure, err := os.ReadFile(filepath.Join("testdata", "measure.js"))
	if err != nil {
		t.Fatal(err)
	}
	_, function, _ := strings.Cut(string(measure), "\nfunction")
	path := filepath.Join(t.TempDir(), "diff.html")
	image, err := lmb.Decode(readImage(t, "wh.twoop.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	commands := image.Sequences[0].Commands
	program := slices.IndexFunc(commands, func(c lmb.Command) bool { return len(c.Data) > 100 })
	commands[program].Data[0] ^= 1
	commands[len(commands)-1].Value ^= 0x1000
	page := diffPageOf(t, verify(t, readImage(t, "wh.twoop.lmb")), verify(t, encode(t, image)))
	if err := os.WriteFile(path, page, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, v := range []viewport{{1440, 1000, false}, {1440, 1000, true}, {390, 800, false}} {
		b.show(path, v)
		var got layout
		b.evaluate("function"+function, &got)
		if got.Width != v.width || got.Page > v.width || got.Dark != v.dark || got.Texts < 40 {
			t.Errorf("%v: the browser shows %+v", v, got)
		}
		var narrowest float64
		b.evaluate(`function () { return Math.min.apply(null, Array.prototype.map.call(
			document.querySelectorAll(".sides td:not(.number)"),
			function (e) { return e.getBoundingClientRect().width; })); }`, &narrowest)
		if narrowest < float64(v.width)/4 {
			t.Errorf("%v: a command has only %v pixels", v, narrowest)
		}
		for _, list := range [][]string{got.Outside, got.Overlaps, got.Faint, got.Small} {
			if len(list) > 0 {
				t.Errorf("%v: %d texts are outside, overlap, or are faint or small: %v", v,
					len(list), list[:min(4, len(list))])
			}
		}
		if *pictures != "" {
			savePicture(t, b, v, "diff")
		}
	}
}

// checkLayout compares the layout of a page with the limits for a view. failed is set if the page
// shows a failed run.
func checkLayout(t *testing.T, got *layout, v viewport, failed bool) {
	t.Helper()
	if got.Width != v.width || got.Dark != v.dark || got.Texts < 100 {
		t.Fatalf("the browser shows %+v, want a page of at least 100 texts in the view %v", got, v)
	}
	if got.Page > v.width {
		t.Errorf("the page is %d pixels wide, want at most %d", got.Page, v.width)
	}
	for what, list := range map[string][]string{"outside the window": got.Outside,
		"overlaps": got.Overlaps, "little contrast": got.Faint, "small": got.Small,
		"scrolls sideways": got.Scrolling, "link without a target": got.Broken,
		"columns without a header": got.Headless} {
		if len(list) > 0 {
			t.Errorf("%s: %d texts or elements, such as %v; want none", what, len(list),
				list[:min(4, len(list))])
		}
	}
	if got.Beside != (v.width >= 1180) {
		t.Errorf("listing next to the tables: %v, want %v", got.Beside, v.width >= 1180)
	}
	if got.Timeline < float64(v.width)/3 {
		t.Errorf("the timeline is %v pixels wide, want at least %v", got.Timeline,
			float64(v.width)/3)
	}
	// The failed command has 5 marks: a flag, and marks in the timeline, the listing and two
	// tables.
	switch {
	case failed && (got.Failure < 0 || got.Failure > float64(v.height) || got.Marks < 5):
		t.Errorf("the banner ends at %v, want 0 to %d; the failed command has %d marks, want 5",
			got.Failure, v.height, got.Marks)
	case !failed && (got.Failure >= 0 || got.Marks > 0):
		t.Errorf("a run without a failure has a banner at %v, %d marks", got.Failure, got.Marks)
	}
}

// savePicture writes a picture of the page that the browser shows to the directory pictures.
func savePicture(t *testing.T, b *browser, v viewport, name string) {
	t.Helper()
	path := filepath.Join(*pictures, fmt.Sprintf("%s-%v.png", name, v))
	if err := os.WriteFile(path, b.picture(v.width, 0), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The picture on the front page, README.md.
const (
	picturePath     = "testdata/report.png"
	pictureWidth    = 1280
	pictureHeight   = 1120
	pictureBytesMax = 150 << 10
)

// TestPictureOfTheREADME checks the size of the picture. With the flag -update, it first takes the
// picture again, from the page of wh.twoop.lmb.
func TestPictureOfTheREADME(t *testing.T) {
	if *golden.Update {
		b := startBrowser(t)
		path := filepath.Join(t.TempDir(), "page.html")
		page := examplePage(t, "wh.twoop.lmb", readImage(t, "wh.twoop.lmb"))
		if err := os.WriteFile(path, page, 0o644); err != nil {
			t.Fatal(err)
		}
		b.show(path, viewport{pictureWidth, pictureHeight, false})
		picture := b.picture(pictureWidth, pictureHeight)
		if err := os.WriteFile(picturePath, smallPicture(t, picture), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(picturePath)
	if err != nil {
		t.Fatal(err)
	}
	size, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil || size.Width != pictureWidth || size.Height != pictureHeight ||
		len(file) > pictureBytesMax {
		t.Errorf("%s has %d x %d pixels in %d bytes (%v), want %d x %d in at most %d", picturePath,
			size.Width, size.Height, len(file), err, pictureWidth, pictureHeight, pictureBytesMax)
	}
}

// smallPicture encodes a picture again, with the 256 colours that occur most.
func smallPicture(t *testing.T, file []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	pixels := map[color.Color]int{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			pixels[picture.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(pixels), func(a, b color.Color) int {
		return cmp.Or(pixels[b]-pixels[a], cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	small := image.NewPaletted(bounds, colors[:min(len(colors), 256)])
	draw.Draw(small, bounds, picture, bounds.Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
