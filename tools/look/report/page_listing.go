package report

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// Limits of the listing on a page: an image has up to 16 million commands.
const (
	listingMax       = 500 // commands
	listingStart     = 8   // commands of each sequence that are shown in any case
	listingSequences = 40  // sequences that are shown in any case
	listingContext   = 3   // commands on each side of a command that a table names
	failureContext   = 12  // commands on each side of the failed command
	listingMarks     = 4   // marks in front of one command
	listingColumns   = 140 // characters of a line
)

// pageListing is the listing of an image, without the parts that do not fit on a page.
type pageListing struct {
	Sequences []listedSequence
	Note      string // says how much is left out; empty: nothing
	shown     map[uint32]bool
}

type listedSequence struct {
	Name, Count string
	Failed      bool
	Lines       []listedLine
}

// listedLine is a line of the listing: a command, a mark or a gap. If Gap or Mark is not empty, all
// other fields are empty.
type listedLine struct {
	Gap, Mark string
	Index     uint32 // index of the command in the image
	Number    string // number of the command in its sequence
	Text      string
	Class     string // CSS class of the opcode's colour
	Time      string // time of the command in the run that the timeline shows
	Failed    bool
}

// listingPicker chooses the commands that a page shows.
type listingPicker struct {
	view  *fbs.View
	shown map[uint32]bool
	limit int
}

// addCommand adds a command to the listing unless the listing is full. It ignores an End, and an
// index outside the image.
func (l *listingPicker) addCommand(index int) {
	if index < 0 || index >= len(l.view.Commands) || len(l.shown) >= l.limit {
		return
	}
	if l.view.Commands[index].Opcode != gen.OpcodeEnd {
		l.shown[uint32(index)] = true
	}
}

func (l *listingPicker) addAround(index, context int) {
	for i := index - context; i <= index+context; i++ {
		l.addCommand(i)
	}
}

// pickCommands returns the commands that a page shows: all of a small image, and of a large one
// the failed command, the commands that tables name, the start of each sequence and the start of
// the image.
func pickCommands(view *fbs.View, profile *Profile) map[uint32]bool {
	l := listingPicker{view: view, shown: map[uint32]bool{}, limit: listingMax}
	if profile != nil {
		if f := profile.Failed; f != nil && f.Command >= 0 {
			l.addAround(int(f.Command), failureContext)
		}
		for _, index := range profile.namedCommands() {
			l.addCommand(int(index))
		}
		for _, index := range profile.namedCommands() {
			l.addAround(int(index), listingContext)
		}
	}
	for i := range min(len(view.Sequences), listingSequences) {
		s := &view.Sequences[i]
		for at := range min(int(s.Count), listingStart) {
			l.addCommand(int(s.First) + at)
		}
	}
	for i := 0; i < len(view.Commands) && len(l.shown) < l.limit; i++ {
		l.addCommand(i)
	}
	return l.shown
}

// namedCommands returns the commands that the tables of a profile name, the slowest first.
func (p *Profile) namedCommands() (list []uint32) {
	for i := range p.Slowest {
		list = append(list, p.Slowest[i].Command)
	}
	for _, spent := range [][]TimeSpent{p.Opcodes, p.Sequences, p.Windows, p.Scopes} {
		for i := range spent[:min(len(spent), listingMax/20)] {
			list = append(list, spent[i].Command)
		}
	}
	return list
}

func (r *Report) listing(profile *Profile) *pageListing {
	view := r.view
	page := &pageListing{shown: pickCommands(view, profile)}
	lines := listingLines{view: view, image: lmb.Header(view), marks: marksOf(view, page.shown),
		times: profile.commandTimes(), failed: -1}
	if profile != nil && profile.Failed != nil {
		lines.failed = int(profile.Failed.Command)
	}
	sequences, commands := 0, 0
	for i := range view.Sequences {
		s := &view.Sequences[i]
		count := int(s.Count) - 1 // End is not counted
		commands += count
		part := listedSequence{Name: sanitize(view.Name(s.Name)),
			Count: countText(uint64(count)) + " commands"}
		if count == 1 {
			part.Count = "1 command"
		}
		part.Failed = lines.failed >= int(s.First) && lines.failed <= int(s.First)+count
		part.Lines = lines.sequenceLines(s, page.shown)
		if len(part.Lines) == 1 && part.Lines[0].Gap != "" {
			continue
		}
		sequences++
		page.Sequences = append(page.Sequences, part)
	}
	if left := commands - len(page.shown); left > 0 {
		page.Note = fmt.Sprintf("The listing shows %s of %s commands and %d of %d sequences: "+
			"the start, and commands that tables name. lm dump --numbers prints all commands.",
			countText(uint64(len(page.shown))), countText(uint64(commands)), sequences,
			len(view.Sequences))
	}
	return page
}

// marksOf returns the marks in front of the shown commands.
func marksOf(view *fbs.View, shown map[uint32]bool) map[uint32][]lmb.Mark {
	marks := map[uint32][]lmb.Mark{}
	notes, err := lmb.ReadNotes(view)
	if err != nil {
		return marks // lm has printed a warning
	}
	for _, m := range notes.Marks {
		index := uint32(m.Command)
		if shown[index] && len(marks[index]) < listingMarks {
			marks[index] = append(marks[index], m)
		}
	}
	return marks
}

// commandTimes returns the time of each command in the run that the timeline shows, without
// commands that share a slice.
func (p *Profile) commandTimes() map[uint32]int64 {
	times := map[uint32]int64{}
	if p == nil || len(p.Timeline) <= rowCommands {
		return times
	}
	for i := range p.Timeline[rowCommands] {
		if s := &p.Timeline[rowCommands][i]; s.Kind == kindCommand {
			times[s.Command] += s.Ns
		}
	}
	return times
}

type listingLines struct {
	view   *fbs.View
	image  *lmb.Image // without commands, for names
	marks  map[uint32][]lmb.Mark
	times  map[uint32]int64
	failed int // index of the failed command, -1: none
}

func (l *listingLines) sequenceLines(s *fbs.Sequence, shown map[uint32]bool) (lines []listedLine) {
	gap := 0
	endGap := func() {
		if gap > 0 {
			lines = append(lines, listedLine{Gap: countText(uint64(gap)) + " left out"})
		}
		gap = 0
	}
	for index := s.First; index < s.First+s.Count-1; index++ {
		if !shown[index] {
			gap++
			continue
		}
		endGap()
		for _, m := range l.marks[index] {
			lines = append(lines, listedLine{Mark: markText(&m)})
		}
		lines = append(lines, l.commandLine(index, index-s.First))
	}
	endGap()
	return lines
}

func (l *listingLines) commandLine(index, number uint32) listedLine {
	c := lmb.CommandAt(l.view, int(index))
	text := strings.Join(strings.Fields(listing.CommandText(l.image, &c)), " ")
	line := listedLine{Index: index, Number: fmt.Sprint(number), Failed: int(index) == l.failed,
		Text:  shortenName(sanitize(text), listingColumns),
		Class: opcodeClass(lmb.OpcodeName(lmb.CommandKind(&c.Command)))}
	if ns, ok := l.times[index]; ok {
		line.Time = lmb.TimeText(ns)
	}
	return line
}

// markText formats a mark as one line of a listing.
func markText(m *lmb.Mark) string {
	const columns = 60
	name := shortenName(sanitize(m.Name), columns)
	switch m.Kind {
	case gen.MarkKindBegin:
		return "begin " + name
	case gen.MarkKindEnd:
		return "end " + name
	}
	return name
}

// opcodeClass returns the CSS class with the colour of an opcode.
func opcodeClass(opcode string) string {
	if !slices.Contains(colouredOpcodes, opcode) {
		return "op-mixed"
	}
	return "op-" + strings.ReplaceAll(opcode, " ", "-")
}

// commandLink returns the address of a command's line on the page, or an empty string if the page
// does not show the command.
func (l *pageListing) commandLink(index uint32) string {
	if !l.shown[index] {
		return ""
	}
	return fmt.Sprintf("#c%d", index)
}
