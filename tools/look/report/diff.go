package report

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// Difference describes how two images differ. Its JSON is stable.
type Difference struct {
	Equal     bool           `json:"equal"` // at most the origins differ
	Header    []string       `json:"header"`
	Tensors   []string       `json:"tensors"`
	Sequences []SequenceDiff `json:"sequences"` // the sequences that differ
	First     *FirstDiff     `json:"first,omitempty"`
}

// SequenceDiff sums up how the commands of a sequence differ.
type SequenceDiff struct {
	Name string `json:"name"`
	// number of commands in image A, without marks; -1: A has no such sequence
	A int `json:"a"`
	B int `json:"b"` // the same for image B
	// number of commands that differ; if one image has more commands, those between the equal
	// commands at the start and at the end of both
	Changed  int   `json:"changed"`
	DataOnly int   `json:"data"`    // of the Changed commands, those that differ only in payload
	Windows  []int `json:"windows"` // windows of image A that changed commands access
	// number of values that differ and are probably addresses in the recorded program
	Pointers int  `json:"pointers"`
	Marks    bool `json:"marks"` // the marks differ, or precede different commands
	// number within the sequence of the first command that differs or that only one image has; from
	// 0, marks not counted
	FirstCommand int `json:"first_at"`
}

// FirstDiff shows the first command that differs and the commands around it, as lines of a listing.
type FirstDiff struct {
	Sequence string   `json:"sequence"`
	Command  int      `json:"command"` // number in the sequence: from 0, marks not counted
	Before   []string `json:"before"`  // commands before it, which are equal in both images
	A        []string `json:"a"`
	B        []string `json:"b"`
}

// contextLines is the number of commands that are shown before the first difference, and from it
// on.
const contextLines = 3

// Diff compares two images. It ignores their origin.
func Diff(a, b *lmb.Image) *Difference {
	d := &Difference{Header: []string{}, Tensors: []string{}, Sequences: []SequenceDiff{}}
	d.compareHeaders(a, b)
	d.compareTensors(a, b)
	d.compareSequences(a, b)
	d.Equal = len(d.Header)+len(d.Tensors)+len(d.Sequences) == 0
	return d
}

// compareHeaders compares devices and windows by index.
func (d *Difference) compareHeaders(a, b *lmb.Image) {
	for i := range max(len(a.Devices), len(b.Devices)) {
		d.Header = appendDiff(d.Header, fmt.Sprintf("device %d", i), textAt(a.Devices, i,
			deviceText),
			textAt(b.Devices, i, deviceText))
	}
	for i := range max(len(a.Windows), len(b.Windows)) {
		d.Header = appendDiff(d.Header, fmt.Sprintf("window %d", i), textAt(a.Windows, i,
			windowText),
			textAt(b.Windows, i, windowText))
	}
}

// deviceText formats all fields of a device.
func deviceText(t lmb.Device) string {
	text := fmt.Sprintf("%s %04x:%04x", sanitize(t.Board), t.Vendor, t.Device)
	if t.Subsystem != 0 {
		text += fmt.Sprintf(", subsystem %04x:%04x", t.Subsystem&0xffff, t.Subsystem>>16)
	}
	for bar, size := range t.Bars {
		if size != 0 {
			text += fmt.Sprintf(", BAR %d %s", bar, lmb.SizeText(size))
		}
	}
	return text
}

// windowText formats all fields that a window of its kind has.
func windowText(w lmb.Window) string {
	text := lowercase(gen.EnumNamesWindowKind[w.Kind])
	if w.Kind == gen.WindowKindBar {
		text = fmt.Sprintf("BAR %d + 0x%x", w.Bar, w.Offset)
	}
	text = fmt.Sprintf("%s of device %d, %s", text, w.Device, lmb.SizeText(w.Size))
	if w.Name != "" {
		text = sanitize(w.Name) + ": " + text
	}
	if bus := fbs.FixedBusAddress(&w.Window); bus != 0 {
		text += fmt.Sprintf(", bus address 0x%x", bus)
	}
	if w.Slot != fbs.AnySlot {
		text += fmt.Sprintf(", TLB window %d", w.Slot)
	}
	if w.Flags&fbs.FlagWriteCombining != 0 {
		text += ", write-combining"
	}
	return text
}

// textAt formats an element of a list; it returns an empty string if the list is too short.
func textAt[T any](list []T, index int, text func(T) string) string {
	if index >= len(list) {
		return ""
	}
	return text(list[index])
}

func appendDiff(list []string, what, a, b string) []string {
	switch {
	case a == b:
		return list
	case a == "":
		return append(list, fmt.Sprintf("%s is in B only: %s", what, b))
	case b == "":
		return append(list, fmt.Sprintf("%s is in A only: %s", what, a))
	}
	return append(list, fmt.Sprintf("%s: A has %s; B has %s", what, a, b))
}

// compareTensors compares tensors by index, because commands refer to tensors by index.
func (d *Difference) compareTensors(a, b *lmb.Image) {
	for i := range max(len(a.Tensors), len(b.Tensors)) {
		before := len(d.Tensors)
		d.Tensors = appendDiff(d.Tensors, fmt.Sprintf("tensor %d", i), textAt(a.Tensors, i,
			tensorText),
			textAt(b.Tensors, i, tensorText))
		if len(d.Tensors) > before || i >= min(len(a.Tensors), len(b.Tensors)) {
			continue
		}
		if x, y := a.Tensors[i].Data, b.Tensors[i].Data; !bytes.Equal(x, y) {
			d.Tensors = append(d.Tensors, fmt.Sprintf("tensor %s: the data differ from byte %d on",
				sanitize(a.Tensors[i].Name), firstDifferingByte(x, y)))
		}
	}
}

func tensorText(t lmb.Tensor) string {
	data := "no data"
	if t.Data != nil {
		data = "data"
	}
	return fmt.Sprintf("%s %s %s, %s", sanitize(t.Name), lmb.RoleName(t.Role),
		lmb.TypeText(t.DType, t.Shape), data)
}

func firstDifferingByte(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// compareSequences compares the sequences with the same name, in the order of A, and then lists
// those that only B has. A different order is a difference, because a Call refers to a sequence by
// its index.
func (d *Difference) compareSequences(a, b *lmb.Image) {
	byName := map[string]int{}
	for i := range b.Sequences {
		byName[b.Sequences[i].Name] = i
	}
	for i := range a.Sequences {
		s := &a.Sequences[i]
		j, ok := byName[s.Name]
		if !ok {
			d.Sequences = append(d.Sequences, SequenceDiff{Name: s.Name,
				A: countCommands(s.Commands), B: -1, Windows: []int{}})
			continue
		}
		delete(byName, s.Name)
		if i != j {
			d.Header = append(d.Header, fmt.Sprintf("sequence %s is number %d in A, but number "+
				"%d in B",
				sanitize(s.Name), i, j))
		}
		d.compareCommands(a, b, s, &b.Sequences[j])
	}
	for i := range b.Sequences {
		s := &b.Sequences[i]
		if left, ok := byName[s.Name]; ok && left == i {
			d.Sequences = append(d.Sequences, SequenceDiff{Name: s.Name,
				A: -1, B: countCommands(s.Commands), Windows: []int{}})
		}
	}
}

// compareCommands compares two sequences with the same name: first their commands, then their marks
// and the commands that the marks precede.
func (d *Difference) compareCommands(a, b *lmb.Image, s, t *lmb.Sequence) {
	x, y := withoutMarks(s.Commands), withoutMarks(t.Commands)
	diff := SequenceDiff{Name: s.Name, A: len(x), B: len(y), Windows: []int{},
		Marks: !slices.EqualFunc(s.Commands, t.Commands, equalCommandValues)}
	first := commonStart(x, y)
	if first == max(len(x), len(y)) {
		if !diff.Marks {
			return
		}
		// Only marks differ, so the lines around the difference must show marks.
		x, y = s.Commands, t.Commands
		first = commonStart(x, y)
	} else {
		diff.Marks = !slices.Equal(markTexts(s.Commands), markTexts(t.Commands))
		diff.countChanges(x[first:], y[first:])
	}
	diff.FirstCommand = countCommands(x[:first])
	d.Sequences = append(d.Sequences, diff)
	if d.First == nil {
		d.First = &FirstDiff{
			Sequence: s.Name, Command: diff.FirstCommand,
			Before: listingTexts(a, x, first-contextLines, first),
			A:      listingTexts(a, x, first, first+contextLines),
			B:      listingTexts(b, y, first, first+contextLines),
		}
	}
}

// commonStart returns the number of commands at the start of two lists that are equal in both.
func commonStart(x, y []lmb.Command) (n int) {
	for n < min(len(x), len(y)) && equalCommands(&x[n], &y[n]) {
		n++
	}
	return n
}

func equalCommandValues(c, e lmb.Command) bool { return equalCommands(&c, &e) }

func withoutMarks(list []lmb.Command) []lmb.Command {
	if countCommands(list) == len(list) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list),
		func(c lmb.Command) bool { return c.Opcode == lmb.OpcodeMark })
}

// markTexts returns the kinds and names of all marks of a list.
func markTexts(list []lmb.Command) (marks []string) {
	for i := range list {
		if c := &list[i]; c.Opcode == lmb.OpcodeMark {
			marks = append(marks, fmt.Sprint(c.Mode, string(c.Data)))
		}
	}
	return marks
}

// countCommands returns the number of commands in a list, without marks.
func countCommands(list []lmb.Command) (n int) {
	for i := range list {
		if list[i].Opcode != lmb.OpcodeMark {
			n++
		}
	}
	return n
}

func equalCommands(c, e *lmb.Command) bool {
	return c.Command == e.Command && bytes.Equal(c.Data, e.Data)
}

// countChanges counts the commands that differ, without those at the end that are equal in both
// lists. Both lists begin with the first difference.
func (d *SequenceDiff) countChanges(x, y []lmb.Command) {
	for len(x) > 0 && len(y) > 0 && equalCommands(&x[len(x)-1], &y[len(y)-1]) {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	for i := range max(len(x), len(y)) {
		if len(x) == len(y) && equalCommands(&x[i], &y[i]) {
			continue
		}
		d.Changed++
		if len(x) == len(y) {
			d.Pointers += differingPointers(&x[i], &y[i])
		}
		if len(x) == len(y) && x[i].Command == y[i].Command {
			d.DataOnly++
		}
		if i < len(x) && lmb.EffectOf(&x[i].Command).Size > 0 &&
			!slices.Contains(d.Windows, int(x[i].Window)) {
			d.Windows = append(d.Windows, int(x[i].Window))
		}
	}
	slices.Sort(d.Windows)
}

// differingPointers returns the number of values of two commands that differ, and that may be
// addresses of the same object in two runs of a program.
func differingPointers(c, e *lmb.Command) (n int) {
	if c.Opcode != e.Opcode || len(c.Data) != len(e.Data) {
		return 0
	}
	if len(c.Data) == 0 && arePointers(c.Value, e.Value) {
		return 1
	}
	for at := 0; at+8 <= len(c.Data); at += 4 {
		if arePointers(binary.LittleEndian.Uint64(c.Data[at:]),
			binary.LittleEndian.Uint64(e.Data[at:])) {
			n++
			at += 4
		}
	}
	return n
}

// arePointers reports whether two values differ and may be addresses of the same object in two runs
// of a program. Linux loads a program at a different address in each run; the difference is a
// multiple of the page size.
func arePointers(a, b uint64) bool {
	const page = 4096
	return a != b && a%page == b%page && isUserAddress(a) && isUserAddress(b)
}

// isUserAddress reports whether a value may be an address of a program, its heap or a library on
// Linux: bits 40 to 47 are 0x55, 0x56, 0x7e or 0x7f on amd64, and 0xaa or 0xff on arm64.
func isUserAddress(v uint64) bool {
	switch v >> 40 {
	case 0x55, 0x56, 0x7e, 0x7f, 0xaa, 0xff:
		return true
	}
	return false
}

func listingTexts(image *lmb.Image, commands []lmb.Command, from, to int) []string {
	list := []string{}
	for i := max(0, from); i < min(to, len(commands)); i++ {
		list = append(list,
			sanitize(strings.Join(strings.Fields(listing.CommandText(image, &commands[i])), " ")))
	}
	return list
}

// Write prints the difference for a terminal.
func (d *Difference) Write(w io.Writer) error {
	out := bufio.NewWriter(w) // Flush returns the first error
	if d.Equal {
		fmt.Fprintln(out, "the images do the same")
		return out.Flush()
	}
	for _, line := range slices.Concat(d.Header, d.Tensors) {
		fmt.Fprintln(out, line)
	}
	for i := range d.Sequences {
		fmt.Fprintln(out, d.Sequences[i].text())
	}
	if f := d.First; f != nil {
		fmt.Fprintf(out, "\nfirst difference: %s, command %d\n", sanitize(f.Sequence), f.Command)
		for _, line := range f.Before {
			fmt.Fprintf(out, "  %s\n", line)
		}
		writeSide(out, "-", f.A)
		writeSide(out, "+", f.B)
	}
	return out.Flush()
}

func writeSide(w io.Writer, sign string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s %s\n", sign, line)
	}
	if len(lines) == 0 {
		fmt.Fprintf(w, "%s (the sequence ends)\n", sign)
	}
}

func (s *SequenceDiff) text() string {
	name := "sequence " + sanitize(s.Name)
	switch {
	case s.B < 0:
		return fmt.Sprintf("%s is in A only: %s", name, english.Count(s.A, "command"))
	case s.A < 0:
		return fmt.Sprintf("%s is in B only: %s", name, english.Count(s.B, "command"))
	case s.Changed == 0:
		return fmt.Sprintf("%s: the commands are equal, but the marks differ", name)
	}
	text := fmt.Sprintf("%s differs in %s, of which the first is command %d",
		name, english.Count(s.Changed, "command"), s.FirstCommand)
	if s.DataOnly > 0 {
		text += fmt.Sprintf("; in %d of them, only the payload differs", s.DataOnly)
	}
	if s.A != s.B {
		text += fmt.Sprintf("; A has %s, B has %s", english.Count(s.A, "command"),
			english.Number(s.B))
	}
	if s.Marks {
		text += "; the marks differ"
	}
	if s.Pointers > 0 {
		text += fmt.Sprintf("; %d of the differing values are probably addresses "+
			"in the recorded program; they differ between runs, "+
			"which is harmless if the device uses them only as ids", s.Pointers)
	}
	return text
}
