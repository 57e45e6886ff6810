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
	timeRowsMax = 18

	// In percent of the whole; a picture is about a thousand pixels wide.
	sliceWidthMin = 0.25 // narrower neighbours are one
	textWidthMin  = 3.6
	sliceGap      = 0.06
)

// timelinePicture is a run from left to right, nested downwards.
type timelinePicture struct {
	Rows   [][]timeSlice
	Ticks  []tick
	Total  string
	Legend []string // opcodes that there are
	Notes  []string
}

// timeSlice is a box of a row: where it begins and how wide it is, in percent.
type timeSlice struct {
	Left, Width      float64
	Class, Text, Tip string
}

// tick is a time on the axis.
type tick struct {
	Left float64 // percent
	Text string
}

func (p *Profile) timelinePicture() *timelinePicture {
	total := tookOf(p.Timeline)
	if total == 0 {
		return nil
	}
	d := &timeDrawing{scale: 100 / float64(total)}
	t := &timelinePicture{Ticks: ticks(total), Total: timeText(total)}
	for i, row := range p.Timeline {
		if i >= timeRowsMax {
			d.deep += len(row)
		} else if len(row) > 0 {
			t.Rows = append(t.Rows, d.row(row))
		}
	}
	t.Notes, t.Legend = d.notes(p), legend(t.Rows)
	return t
}

// timeDrawing draws slices that come in the order of their start.
type timeDrawing struct {
	scale  float64 // percent a nanosecond
	merged uint64  // slices that were too narrow
	deep   int     // slices below the last row
}

// timeRow is a row, and what of it has not been drawn: narrow slices side by side.
type timeRow struct {
	drawn []timeSlice
	narrow
}

type narrow struct {
	count, commands uint64
	start, end, ns  int64
	classes         map[string]int64 // nanoseconds
}

func (d *timeDrawing) row(list []Slice) []timeSlice {
	row := timeRow{}
	for i := range list {
		s := &list[i]
		x, width := d.scale*float64(s.Start), d.scale*float64(s.Ns)
		if row.count > 0 && (width >= sliceWidthMin || x > d.scale*float64(row.end)+sliceWidthMin || x-d.scale*float64(row.start) > 2*sliceWidthMin) {
			row.flush(d)
		}
		if width < sliceWidthMin {
			row.add(s)
		} else {
			row.draw(d.scale, s)
		}
	}
	row.flush(d)
	return row.drawn
}

func (r *narrow) add(s *Slice) {
	if r.count == 0 {
		*r = narrow{start: s.Start, classes: map[string]int64{}}
	}
	r.classes[s.class()] += s.Ns
	r.count++
	r.commands += s.Count
	r.ns += s.Ns
	r.end = max(r.end, s.End())
}

// class is the colour that most of the time has.
func (r *narrow) class() string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(r.classes)), func(a, b string) int { return cmp.Compare(r.classes[a], r.classes[b]) })
}

// flush draws the narrow slices of a row as one.
func (r *timeRow) flush(d *timeDrawing) {
	if r.count == 0 {
		return
	}
	if r.count > 1 {
		d.merged += r.count
	}
	tip := fmt.Sprintf("%s commands in %s, %s after the start", countText(r.commands), timeText(r.ns), timeText(r.start))
	r.box(d.scale*float64(r.start), d.scale*float64(r.end-r.start), r.class(), "", tip)
	r.narrow = narrow{}
}

func (r *timeRow) draw(scale float64, s *Slice) {
	text := plain(s.Name)
	if s.Kind == kindCommands {
		text = fmt.Sprintf("%s × %s", text, countText(s.Count))
	}
	r.box(scale*float64(s.Start), scale*float64(s.Ns), s.class(), text, s.tip())
}

func (r *timeRow) box(x, width float64, class, text, tip string) {
	if width < textWidthMin {
		text = ""
	}
	r.drawn = append(r.drawn, timeSlice{x, max(sliceGap, width-sliceGap), class, text, tip})
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
		notes = append(notes, fmt.Sprintf("Timeline: %s slices nested too deep are not drawn.", countText(uint64(d.deep))))
	}
	return notes
}

func legend(rows [][]timeSlice) (words []string) {
	used := map[string]bool{}
	for _, s := range slices.Concat(rows...) {
		used[s.Class] = true
	}
	for _, word := range append(slices.Clone(opcodeWords), "mixed") {
		if used["op-"+word] {
			words = append(words, word)
		}
	}
	return words
}

// ticks marks an axis of time in round numbers, ten at most. The last is far enough
// from the end for the number there.
func ticks(total int64) (list []tick) {
	step := roundStep(total / 10)
	for at := int64(0); float64(at) <= 0.85*float64(total); at += step {
		list = append(list, tick{100 * float64(at) / float64(total), timeText(at)})
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
