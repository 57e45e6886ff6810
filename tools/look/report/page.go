package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"lightmetal/tools/image/lmb"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"right":  func(column string) bool { return strings.HasPrefix(column, ">") },
	"column": func(column string) string { return strings.TrimPrefix(column, ">") },
	"number": func(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) },
}).Parse(pageText))

// page is what the template shows. All names in it have gone through plain.
type page struct {
	Title    string
	Subtitle []string
	Figures  []figure
	Timeline *timelinePicture
	Times    []Table // of the profile
	Clock    []string
	Map      *mapPicture
	Grids    []*gridPicture
	Tables   []Table
	Notes    []string
}

// figure is a highlighted number.
type figure struct{ Label, Value, Note string }

// WritePage writes the report as one self-contained page: well-formed XHTML
// that asks for nothing from a network. profile may be nil.
func (r *Report) WritePage(w io.Writer, profile *Profile) error {
	p := page{Title: plain(r.Image), Figures: r.figures(profile), Map: r.mapPicture(),
		Grids: r.gridPictures()}
	p.Subtitle = []string{"for " + r.devicesText()}
	if r.Origin != "" {
		p.Subtitle = append(p.Subtitle, "from "+plain(r.Origin))
	}
	p.Subtitle = append(p.Subtitle, "counted: "+plain(r.Counted)+"; a poll as one load")
	p.Tables = filled(r.tables())
	if profile != nil {
		p.Clock = profile.lines()
		p.Timeline = profile.timelinePicture()
		p.Times = filled(profile.tables())
		if p.Timeline != nil {
			p.Notes = append(p.Notes, p.Timeline.Notes...)
		}
	}
	p.Notes = append(p.Notes, p.Map.Notes...)
	return pageTemplate.Execute(w, &p)
}

// filled leaves out tables without rows and columns without text.
func filled(tables []Table) (list []Table) {
	for _, t := range tables {
		if len(t.Rows) == 0 {
			continue
		}
		widths := t.widths()
		full := Table{Title: t.Title, Note: t.Note, Columns: pick(t.Columns, widths)}
		for _, row := range t.Rows {
			full.addRow(pick(row, widths)...)
		}
		list = append(list, full)
	}
	return list
}

func pick(cells []string, widths []int) (kept []string) {
	for i, cell := range cells {
		if widths[i] > 0 {
			kept = append(kept, cell)
		}
	}
	return kept
}

func (r *Report) figures(profile *Profile) []figure {
	var commands uint64
	var all Traffic
	for i := range r.Opcodes {
		commands = sum(commands, r.Opcodes[i].Count)
		all.add(r.Opcodes[i].Traffic, 1)
	}
	list := []figure{
		{"commands", countText(commands), fmt.Sprintf("in %d sequences", len(r.Sequences))},
		{"bytes in", lmb.SizeText(all.Written), "host to device"},
		{"bytes out", lmb.SizeText(all.Read), "device to host"},
		{"compared", lmb.SizeText(all.Compared), "with golden data"},
		{"waits at most", lmb.WaitText(r.wait()), "in one run"},
	}
	if len(r.Sequences) == 1 {
		list[0].Note = "in 1 sequence"
	}
	if all.Compared == 0 {
		list = slices.Delete(list, 3, 4)
	}
	if profile != nil {
		list = append(profile.figures(), list...)
	}
	return list
}

func (p *Profile) figures() (list []figure) {
	took := figure{"device time", lmb.TimeText(p.MostNs), "of one run on " + plain(p.Device)}
	if whole := p.whole(); whole > 1 {
		took.Note = fmt.Sprintf("longest of %d runs on %s", whole, plain(p.Device))
	}
	if f := p.Failed; f != nil {
		list = append(list, figure{"failed", plain(f.Code),
			"after " + lmb.TimeText(f.Ns) + " on " + plain(p.Device)})
	}
	if p.Virtual {
		took.Label = "virtual time"
	}
	if p.whole() > 0 {
		list = append(list, took)
	}
	return list
}

// wait is the longest that what is counted can wait in one run.
func (r *Report) wait() (us uint64) {
	for i := range r.Sequences {
		if r.of < 0 || r.of == i {
			us = max(us, r.Sequences[i].WaitUs)
		}
	}
	return us
}

// trafficPart is one kind of traffic; its class is its colour on the page.
type trafficPart struct {
	Class, word string
	Bytes       uint64
}

func (t *Traffic) parts() []trafficPart {
	all := []trafficPart{{"written", "in", t.Written}, {"read", "out", t.Read},
		{"compared", "compared", t.Compared}}
	return slices.DeleteFunc(all, func(p trafficPart) bool { return p.Bytes == 0 })
}

// text is "2.2 KiB in, 1 KiB out".
func (t *Traffic) text() string {
	var words []string
	for _, part := range t.parts() {
		words = append(words, lmb.SizeText(part.Bytes)+" "+part.word)
	}
	return strings.Join(words, ", ")
}
