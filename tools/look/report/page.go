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

// Generator names the program that makes a page, and the time.
type Generator struct {
	Program string
	Time    time.Time
}

// page is the data for the template page.html. All names in it were changed by sanitize.
type page struct {
	Title    string
	Subtitle []string
	Made     string
	Failure  *failureBanner // nil: no run failed
	Figures  []keyFigure
	Sections []section
	Timeline *timelinePicture
	Times    []pageTable // tables of the profile
	Clock    []string
	Access   *accessPicture // nil: no command accesses anything
	Grids    []*gridPicture
	Tables   []pageTable
	Listing  *pageListing
	Notes    []string
}

// section is an entry of the page's list of contents.
type section struct{ ID, Title string }

// keyFigure is a highlighted number.
type keyFigure struct{ Label, Value, Note string }

// WritePage writes the report as one self-contained page: well-formed XHTML that loads nothing from
// a network. profile may be nil.
func (r *Report) WritePage(w io.Writer, profile *Profile, generator Generator) error {
	p := page{Title: sanitize(r.Image), Subtitle: r.subtitle(), Made: generator.text(),
		Figures: r.keyFigures(profile), Access: r.accessPicture(), Grids: r.gridPictures(),
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
			p.Failure = r.failureBanner(profile, p.Listing)
		}
	}
	if p.Access != nil {
		p.Notes = append(p.Notes, p.Access.Notes...)
	}
	p.Sections = p.contents()
	return pageTemplate.Execute(w, &p)
}

func (r *Report) subtitle() []string {
	list := []string{"For " + r.devicesText(),
		"Identity: checksum " + r.Checksum + ", SHA-256 " + r.SHA256}
	if r.Origin != "" {
		list = append(list, "Made by "+sanitize(r.Origin))
	}
	return append(list, "Counted: "+sanitize(r.Counted)+"; a poll counts as one load")
}

func (m Generator) text() string {
	const day = "2 January 2006, 15:04 UTC"
	return fmt.Sprintf("%s on %s", sanitize(m.Program), m.Time.UTC().Format(day))
}

func (p *page) contents() (list []section) {
	for _, s := range []struct {
		section
		present bool
	}{
		{section{"timeline", "Timeline"}, p.Timeline != nil},
		{section{"memory", "Device memory"}, p.Access != nil},
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

func (r *Report) keyFigures(profile *Profile) []keyFigure {
	var commands uint64
	var all Traffic
	for i := range r.Opcodes {
		commands = cappedSum(commands, r.Opcodes[i].Count)
		all.add(r.Opcodes[i].Traffic, 1)
	}
	list := []keyFigure{
		{"commands", countText(commands), fmt.Sprintf("in %d sequences", len(r.Sequences))},
		{"bytes written", lmb.SizeText(all.Written), "host to device"},
		{"bytes read", lmb.SizeText(all.Read), "device to host"},
		{"compared", lmb.SizeText(all.Compared), "with golden data"},
		{"waits at most", lmb.WaitText(r.longestWaitUs()), "in one run"},
	}
	if len(r.Sequences) == 1 {
		list[0].Note = "in 1 sequence"
	}
	if all.Compared == 0 {
		list = slices.Delete(list, 3, 4)
	}
	if profile != nil {
		list = append(profile.keyFigures(), list...)
	}
	return list
}

func (p *Profile) keyFigures() (list []keyFigure) {
	took := keyFigure{"device time", lmb.TimeText(p.MostNs), "of one run on " + sanitize(p.Device)}
	if whole := p.completedRuns(); whole > 1 {
		took.Note = fmt.Sprintf("longest of %d runs on %s", whole, sanitize(p.Device))
	}
	if p.Virtual {
		took.Label = "virtual time"
	}
	if p.completedRuns() > 0 {
		list = append(list, took)
	}
	return list
}

// longestWaitUs returns the longest time, in microseconds, that a run of a counted sequence can
// wait.
func (r *Report) longestWaitUs() (us uint64) {
	for i := range r.Sequences {
		if r.countedSequence < 0 || r.countedSequence == i {
			us = max(us, r.Sequences[i].WaitUs)
		}
	}
	return us
}

// trafficPart is one kind of traffic. Class is the name of the kind, and the CSS class of its
// colour.
type trafficPart struct {
	Class string
	Bytes uint64
}

func (t *Traffic) parts() []trafficPart {
	all := []trafficPart{{"written", t.Written}, {"read", t.Read}, {"compared", t.Compared}}
	return slices.DeleteFunc(all, func(p trafficPart) bool { return p.Bytes == 0 })
}

// text returns a text such as "2.2 KiB written, 1 KiB read".
func (t *Traffic) text() string {
	var words []string
	for _, part := range t.parts() {
		words = append(words, lmb.SizeText(part.Bytes)+" "+part.Class)
	}
	return strings.Join(words, ", ")
}
