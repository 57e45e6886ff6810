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
	tipName      = 40  // characters of a name
	sliceGap     = 0.06
)

// timelinePicture is a run from left to right, nested downwards.
type timelinePicture struct {
	Rows   [][]timeSlice
	Ticks  []tick
	Total  string
	Legend []heat // opcodes that there are
	Failed *tick  // where the run failed
	Notes  []string
}

// timeSlice is a box of a row: where it begins and how wide it is, in percent. Line is the address
// of its command in the listing.
type timeSlice struct {
	Left, Width            float64
	Class, Text, Tip, Line string
}

// tick is a time on the axis.
type tick struct {
	Left float64 // percent
	Text string
}

// timelineDrawing draws the timeline of a profile. place names a command by its index, and line
// is its address in the listing.
type timelineDrawing struct {
	profile *Profile
	total   int64
	place   func(command uint32) string
	line    func(command uint32) string
}

// timelinePicture returns the timeline of a profile of this image, nil if it has no times.
func (r *Report) timelinePicture(p *Profile, listing *pageListing) *timelinePicture {
	d := timelineDrawing{profile: p, total: tookOf(p.Timeline), line: listing.commandLink}
	d.place = func(command uint32) string {
		sequence, number := r.placeOf(int(command))
		return fmt.Sprintf("command %d of %s", number, shortenName(sequence, tipName))
	}
	if d.total == 0 {
		return nil
	}
	t := d.picture()
	if r.failedCommand(p) != nil {
		sequence, number := r.placeOf(int(p.Failed.Command))
		text := fmt.Sprintf("failed: %s, command %d", shortenName(sequence, tipName), number)
		t.Failed = &tick{100 * float64(min(p.Failed.Ns, d.total)) / float64(d.total), text}
	}
	return t
}

func (d *timelineDrawing) picture() *timelinePicture {
	t := &timelinePicture{Ticks: ticks(d.total), Total: lmb.TimeText(d.total)}
	merged, deep := 0, 0
	for i, row := range d.profile.Timeline {
		if i >= timeRowsMax {
			deep += len(row)
			continue
		}
		var list []Slice
		for _, s := range row {
			alone := d.hasFailed(&s) || len(list) > 0 && d.hasFailed(&list[len(list)-1])
			if alone {
				list = append(list, s)
			} else {
				list = joined(list, s, d.total/sliceParts)
			}
		}
		merged += len(row) - len(list)
		if len(list) > 0 {
			t.Rows = append(t.Rows, d.boxes(list))
		}
	}
	t.Notes, t.Legend = d.profile.timelineNotes(merged, deep), legend(t.Rows)
	return t
}

// hasFailed reports whether a slice ends with the command that failed.
func (d *timelineDrawing) hasFailed(s *Slice) bool {
	f := d.profile.Failed
	if f == nil || f.Command < 0 || s.Kind != kindCommand && s.Kind != kindCommands {
		return false
	}
	if s.Kind == kindCommand && s.Command != uint32(f.Command) {
		return false
	}
	return s.Start <= f.Ns && s.End() == f.Ns
}

// boxes returns the boxes of a row.
func (d *timelineDrawing) boxes(row []Slice) (list []timeSlice) {
	scale := 100 / float64(d.total) // percent a nanosecond
	for i := range row {
		s := &row[i]
		text, width := shortenName(plain(s.Name), tipName), scale*float64(s.Ns)
		if s.Kind == kindCommands {
			text = fmt.Sprintf("%s × %s", text, countText(s.Count))
		}
		if width < textWidthMin {
			text = ""
		}
		box := timeSlice{Left: scale * float64(s.Start), Width: max(sliceGap, width-sliceGap),
			Class: s.class(), Text: text, Tip: d.tip(s), Line: d.line(s.Command)}
		if d.hasFailed(s) {
			box.Class += " failed"
			box.Tip = "failed: " + box.Tip
		}
		list = append(list, box)
	}
	return list
}

// class returns the CSS class that colours the slice.
func (s *Slice) class() string {
	switch s.Kind {
	case kindCommand, kindCommands:
		return opcodeClass(cmp.Or(s.Opcode, s.Mostly))
	case kindSequence, kindCall, kindScope, kindPhase:
		return "kind-" + s.Kind
	}
	return "op-mixed"
}

// opcodeWords are the opcodes that have a colour.
var opcodeWords = opcodeNames[gen.OpcodeWrite:gen.OpcodeCall]

func (d *timelineDrawing) tip(s *Slice) string {
	name := shortenName(plain(s.Name), tipName)
	text := fmt.Sprintf("%s, %s, %s after the start", name, lmb.TimeText(s.Ns),
		lmb.TimeText(s.Start))
	switch s.Kind {
	case kindCommand:
		text += "; " + d.place(s.Command)
	case kindCommands:
		text += fmt.Sprintf("; %s commands, the first is %s", countText(s.Count),
			d.place(s.Command))
		if s.Mostly != "" {
			text += "; most of the time " + plain(s.Mostly)
		}
	default:
		text = plain(s.Kind) + " " + text + fmt.Sprintf("; %s commands", countText(s.Count))
	}
	if s.Window != "" {
		window := shortenName(plain(s.Window), tipName)
		text += "; " + strings.TrimSpace(window+" "+plain(s.Offset))
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
			fmt.Sprintf("Timeline: adjacent commands that together take at most %s are one "+
				"slice, in the colour of the opcode that took most of the "+
				"time.", lmb.TimeText(p.MergeNs)))
	}
	if merged > 0 {
		notes = append(notes,
			fmt.Sprintf("Timeline: %s slices too narrow to be seen are drawn together with their "+
				"neighbours; the trace shows each slice.",
				countText(uint64(merged))))
	}
	if deep > 0 {
		notes = append(notes, fmt.Sprintf("Timeline: %s slices nested too deep are not drawn.",
			countText(uint64(deep))))
	}
	return notes
}

// legend lists the opcodes whose colour a row has.
func legend(rows [][]timeSlice) (entries []heat) {
	used := map[string]bool{}
	for _, s := range slices.Concat(rows...) {
		class, _, _ := strings.Cut(s.Class, " ")
		used[class] = true
	}
	for _, word := range opcodeWords {
		if class := opcodeClass(word); used[class] {
			entries = append(entries, heat{class, word})
		}
	}
	if class := opcodeClass(""); used[class] {
		entries = append(entries, heat{class, "several opcodes"})
	}
	return entries
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
