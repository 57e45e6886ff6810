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

	// Adjacent slices that together take less than 1/sliceParts of the run are drawn as one,
	// because a picture is only about a thousand pixels wide.
	sliceParts = 200

	textWidthMin = 3.6 // percent of the picture's width; narrower slices have no text
	tipNameMax   = 40  // characters of a name in a text
	sliceGap     = 0.06

	// A wait of more than this part of the run is drawn shorter, with cutShare percent.
	cutPart  = 0.75
	cutShare = 20

	lastTick = 80 // percent; behind it is the total time
)

// timelinePicture shows a run: time passes from left to right, and nested calls and scopes are in
// lower rows.
type timelinePicture struct {
	Rows   [][]timeSlice
	Ticks  []tick
	Total  string
	Legend []legendEntry // opcodes that occur in the rows
	Failed *tick         // where the run failed
	Cut    *timeSlice    // the wait that is drawn shorter
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

// Late reports whether the total time has no room beside the tick on a phone.
func (t tick) Late() bool { return t.Left > 68 }

// timelineDrawing draws the timeline of a profile. positionText returns the position of a command
// in its sequence. link returns the address of a command in the listing.
type timelineDrawing struct {
	profile      *Profile
	scale        timeScale
	positionText func(command uint32) string
	link         func(command uint32) string
}

// timelinePicture returns the timeline of a profile of this image, nil if it has no times.
func (r *Report) timelinePicture(p *Profile, listing *pageListing) *timelinePicture {
	d := timelineDrawing{profile: p, scale: newTimeScale(p.Timeline), link: listing.commandLink}
	d.positionText = func(command uint32) string {
		sequence, number := r.commandPosition(int(command))
		return fmt.Sprintf("command %d of %s", number, shortenName(sequence, tipNameMax))
	}
	if d.scale.total == 0 {
		return nil
	}
	t := d.newPicture()
	if r.failedCommand(p) != nil {
		sequence, number := r.commandPosition(int(p.Failed.Command))
		text := fmt.Sprintf("failed: %s, command %d", shortenName(sequence, tipNameMax), number)
		t.Failed = &tick{d.scale.percent(min(p.Failed.Ns, d.scale.total)), text}
	}
	return t
}

func (d *timelineDrawing) newPicture() *timelinePicture {
	t := &timelinePicture{Ticks: d.scale.ticks(), Total: lmb.TimeText(d.scale.total),
		Cut: d.scale.cut()}
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
				list = appendMerged(list, s, d.scale.shown()/sliceParts)
			}
		}
		merged += len(row) - len(list)
		if len(list) > 0 {
			t.Rows = append(t.Rows, d.timeSlices(list))
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

func (d *timelineDrawing) timeSlices(row []Slice) (list []timeSlice) {
	for i := range row {
		s := &row[i]
		left := d.scale.percent(s.Start)
		text, width := shortenName(sanitize(s.Name), tipNameMax), d.scale.percent(s.End())-left
		if s.Kind == kindCommands {
			text = fmt.Sprintf("%s × %s", text, countText(s.Count))
		}
		if width < textWidthMin {
			text = ""
		}
		box := timeSlice{Left: left, Width: max(sliceGap, width-sliceGap),
			Class: s.class(), Text: text, Tip: d.tooltip(s), Line: d.link(s.Command)}
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
		return opcodeClass(cmp.Or(s.Opcode, s.MainOpcode))
	case kindSequence, kindCall, kindScope, kindPhase:
		return "kind-" + s.Kind
	}
	return "op-mixed"
}

// colouredOpcodes contains the names of the opcodes that have a colour.
var colouredOpcodes = opcodeNames[:slices.Index(opcodeNames[:], lmb.OpcodeName(gen.OpcodeCall))]

func (d *timelineDrawing) tooltip(s *Slice) string {
	name := shortenName(sanitize(s.Name), tipNameMax)
	text := fmt.Sprintf("%s, duration %s, start at %s", name, lmb.TimeText(s.Ns),
		lmb.TimeText(s.Start))
	switch s.Kind {
	case kindCommand:
		text += "; " + d.positionText(s.Command)
	case kindCommands:
		text += fmt.Sprintf("; %s commands, of which the first is %s", countText(s.Count),
			d.positionText(s.Command))
		if s.MainOpcode != "" {
			text += "; most of the time in " + sanitize(s.MainOpcode)
		}
	default:
		text = sanitize(s.Kind) + " " + text + fmt.Sprintf("; %s commands", countText(s.Count))
	}
	if s.Window != "" {
		window := shortenName(sanitize(s.Window), tipNameMax)
		text += "; " + strings.TrimSpace(window+" "+sanitize(s.Offset))
	}
	if s.Bytes > 0 {
		text += "; " + lmb.SizeText(s.Bytes)
	}
	return text
}

// timelineNotes returns notes on how many slices are drawn as parts of others, and how many are in
// rows that are not drawn.
func (p *Profile) timelineNotes(merged, deep int) (notes []string) {
	if p.MergeNs > 0 {
		notes = append(notes,
			fmt.Sprintf("Timeline: adjacent commands that together take at most %s are one slice, "+
				"in the colour of the opcode that took most of the time.", lmb.TimeText(p.MergeNs)))
	}
	if merged > 0 {
		notes = append(notes,
			fmt.Sprintf("Timeline: %s slices too narrow "+
				"to be seen are drawn together with their neighbours; the trace shows each slice.",
				countText(uint64(merged))))
	}
	if deep > 0 {
		notes = append(notes, fmt.Sprintf("Timeline: %s slices are not drawn, because they are "+
			"nested too deeply.",
			countText(uint64(deep))))
	}
	return notes
}

// legend returns an entry for each opcode whose colour occurs in the rows.
func legend(rows [][]timeSlice) (entries []legendEntry) {
	used := map[string]bool{}
	for _, s := range slices.Concat(rows...) {
		class, _, _ := strings.Cut(s.Class, " ")
		used[class] = true
	}
	for _, word := range colouredOpcodes {
		if class := opcodeClass(word); used[class] {
			entries = append(entries, legendEntry{class, word})
		}
	}
	if class := opcodeClass(""); used[class] {
		entries = append(entries, legendEntry{class, "several opcodes"})
	}
	return entries
}

// timeScale places times on the axis. The wait from cutStart to cutEnd takes only cutShare percent;
// without such a wait, both are total.
type timeScale struct{ total, cutStart, cutEnd int64 }

func newTimeScale(timeline [][]Slice) timeScale {
	total := timelineNs(timeline)
	scale := timeScale{total, total, total}
	if total == 0 || len(timeline) <= rowCommands {
		return scale
	}
	for i := range timeline[rowCommands] {
		s := &timeline[rowCommands][i]
		isWait := s.Name == lmb.OpcodeName(lmb.Poll) || s.Name == lmb.OpcodeName(gen.OpcodeDelay)
		if isWait && s.Ns < total && float64(s.Ns) > cutPart*float64(total) {
			scale.cutStart, scale.cutEnd = s.Start, s.End()
		}
	}
	return scale
}

// shown returns the time that the whole width would have without the cut.
func (s timeScale) shown() int64 {
	if s.cutStart == s.cutEnd {
		return s.total
	}
	return max(1, (s.total-(s.cutEnd-s.cutStart))*100/(100-cutShare))
}

// percent returns the place of a time on the axis.
func (s timeScale) percent(ns int64) float64 {
	perNs := 100 / float64(s.shown())
	switch {
	case ns <= s.cutStart:
		return perNs * float64(ns)
	case ns >= s.cutEnd:
		return 100 - perNs*float64(s.total-ns)
	}
	return perNs*float64(s.cutStart) +
		cutShare*float64(ns-s.cutStart)/float64(s.cutEnd-s.cutStart)
}

// cut returns the place and the time of the wait that is drawn shorter, nil if there is none.
func (s timeScale) cut() *timeSlice {
	if s.cutStart == s.cutEnd {
		return nil
	}
	text := lmb.TimeText(s.cutEnd - s.cutStart)
	cut := &timeSlice{Left: s.percent(s.cutStart), Width: cutShare, Text: text,
		Tip: "a wait of " + text + ", drawn shorter than it is"}
	if s.percent(s.cutEnd) > lastTick {
		cut.Text = "" // the total time is there
	}
	return cut
}

// ticks returns at most ten ticks at round times. Behind a cut, they count from its end. They leave
// room for the total time at the end of the axis, and for the time of a cut.
func (s timeScale) ticks() (list []tick) {
	const room = 12 // percent
	step := roundStep(s.shown() / 10)
	for at := int64(0); at <= s.total; at += step {
		place := s.percent(at)
		if place > lastTick || s.cutStart < s.cutEnd && place+room > s.percent(s.cutStart) {
			break
		}
		list = append(list, tick{place, lmb.TimeText(at)})
	}
	for at := s.cutEnd + step; at < s.total && s.percent(at) <= lastTick; at += step {
		list = append(list, tick{s.percent(at), "+" + lmb.TimeText(at-s.cutEnd)})
	}
	return list
}

// roundStep returns the first of 1, 2, 5, 10, 20 ... that is larger than least.
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
