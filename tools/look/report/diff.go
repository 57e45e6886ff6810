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

// Difference is where two images differ. Its JSON is stable.
type Difference struct {
	Equal    bool           `json:"equal"` // in all but their origin
	Header   []string       `json:"header"`
	Tensors  []string       `json:"tensors"`
	Sequence []SequenceDiff `json:"sequences"` // those that differ
	First    *FirstDiff     `json:"first,omitempty"`
}

// SequenceDiff sums up how the commands of a sequence differ.
type SequenceDiff struct {
	Name string `json:"name"`
	A    int    `json:"a"` // commands, marks not counted; -1: it is not in that image
	B    int    `json:"b"`
	// commands that differ; where one image has more, those between what both begin and end with
	Changed  int   `json:"changed"`
	DataOnly int   `json:"data"`    // of those, the ones that differ in payload alone
	Windows  []int `json:"windows"` // of image A, that changed commands go to
	// values that differ and are probably addresses in the program that was recorded
	Pointers int  `json:"pointers"`
	Marks    bool `json:"marks"` // the marks differ, or lie before other commands
	// number within the sequence of the first that differs, or that only one image has: from 0,
	// marks not counted
	FirstAt int `json:"first_at"`
}

// FirstDiff is the first command that differs, with those around it as a
// listing has them.
type FirstDiff struct {
	Sequence string   `json:"sequence"`
	Command  int      `json:"command"` // number in the sequence: from 0, marks not counted
	Before   []string `json:"before"`  // the same in both
	A        []string `json:"a"`
	B        []string `json:"b"`
}

// contextLines is how many commands are shown before and from the first
// difference on.
const contextLines = 3

// Diff compares two images. Where they come from does not count.
func Diff(a, b *lmb.Image) *Difference {
	d := &Difference{Header: []string{}, Tensors: []string{}, Sequence: []SequenceDiff{}}
	d.header(a, b)
	d.tensors(a, b)
	d.sequences(a, b)
	d.Equal = len(d.Header)+len(d.Tensors)+len(d.Sequence) == 0
	return d
}

// header compares devices and windows by index.
func (d *Difference) header(a, b *lmb.Image) {
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
	text := fmt.Sprintf("%s %04x:%04x", plain(t.Board), t.Vendor, t.Device)
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
	text := lower(gen.EnumNamesWindowKind[w.Kind])
	if w.Kind == gen.WindowKindBar {
		text = fmt.Sprintf("BAR %d + 0x%x", w.Bar, w.Offset)
	}
	text = fmt.Sprintf("%s of device %d, %s", text, w.Device, lmb.SizeText(w.Size))
	if w.Name != "" {
		text = plain(w.Name) + ": " + text
	}
	if bus := fbs.FixedBusAddress(&w.Window); bus != 0 {
		text += fmt.Sprintf(", bus address 0x%x", bus)
	}
	if w.Slot != fbs.NoSlot {
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

// tensors compares by place too: commands refer to them by number.
func (d *Difference) tensors(a, b *lmb.Image) {
	for i := range max(len(a.Tensors), len(b.Tensors)) {
		before := len(d.Tensors)
		d.Tensors = appendDiff(d.Tensors, fmt.Sprintf("tensor %d", i), textAt(a.Tensors, i,
			tensorText),
			textAt(b.Tensors, i, tensorText))
		if len(d.Tensors) > before || i >= min(len(a.Tensors), len(b.Tensors)) {
			continue
		}
		if x, y := a.Tensors[i].Data, b.Tensors[i].Data; !bytes.Equal(x, y) {
			d.Tensors = append(d.Tensors, fmt.Sprintf("tensor %s: its data differ from byte %d on",
				plain(a.Tensors[i].Name), firstByte(x, y)))
		}
	}
}

func tensorText(t lmb.Tensor) string {
	data := "no data"
	if t.Data != nil {
		data = "data"
	}
	return fmt.Sprintf("%s %s %s, %s", plain(t.Name), lmb.RoleName(t.Role),
		lmb.TypeText(t.DType, t.Shape), data)
}

func firstByte(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// sequences compares those of one name, in the order of A; then come those
// that only B has. A different order counts, since calls go by number.
func (d *Difference) sequences(a, b *lmb.Image) {
	byName := map[string]int{}
	for i := range b.Sequences {
		byName[b.Sequences[i].Name] = i
	}
	for i := range a.Sequences {
		s := &a.Sequences[i]
		j, ok := byName[s.Name]
		if !ok {
			d.Sequence = append(d.Sequence, SequenceDiff{Name: s.Name, A: number(s.Commands), B: -1,
				Windows: []int{}})
			continue
		}
		delete(byName, s.Name)
		if i != j {
			d.Header = append(d.Header, fmt.Sprintf("sequence %s is number %d of A and %d of B",
				plain(s.Name), i, j))
		}
		d.commands(a, b, s, &b.Sequences[j])
	}
	for i := range b.Sequences {
		s := &b.Sequences[i]
		if left, ok := byName[s.Name]; ok && left == i {
			d.Sequence = append(d.Sequence, SequenceDiff{Name: s.Name, A: -1, B: number(s.Commands),
				Windows: []int{}})
		}
	}
}

// commands compares two sequences of one name: their commands and then, with these, their marks.
func (d *Difference) commands(a, b *lmb.Image, s, t *lmb.Sequence) {
	x, y := withoutMarks(s.Commands), withoutMarks(t.Commands)
	diff := SequenceDiff{Name: s.Name, A: len(x), B: len(y), Windows: []int{},
		Marks: !slices.EqualFunc(s.Commands, t.Commands, sameCommand)}
	first := commonStart(x, y)
	if first == max(len(x), len(y)) {
		if !diff.Marks {
			return
		}
		// Only marks differ: the lines around the difference have to show them.
		x, y = s.Commands, t.Commands
		first = commonStart(x, y)
	} else {
		diff.Marks = !slices.Equal(markTexts(s.Commands), markTexts(t.Commands))
		diff.changed(x[first:], y[first:])
	}
	diff.FirstAt = number(x[:first])
	d.Sequence = append(d.Sequence, diff)
	if d.First == nil {
		d.First = &FirstDiff{
			Sequence: s.Name, Command: diff.FirstAt, Before: texts(a, x, first-contextLines, first),
			A: texts(a, x, first, first+contextLines), B: texts(b, y, first, first+contextLines),
		}
	}
}

// commonStart returns how many commands two lists begin with in common.
func commonStart(x, y []lmb.Command) (n int) {
	for n < min(len(x), len(y)) && same(&x[n], &y[n]) {
		n++
	}
	return n
}

func sameCommand(c, e lmb.Command) bool { return same(&c, &e) }

func withoutMarks(list []lmb.Command) []lmb.Command {
	if number(list) == len(list) {
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

// number returns how many commands a list has; marks do not count.
func number(list []lmb.Command) (n int) {
	for i := range list {
		if list[i].Opcode != lmb.OpcodeMark {
			n++
		}
	}
	return n
}

func same(c, e *lmb.Command) bool {
	return c.Command == e.Command && bytes.Equal(c.Data, e.Data)
}

// changed counts what lies before the part that both lists end with.
func (d *SequenceDiff) changed(x, y []lmb.Command) {
	for len(x) > 0 && len(y) > 0 && same(&x[len(x)-1], &y[len(y)-1]) {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	for i := range max(len(x), len(y)) {
		if len(x) == len(y) && same(&x[i], &y[i]) {
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

// differingPointers returns how many values of two commands differ as addresses in a program do
// between two runs of it.
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

// arePointers reports whether two values differ and may be the address of the same object of a
// program in two runs: Linux puts the program elsewhere each time, by whole pages.
func arePointers(a, b uint64) bool {
	const page = 4096
	return a != b && a%page == b%page && isUserAddress(a) && isUserAddress(b)
}

// isUserAddress reports whether a value is where Linux puts programs, their heaps and libraries:
// bits 40 to 47 are 0x55, 0x56, 0x7e or 0x7f on amd64, and 0xaa or 0xff on arm64.
func isUserAddress(v uint64) bool {
	switch v >> 40 {
	case 0x55, 0x56, 0x7e, 0x7f, 0xaa, 0xff:
		return true
	}
	return false
}

func texts(image *lmb.Image, commands []lmb.Command, from, to int) []string {
	list := []string{}
	for i := max(0, from); i < min(to, len(commands)); i++ {
		list = append(list,
			plain(strings.Join(strings.Fields(listing.CommandText(image, &commands[i])), " ")))
	}
	return list
}

// Write prints the difference for a terminal.
func (d *Difference) Write(w io.Writer) error {
	out := bufio.NewWriter(w) // keeps its first error
	if d.Equal {
		fmt.Fprintln(out, "the images do the same")
		return out.Flush()
	}
	for _, line := range slices.Concat(d.Header, d.Tensors) {
		fmt.Fprintln(out, line)
	}
	for i := range d.Sequence {
		fmt.Fprintln(out, d.Sequence[i].text())
	}
	if f := d.First; f != nil {
		fmt.Fprintf(out, "\nfirst difference: %s, command %d\n", plain(f.Sequence), f.Command)
		for _, line := range f.Before {
			fmt.Fprintf(out, "  %s\n", line)
		}
		side(out, "-", f.A)
		side(out, "+", f.B)
	}
	return out.Flush()
}

func side(w io.Writer, sign string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s %s\n", sign, line)
	}
	if len(lines) == 0 {
		fmt.Fprintf(w, "%s (the sequence ends)\n", sign)
	}
}

func (s *SequenceDiff) text() string {
	name := "sequence " + plain(s.Name)
	switch {
	case s.B < 0:
		return fmt.Sprintf("%s is in A only: %s", name, english.Count(s.A, "command"))
	case s.A < 0:
		return fmt.Sprintf("%s is in B only: %s", name, english.Count(s.B, "command"))
	case s.Changed == 0:
		return fmt.Sprintf("%s: the commands are equal, the marks differ", name)
	}
	text := fmt.Sprintf("%s differs in %s, %d of them in payload alone, from command %d on",
		name, english.Count(s.Changed, "command"), s.DataOnly, s.FirstAt)
	if s.A != s.B {
		text += fmt.Sprintf("; A has %s, B has %s", english.Count(s.A, "command"),
			english.Number(s.B))
	}
	if s.Marks {
		text += "; the marks differ"
	}
	if s.Pointers > 0 {
		text += fmt.Sprintf("; %d of the differing values are probably addresses in the recorded "+
			"program, which change in each run and do not matter if the device uses them only as "+
			"ids", s.Pointers)
	}
	return text
}
