package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lightmetal/tools/image/lmb"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"number": func(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) },
	"style":  func() template.CSS { return template.CSS(pageStyle) },
	"script": func() template.JS { return template.JS(pageScript) },
}).Parse(pageText))

// Made says which program makes a page, and when.
type Made struct {
	Program string
	Time    time.Time
}

// page is what the template shows. All names in it have gone through plain.
type page struct {
	Title    string
	Subtitle []string
	Made     string
	Failure  *failureBanner // nil: no run failed
	Figures  []figure
	Sections []section
	Timeline *timelinePicture
	Times    []pageTable // of the profile
	Clock    []string
	Map      *mapPicture
	Grids    []*gridPicture
	Tables   []pageTable
	Listing  *pageListing
	Notes    []string
}

// section is an entry of the page's list of contents.
type section struct{ ID, Title string }

// figure is a highlighted number.
type figure struct{ Label, Value, Note string }

// WritePage writes the report as one self-contained page: well-formed XHTML
// that asks for nothing from a network. profile may be nil.
func (r *Report) WritePage(w io.Writer, profile *Profile, made Made) error {
	p := page{Title: plain(r.Image), Subtitle: r.subtitle(), Made: made.text(),
		Figures: r.figures(profile), Map: r.mapPicture(), Grids: r.gridPictures(),
		Listing: r.listing(profile)}
	failed := -1
	if r.failedCommand(profile) != nil {
		failed = int(profile.Failed.Command)
	}
	p.Tables = pageTables(r.tables(profile), p.Listing, failed)
	if profile != nil {
		p.Clock = []string{profile.summary(), profile.clockText()}
		p.Timeline = r.timelinePicture(profile, p.Listing)
		p.Times = pageTables(profile.tables(), p.Listing, failed)
		if p.Timeline != nil {
			p.Notes = append(p.Notes, p.Timeline.Notes...)
		}
		if profile.Failed != nil {
			p.Failure = r.banner(profile, p.Listing)
		}
	}
	p.Notes = append(p.Notes, p.Map.Notes...)
	p.Sections = p.contents()
	return pageTemplate.Execute(w, &p)
}

// subtitle returns the lines below the title.
func (r *Report) subtitle() []string {
	list := []string{"For " + r.devicesText()}
	if r.Origin != "" {
		list = append(list, "Made by "+plain(r.Origin))
	}
	return append(list, "Counted: "+plain(r.Counted)+"; a poll counts as one load")
}

func (m Made) text() string {
	const day = "2 January 2006, 15:04 UTC"
	return fmt.Sprintf("%s on %s", plain(m.Program), m.Time.UTC().Format(day))
}

// contents lists the sections that the page has.
func (p *page) contents() (list []section) {
	for _, s := range []struct {
		section
		present bool
	}{
		{section{"timeline", "Timeline"}, p.Timeline != nil},
		{section{"memory", "Device memory"}, len(p.Map.Rows) > 0},
		{section{"tiles", "Tiles"}, len(p.Grids) > 0},
		{section{"times", "Where the time went"}, len(p.Times) > 0},
		{section{"numbers", "In numbers"}, true},
		{section{"listing", "Listing"}, true},
	} {
		if s.present {
			list = append(list, s.section)
		}
	}
	return list
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
