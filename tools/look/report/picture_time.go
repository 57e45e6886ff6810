package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

const (
	timeRowsMax = 18

	// Of the whole; a picture is about a thousand pixels wide.
	sliceParts = 200 // neighbours that together are shorter than such a part are one

	textWidthMin = 3.6 // percent
	sliceGap     = 0.06
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
	t := &timelinePicture{Ticks: ticks(total), Total: lmb.TimeText(total)}
	merged, deep := 0, 0
	for i, row := range p.Timeline {
		if i >= timeRowsMax {
			deep += len(row)
			continue
		}
		var list []Slice
		for _, s := range row {
			list = joined(list, s, total/sliceParts)
		}
		merged += len(row) - len(list)
		if len(list) > 0 {
			t.Rows = append(t.Rows, drawn(list, 100/float64(total)))
		}
	}
	t.Notes, t.Legend = p.timelineNotes(merged, deep), legend(t.Rows)
	return t
}

// drawn are the boxes of a row. scale is percent a nanosecond.
func drawn(row []Slice, scale float64) (list []timeSlice) {
	for i := range row {
		s := &row[i]
		text, width := plain(s.Name), scale*float64(s.Ns)
		if s.Kind == kindCommands {
			text = fmt.Sprintf("%s × %s", text, countText(s.Count))
		}
		if width < textWidthMin {
			text = ""
		}
		list = append(list, timeSlice{scale * float64(s.Start), max(sliceGap, width-sliceGap),
			s.class(), text, s.tip()})
	}
	return list
}

// class returns the CSS class that colours the slice.
func (s *Slice) class() string {
	switch s.Kind {
	case kindCommand, kindCommands:
		if word := cmp.Or(s.Opcode, s.Mostly); slices.Contains(opcodeWords, word) {
			return "op-" + strings.ReplaceAll(word, " ", "-")
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
	text := fmt.Sprintf("%s, %s, %s after the start", plain(s.Name), lmb.TimeText(s.Ns),
		lmb.TimeText(s.Start))
	switch s.Kind {
	case kindCommand:
		text += fmt.Sprintf("; index %d in the image", s.Command)
	case kindCommands:
		text += fmt.Sprintf("; %s commands from index %d in the image on", countText(s.Count),
			s.Command)
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
		text += "; " + lmb.SizeText(s.Bytes)
	}
	return text
}

// timelineNotes says how many slices are drawn as parts of others, and how many are
// in rows that are not drawn.
func (p *Profile) timelineNotes(merged, deep int) (notes []string) {
	if p.MergeNs > 0 {
		notes = append(notes,
			fmt.Sprintf("Timeline: the profile has neighbouring commands that together take no "+
				"longer than %s as one, in the colour "+
				"of the opcode that took most of it.", lmb.TimeText(p.MergeNs)))
	}
	if merged > 0 {
		notes = append(notes,
			fmt.Sprintf("Timeline: %s slices too narrow to be seen are drawn together with their "+
				"neighbours; the trace has them apart.",
				countText(uint64(merged))))
	}
	if deep > 0 {
		notes = append(notes, fmt.Sprintf("Timeline: %s slices nested too deep are not drawn.",
			countText(uint64(deep))))
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
		list = append(list, tick{100 * float64(at) / float64(total), lmb.TimeText(at)})
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
