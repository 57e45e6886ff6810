package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"

	"lightmetal/tools/image/lmb"
)

//go:embed page_diff.html
var diffText string

var diffTemplate = template.Must(template.New("diff").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(pageStyle) },
}).Parse(diffText))

// ComparedImage is one of two images, for the page of their differences.
type ComparedImage struct {
	Name     string `json:"name"`
	Checksum string `json:"image_checksum"`
	SHA256   string `json:"sha256"` // of the file without its signature
}

// Base returns the name of the file without its folder.
func (c ComparedImage) Base() string { return filepath.Base(c.Name) }

// diffPage is the data for page_diff.html. All names in it were changed by sanitize.
type diffPage struct {
	A, B      ComparedImage
	Made      string
	Verdict   string
	Other     []string // differences of devices, windows, rules, order and tensors
	Sequences []sequencePage
}

type sequencePage struct {
	Text    string
	Rows    []diffRow
	Missing int // rows that are left out
}

// diffRow is a line of A beside a line of B.
type diffRow struct {
	Class            string // same, changed, payload, gap
	NumberA, NumberB string
	A, B             string
}

// diffRowsMost limits the size of a page: lm diff prints the rest.
const diffRowsMost = 20_000

// WritePage writes the differences as one self-contained page, with the commands of both images
// side by side. imageA is the image that Diff got first.
func (d *Difference) WritePage(w io.Writer, a, b ComparedImage, imageA *lmb.Image,
	generator Generator) error {
	a.Name, b.Name = sanitize(a.Name), sanitize(b.Name)
	p := diffPage{A: a, B: b, Made: generator.text(), Other: slices.Concat(d.Header, d.Tensors),
		Verdict: "The images differ."}
	switch {
	case d.Equal:
		p.Verdict = "The images do the same."
	case d.DataOnly:
		p.Verdict = "The images make the same accesses with other data."
	}
	rows := 0
	for i := range d.Sequences {
		s := &d.Sequences[i]
		page := sequencePage{Text: s.text()}
		if at := slices.IndexFunc(imageA.Sequences,
			func(t lmb.Sequence) bool { return t.Name == s.Name }); at >= 0 {
			page.Rows = s.rows(imageA, imageA.Sequences[at].Commands)
		}
		if room := diffRowsMost - rows; len(page.Rows) > room {
			page.Missing = len(page.Rows) - room
			page.Rows = page.Rows[:room]
		}
		rows += len(page.Rows)
		p.Sequences = append(p.Sequences, page)
	}
	return diffTemplate.Execute(w, &p)
}

// rows returns the changes of a sequence of image a, with the equal commands around them.
func (d *SequenceDiff) rows(a *lmb.Image, x []lmb.Command) (rows []diffRow) {
	shown := 0 // index of the first command that has no row yet
	for i := range d.Changes {
		c := &d.Changes[i]
		if from := max(c.firstA-contextLines, 0); from > shown {
			rows = append(rows, diffRow{Class: "gap", A: "...", B: "..."})
			shown = from
		}
		for _, line := range listingTexts(a, x, shown, c.firstA) {
			rows = append(rows, diffRow{Class: "same", A: line, B: line})
		}
		if c.Data != "" {
			rows = append(rows, diffRow{"payload", fmt.Sprint(c.AtA), fmt.Sprint(c.AtB), c.A[0],
				"the same command; other data: " + c.Data})
		}
		for j := 0; c.Data == "" && j < max(len(c.A), len(c.B)); j++ {
			row := diffRow{Class: "changed"}
			if j < len(c.A) {
				row.A = c.A[j]
			}
			if j < len(c.B) {
				row.B = c.B[j]
			}
			if j == 0 && row.A != "" {
				row.NumberA = fmt.Sprint(c.AtA)
			}
			if j == 0 && row.B != "" {
				row.NumberB = fmt.Sprint(c.AtB)
			}
			rows = append(rows, row)
		}
		end := min(c.endA+contextLines, len(x))
		if i+1 < len(d.Changes) {
			end = min(end, d.Changes[i+1].firstA)
		}
		for _, line := range listingTexts(a, x, c.endA, end) {
			rows = append(rows, diffRow{Class: "same", A: line, B: line})
		}
		shown = end
	}
	return rows
}
