package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lightmetal/fbs/gen"
)

const (
	timeRowHeight = 24.0
	timeAxis      = 22.0
	timeRowsMax   = 12
	looseRowsMax  = 6
	sliceWidthMin = 2.5 // narrower neighbours are one
)

// timelinePicture is a run from left to right, nested downwards.
type timelinePicture struct {
	Width, Height float64
	Slices        []timeSlice
	Ticks         []label
	End           label // of the axis: the whole time
	TickTop       float64
	Legend        []string // opcodes that there are
	Notes         []string
}

type timeSlice struct {
	X, Y, W, H float64
	Class      string
	Text, Tip  string
}

func (p *Profile) timelinePicture() *timelinePicture {
	if p.Timeline == nil || p.Timeline.Ns == 0 {
		return nil
	}
	d := &timeDrawing{picture: &timelinePicture{Width: pictureWidth}, scale: pictureWidth / float64(p.Timeline.Ns)}
	for i := range p.Timeline.Children {
		d.slice(&p.Timeline.Children[i], 0)
	}
	rows := len(d.rows)
	for i := range d.rows {
		d.flush(i)
	}
	rows += d.loose(p.Loose, rows)
	t := d.picture
	t.Height = timeRowHeight*float64(rows) + timeAxis
	t.TickTop = t.Height - timeAxis
	t.End = label{pictureWidth, t.Height - 6, timeText(p.Timeline.Ns)}
	t.Ticks = ticks(p.Timeline.Ns, d.scale, t.Height-6)
	t.Legend = legend(t.Slices)
	t.Notes = d.notes(p)
	return t
}

// timeDrawing draws slices that come in the order of their start.
type timeDrawing struct {
	picture *timelinePicture
	scale   float64 // pixels a nanosecond
	rows    []timeRow
	merged  uint64 // slices that were too narrow
	deep    uint64 // slices below the last row
}

// timeRow is what of a row has not been drawn: narrow slices side by side.
type timeRow struct {
	count, commands uint64
	start, end, ns  int64
	classes         map[string]int64 // nanoseconds
}

func (d *timeDrawing) slice(s *Slice, depth int) {
	if depth >= timeRowsMax {
		d.deep++
		return
	}
	for len(d.rows) <= depth {
		d.rows = append(d.rows, timeRow{})
	}
	row := &d.rows[depth]
	x, width := d.scale*float64(s.Start), d.scale*float64(s.Ns)
	if row.count > 0 && (width >= sliceWidthMin || x > d.scale*float64(row.end)+sliceWidthMin || x-d.scale*float64(row.start) > 2*sliceWidthMin) {
		d.flush(depth)
	}
	if width < sliceWidthMin {
		row.add(s)
	} else {
		d.draw(s, x, width, depth)
	}
	for i := range s.Children {
		d.slice(&s.Children[i], depth+1)
	}
}

func (r *timeRow) add(s *Slice) {
	if r.count == 0 {
		*r = timeRow{start: s.Start, classes: map[string]int64{}}
	}
	r.classes[s.class()] += s.Ns
	r.count++
	r.commands += s.Count
	r.ns += s.Ns
	r.end = max(r.end, s.End())
}

// class is the colour that most of the time has.
func (r *timeRow) class() string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(r.classes)), func(a, b string) int { return cmp.Compare(r.classes[a], r.classes[b]) })
}

// flush draws the narrow slices of a row as one.
func (d *timeDrawing) flush(depth int) {
	row := &d.rows[depth]
	if row.count == 0 {
		return
	}
	if row.count > 1 {
		d.merged += row.count
	}
	x := d.scale * float64(row.start)
	width := max(1, d.scale*float64(row.end-row.start))
	tip := fmt.Sprintf("%s commands in %s, %s after the start", countText(row.commands), timeText(row.ns), timeText(row.start))
	d.box(x, width, depth, row.class(), "", tip)
	*row = timeRow{}
}

func (d *timeDrawing) draw(s *Slice, x, width float64, depth int) {
	text := plain(s.Name)
	if s.Kind == kindCommands {
		text = fmt.Sprintf("%s × %s", text, countText(s.Count))
	}
	d.box(x, width, depth, s.class(), text, s.tip())
}

func (d *timeDrawing) box(x, width float64, row int, class, text, tip string) {
	if glyphs := int((width - 8) / glyphWidth); len([]rune(text)) > glyphs {
		text = shortened(text, glyphs)
	}
	d.picture.Slices = append(d.picture.Slices, timeSlice{
		X: x, Y: timeRowHeight * float64(row), W: max(1, width-0.6), H: timeRowHeight - 2, Class: class, Text: text, Tip: tip,
	})
}

// shortened is as much of a text as fits, if that is worth anything.
func shortened(text string, glyphs int) string {
	if glyphs < 4 {
		return ""
	}
	return string([]rune(text)[:glyphs-1]) + "…"
}

// class is the slice's colour.
func (s *Slice) class() string {
	switch s.Kind {
	case kindCommand, kindCommands:
		if word := cmp.Or(s.Opcode, s.Mostly); slices.Contains(opcodeWords, word) {
			return "op-" + word
		}
		return "op-mixed"
	case kindSequence, kindCall, kindScope, kindPhase:
		return "kind-" + s.Kind
	}
	return "op-mixed"
}

// opcodeWords are the opcodes that have a colour.
var opcodeWords = opcodeNames[gen.OpcodeWrite:gen.OpcodeCall]

func (s *Slice) tip() string {
	text := fmt.Sprintf("%s, %s, %s after the start", plain(s.Name), timeText(s.Ns), timeText(s.Start))
	switch s.Kind {
	case kindCommand:
		text += fmt.Sprintf("; command %d", s.Command)
	case kindCommands:
		text += fmt.Sprintf("; %s commands from %d on", countText(s.Count), s.Command)
		if s.Mostly != "" {
			text += ", most of the time " + plain(s.Mostly)
		}
	default:
		text = plain(s.Kind) + " " + text + fmt.Sprintf("; %s commands", countText(s.Count))
	}
	if s.Window != "" {
		text += "; " + plain(strings.TrimSpace(s.Window+" "+s.Offset))
	}
	if s.Bytes > 0 {
		text += "; " + bytesText(s.Bytes)
	}
	return text
}

// loose draws scopes that do not nest below the rest, one row a name.
func (d *timeDrawing) loose(list []Slice, from int) int {
	rows := map[string]int{}
	for i := range list {
		s := &list[i]
		row, ok := rows[s.Name]
		if !ok {
			if len(rows) >= looseRowsMax {
				d.deep++
				continue
			}
			row = from + len(rows)
			rows[s.Name] = row
		}
		d.box(d.scale*float64(s.Start), d.scale*float64(s.Ns), row, "kind-scope", plain(s.Name), "scope "+s.tip())
	}
	return len(rows)
}

func (d *timeDrawing) notes(p *Profile) (notes []string) {
	if p.MergeNs > 0 {
		notes = append(notes, fmt.Sprintf("Timeline: the profile has neighbouring commands that together take no longer than %s as one, in the colour "+
			"of the opcode that took most of it.", timeText(p.MergeNs)))
	}
	if d.merged > 0 {
		notes = append(notes, fmt.Sprintf("Timeline: %s slices too narrow to be seen are drawn together with their neighbours; the trace has them apart.",
			countText(d.merged)))
	}
	if d.deep > 0 {
		notes = append(notes, fmt.Sprintf("Timeline: %s slices nested too deep are not drawn.", countText(d.deep)))
	}
	return notes
}

func legend(list []timeSlice) (words []string) {
	used := map[string]bool{}
	for i := range list {
		used[list[i].Class] = true
	}
	for _, word := range append(slices.Clone(opcodeWords), "mixed") {
		if used["op-"+word] {
			words = append(words, word)
		}
	}
	return words
}

// ticks marks an axis of time in round numbers, ten at most, each beside its line and
// short of the number at the end.
func ticks(total int64, scale, y float64) (list []label) {
	step := roundStep(total / 10)
	for at := int64(0); at <= total; at += step {
		x, text := scale*float64(at), timeText(at)
		if x+glyphWidth*float64(len(text)+2+len(timeText(total))) > pictureWidth {
			break
		}
		list = append(list, label{x, y, text})
	}
	return list
}

// roundStep is the first of 1, 2, 5, 10, 20 ... that is more than least.
func roundStep(least int64) int64 {
	step := int64(1)
	for least/step >= 10 {
		step *= 10
	}
	for _, factor := range []int64{1, 2, 5} {
		if step*factor > least {
			return step * factor
		}
	}
	return step * 10
}
