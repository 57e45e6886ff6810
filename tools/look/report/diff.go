package report

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
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
	A    int    `json:"a"` // commands, -1: it is not in that image
	B    int    `json:"b"`
	// commands that differ; where one image has more, those between what both begin and end with
	Changed  int   `json:"changed"`
	DataOnly int   `json:"data"`    // of those, the ones that differ in payload alone
	Windows  []int `json:"windows"` // of image A, that changed commands go to
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
	if bus := fbs.FixedBus(&w.Window); bus != 0 {
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
			d.Sequence = append(d.Sequence, SequenceDiff{Name: s.Name, A: len(s.Commands), B: -1,
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
			d.Sequence = append(d.Sequence, SequenceDiff{Name: s.Name, A: -1, B: len(s.Commands),
				Windows: []int{}})
		}
	}
}

func (d *Difference) commands(a, b *lmb.Image, s, t *lmb.Sequence) {
	diff := SequenceDiff{Name: s.Name, A: len(s.Commands), B: len(t.Commands), Windows: []int{}}
	first, x, y := 0, s.Commands, t.Commands
	for first < min(len(x), len(y)) && same(&x[first], &y[first]) {
		first++
	}
	if x, y = x[first:], y[first:]; len(x)+len(y) == 0 {
		return
	}
	diff.FirstAt = number(s.Commands[:first])
	for len(x) > 0 && len(y) > 0 && same(&x[len(x)-1], &y[len(y)-1]) {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	diff.changed(x, y)
	slices.Sort(diff.Windows)
	d.Sequence = append(d.Sequence, diff)
	if d.First == nil {
		d.First = &FirstDiff{
			Sequence: s.Name, Command: diff.FirstAt, Before: texts(a, s, first-contextLines, first),
			A: texts(a, s, first, first+contextLines), B: texts(b, t, first, first+contextLines),
		}
	}
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

// changed counts what lies between the parts that are the same in both.
func (d *SequenceDiff) changed(x, y []lmb.Command) {
	for i := range max(len(x), len(y)) {
		if len(x) == len(y) && same(&x[i], &y[i]) {
			continue
		}
		d.Changed++
		if len(x) == len(y) && x[i].Command == y[i].Command && x[i].Opcode != lmb.OpcodeMark {
			d.DataOnly++
		}
		if i < len(x) && lmb.EffectOf(&x[i].Command).Size > 0 &&
			!slices.Contains(d.Windows, int(x[i].Window)) {
			d.Windows = append(d.Windows, int(x[i].Window))
		}
	}
}

func texts(image *lmb.Image, s *lmb.Sequence, from, to int) []string {
	list := []string{}
	for i := max(0, from); i < min(to, len(s.Commands)); i++ {
		list = append(list,
			plain(strings.Join(strings.Fields(listing.CommandText(image, &s.Commands[i])), " ")))
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
		fmt.Fprintf(out, "\nfirst difference: command %d of %s\n", f.Command, plain(f.Sequence))
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
		return fmt.Sprintf("%s is in A only: %s commands", name, countText(uint64(s.A)))
	case s.A < 0:
		return fmt.Sprintf("%s is in B only: %s commands", name, countText(uint64(s.B)))
	}
	text := fmt.Sprintf("%s: %s commands differ, %s of them in payload alone, from command %d on",
		name, countText(uint64(s.Changed)), countText(uint64(s.DataOnly)), s.FirstAt)
	if s.A != s.B {
		text += fmt.Sprintf("; A has %s commands, B has %s", countText(uint64(s.A)),
			countText(uint64(s.B)))
	}
	return text
}
