package report

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/align"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// Difference describes how two images differ. Its JSON is stable.
type Difference struct {
	Equal     bool           `json:"equal"`     // at most the origins differ
	DataOnly  bool           `json:"data_only"` // only payload and the data of tensors differ
	Header    []string       `json:"header"`
	Tensors   []string       `json:"tensors"`
	Sequences []SequenceDiff `json:"sequences"` // the sequences that differ

	dataOfTensors int // elements of Tensors that are only about data
}

// SequenceDiff sums up how the commands of a sequence differ.
type SequenceDiff struct {
	Name string `json:"name"`
	// number of commands in image A, without marks; -1: A has no such sequence
	A int `json:"a"`
	B int `json:"b"` // the same for image B
	// number of commands that differ; between two equal commands, those of the image that has more
	// there
	Changed  int   `json:"changed"`
	DataOnly int   `json:"data"`    // of the Changed commands, those that differ only in payload
	Windows  []int `json:"windows"` // windows of image A that changed commands access
	// number of values that differ and are probably addresses in the recorded program
	Pointers int      `json:"pointers"`
	Marks    bool     `json:"marks"` // the marks differ, or precede different commands
	Changes  []Change `json:"changes"`
	// The longest time that a run of the sequence takes, in microseconds
	LongestA uint64 `json:"longest_a_us"`
	LongestB uint64 `json:"longest_b_us"`
}

// Change is consecutive commands of image A, and what image B has in their place, as lines of a
// listing.
type Change struct {
	AtA int      `json:"a_at"` // number of the first command, from 0, marks not counted
	AtB int      `json:"b_at"`
	A   []string `json:"a"`
	B   []string `json:"b"`
	// Commands that differ only in payload have one line in A, none in B, and the bytes that differ
	Data string `json:"data,omitempty"`

	firstA, endA int // indexes of the commands, marks counted
}

// contextLines is the number of equal commands that are shown before and after a change.
const contextLines = 3

// Diff compares two images, given the longest time of each of their sequences. It ignores their
// origin.
func Diff(a, b *lmb.Image, longestA, longestB []uint64) *Difference {
	d := &Difference{Header: []string{}, Tensors: []string{}, Sequences: []SequenceDiff{}}
	d.compareHeaders(a, b)
	d.compareTensors(a, b)
	d.compareSequences(a, b, longestA, longestB)
	d.Equal = len(d.Header)+len(d.Tensors)+len(d.Sequences) == 0
	d.DataOnly = !d.Equal && len(d.Header) == 0 && d.dataOfTensors == len(d.Tensors) &&
		!slices.ContainsFunc(d.Sequences, func(s SequenceDiff) bool { return !s.isDataOnly() })
	return d
}

// compareHeaders compares devices, windows, rules and rings by index.
func (d *Difference) compareHeaders(a, b *lmb.Image) {
	for i := range max(len(a.Devices), len(b.Devices)) {
		d.Header = appendDiff(d.Header, fmt.Sprintf("device %d", i),
			textAt(a.Devices, i, deviceText), textAt(b.Devices, i, deviceText))
	}
	for i := range max(len(a.Windows), len(b.Windows)) {
		d.Header = appendDiff(d.Header, fmt.Sprintf("window %d", i),
			textAt(a.Windows, i, windowText), textAt(b.Windows, i, windowText))
	}
	for i := range max(len(a.Rules), len(b.Rules)) {
		d.Header = appendDiff(d.Header, fmt.Sprintf("rule %d", i), textAt(a.Rules, i, ruleText),
			textAt(b.Rules, i, ruleText))
	}
	for i := range max(len(a.Rings), len(b.Rings)) {
		d.Header = appendDiff(d.Header, fmt.Sprintf("ring %d", i), textAt(a.Rings, i, ringText),
			textAt(b.Rings, i, ringText))
	}
}

func ringText(r lmb.Ring) string {
	return fmt.Sprintf("%s: 0x%x to 0x%x, first 0x%x", sanitize(r.Name), r.Begin, r.End, r.First)
}

// ruleText formats all fields of a rule.
func ruleText(r lmb.Rule) string {
	text := fmt.Sprintf("%s: BAR %d of device %d, 0x%x to 0x%x, widths", sanitize(r.Name), r.Bar,
		r.Device, r.First, r.Last)
	for width := uint8(1); width <= 8; width *= 2 {
		if r.Widths&width != 0 {
			text += fmt.Sprintf(" %d", width)
		}
	}
	if r.Memory != 0 {
		text += ", memory"
	}
	return text
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
	if t.Vectors != 0 {
		text += fmt.Sprintf(", %d vectors of %s", t.Vectors,
			gen.EnumNamesInterruptKind[t.Interrupts])
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
		d.Tensors = appendDiff(d.Tensors, fmt.Sprintf("tensor %d", i),
			textAt(a.Tensors, i, tensorText), textAt(b.Tensors, i, tensorText))
		if len(d.Tensors) > before || i >= min(len(a.Tensors), len(b.Tensors)) {
			continue
		}
		if x, y := a.Tensors[i].Data, b.Tensors[i].Data; !bytes.Equal(x, y) {
			d.dataOfTensors++
			d.Tensors = append(d.Tensors, fmt.Sprintf("tensor %s: the data differ: %s",
				sanitize(a.Tensors[i].Name), differingBytes(x, y)))
		}
	}
}

// differingBytes describes where two slices of the same size differ.
func differingBytes(a, b []byte) string {
	first, last, n := -1, 0, 0
	for i := range a {
		if a[i] != b[i] {
			if first < 0 {
				first = i
			}
			last = i
			n++
		}
	}
	values := fmt.Sprintf("0x%02x in A, 0x%02x in B", a[first], b[first])
	if n == 1 {
		return fmt.Sprintf("byte %d of %d: %s", first, len(a), values)
	}
	return fmt.Sprintf("%d of %d bytes, from byte %d to %d; the first is %s", n, len(a), first,
		last, values)
}

func tensorText(t lmb.Tensor) string {
	data := "no data"
	if t.Data != nil {
		data = "data"
	}
	text := fmt.Sprintf("%s %s %s, %s", sanitize(t.Name), lmb.RoleName(t.Role),
		lmb.TypeText(t.DType, t.Shape), data)
	first, second := math.Float32frombits(t.Golden.First), math.Float32frombits(t.Golden.Second)
	switch t.Golden.Kind {
	case gen.JudgementTolerance:
		text += fmt.Sprintf(", absolute %g relative %g", first, second)
	case gen.JudgementCorrelation:
		text += fmt.Sprintf(", correlation %g", first)
	}
	return text
}

// compareSequences compares the sequences with the same name, in the order of A, and then lists
// those that only B has. A different order is a difference, because a Call refers to a sequence by
// its index.
func (d *Difference) compareSequences(a, b *lmb.Image, longestA, longestB []uint64) {
	byName := map[string]int{}
	for i := range b.Sequences {
		byName[b.Sequences[i].Name] = i
	}
	for i := range a.Sequences {
		s := &a.Sequences[i]
		j, ok := byName[s.Name]
		if !ok {
			d.Sequences = append(d.Sequences, SequenceDiff{Name: s.Name,
				A: countCommands(s.Commands), B: -1, Windows: []int{}, Changes: []Change{},
				LongestA: longestA[i]})
			continue
		}
		delete(byName, s.Name)
		if i != j {
			d.Header = append(d.Header, fmt.Sprintf("sequence %s is number %d in A, but number "+
				"%d in B", sanitize(s.Name), i, j))
		}
		diff := SequenceDiff{Name: s.Name, Windows: []int{}, Changes: []Change{},
			LongestA: longestA[i], LongestB: longestB[j]}
		diff.compareCommands(a, b, s.Commands, b.Sequences[j].Commands)
		if len(diff.Changes) > 0 || diff.LongestA != diff.LongestB {
			d.Sequences = append(d.Sequences, diff)
		}
	}
	for i := range b.Sequences {
		s := &b.Sequences[i]
		if left, ok := byName[s.Name]; ok && left == i {
			d.Sequences = append(d.Sequences, SequenceDiff{Name: s.Name,
				A: -1, B: countCommands(s.Commands), Windows: []int{}, Changes: []Change{},
				LongestB: longestB[i]})
		}
	}
}

// commandKey is what is equal in commands that differ at most in payload.
type commandKey struct {
	fbs.Command
	mark string
}

func keysOf(list []lmb.Command) []commandKey {
	keys := make([]commandKey, len(list))
	for i := range list {
		keys[i].Command = list[i].Command
		if list[i].Opcode == lmb.OpcodeMark {
			keys[i].mark = string(list[i].Data)
		}
	}
	return keys
}

// compareCommands compares the commands of two sequences, marks included.
func (d *SequenceDiff) compareCommands(a, b *lmb.Image, x, y []lmb.Command) {
	d.A, d.B = countCommands(x), countCommands(y)
	at, numbers := align.Pair{}, align.Pair{}
	for _, p := range append(align.Common(keysOf(x), keysOf(y)), align.Pair{A: len(x), B: len(y)}) {
		if p != at {
			d.addChange(a, b, x, y, at, p, numbers)
		}
		numbers.A += countCommands(x[at.A:p.A])
		numbers.B += countCommands(y[at.B:p.B])
		if p.A == len(x) {
			break
		}
		c, e := &x[p.A], &y[p.B]
		if !bytes.Equal(c.Data, e.Data) {
			d.Changed++
			d.DataOnly++
			d.countCommand(c, e)
			d.Changes = append(d.Changes, Change{AtA: numbers.A, AtB: numbers.B,
				A: listingTexts(a, x, p.A, p.A+1), B: []string{},
				Data: differingBytes(c.Data, e.Data), firstA: p.A, endA: p.A + 1})
		}
		if c.Opcode != lmb.OpcodeMark {
			numbers = align.Pair{A: numbers.A + 1, B: numbers.B + 1}
		}
		at = align.Pair{A: p.A + 1, B: p.B + 1}
	}
	slices.Sort(d.Windows)
}

// addChange adds the commands from `at` to `end`, which only one image has.
func (d *SequenceDiff) addChange(a, b *lmb.Image, x, y []lmb.Command, at, end, numbers align.Pair) {
	d.Changes = append(d.Changes, Change{AtA: numbers.A, AtB: numbers.B,
		A: listingTexts(a, x, at.A, end.A), B: listingTexts(b, y, at.B, end.B), firstA: at.A,
		endA: end.A})
	left, right := withoutMarks(x[at.A:end.A]), withoutMarks(y[at.B:end.B])
	d.Marks = d.Marks || len(left) < end.A-at.A || len(right) < end.B-at.B
	d.Changed += max(len(left), len(right))
	for i := range left {
		if len(left) == len(right) {
			d.countCommand(&left[i], &right[i])
		} else {
			d.countCommand(&left[i], nil)
		}
	}
}

// countCommand counts a changed command c of image A. e is the command of image B in its place, or
// nil if that is unknown.
func (d *SequenceDiff) countCommand(c, e *lmb.Command) {
	if e != nil {
		d.Pointers += differingPointers(c, e)
	}
	if lmb.EffectOf(&c.Command).Size > 0 && !slices.Contains(d.Windows, int(c.Window)) {
		d.Windows = append(d.Windows, int(c.Window))
	}
}

func (d *SequenceDiff) isDataOnly() bool {
	return d.DataOnly > 0 && d.Changed == d.DataOnly && !d.Marks && d.LongestA == d.LongestB
}

func withoutMarks(list []lmb.Command) []lmb.Command {
	if countCommands(list) == len(list) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list),
		func(c lmb.Command) bool { return c.Opcode == lmb.OpcodeMark })
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

// Write prints the difference for a terminal. a is the image that Diff got first.
func (d *Difference) Write(w io.Writer, a *lmb.Image) error {
	out := bufio.NewWriter(w) // Flush returns the first error
	switch {
	case d.Equal:
		fmt.Fprintln(out, "the images do the same")
	case d.DataOnly:
		fmt.Fprintln(out, "the images make the same accesses with other data")
	}
	for _, line := range slices.Concat(d.Header, d.Tensors) {
		fmt.Fprintln(out, line)
	}
	for i := range d.Sequences {
		s := &d.Sequences[i]
		fmt.Fprintln(out, s.text())
		if at := slices.IndexFunc(a.Sequences,
			func(t lmb.Sequence) bool { return t.Name == s.Name }); at >= 0 {
			s.writeChanges(out, a, a.Sequences[at].Commands)
		}
	}
	return out.Flush()
}

// writeChanges prints the changes of a sequence of image a, with the equal commands around them.
func (d *SequenceDiff) writeChanges(w io.Writer, a *lmb.Image, x []lmb.Command) {
	shown := 0 // index of the first command that is not printed yet
	for i := range d.Changes {
		c := &d.Changes[i]
		if from := c.firstA - contextLines; i == 0 || from > shown {
			fmt.Fprintf(w, "@@ %s: command %d of A, %d of B @@\n", sanitize(d.Name), c.AtA, c.AtB)
			shown = max(from, 0)
		}
		writeLines(w, "  ", listingTexts(a, x, shown, c.firstA))
		if c.Data != "" {
			writeLines(w, "~ ", []string{c.A[0], "  " + c.Data})
		} else {
			writeLines(w, "- ", c.A)
			writeLines(w, "+ ", c.B)
		}
		end := min(c.endA+contextLines, len(x))
		if i+1 < len(d.Changes) {
			end = min(end, d.Changes[i+1].firstA)
		}
		writeLines(w, "  ", listingTexts(a, x, c.endA, end))
		shown = end
	}
}

func writeLines(w io.Writer, sign string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "%s%s\n", sign, line)
	}
}

func (s *SequenceDiff) text() string {
	name := "sequence " + sanitize(s.Name)
	switch {
	case s.B < 0:
		return fmt.Sprintf("%s is in A only: %s", name, english.Count(s.A, "command"))
	case s.A < 0:
		return fmt.Sprintf("%s is in B only: %s", name, english.Count(s.B, "command"))
	}
	text := fmt.Sprintf("%s differs in %s", name, english.Count(s.Changed, "command"))
	if s.Changed == 0 {
		text = name + ": the commands are equal"
	}
	if s.DataOnly > 0 {
		text += fmt.Sprintf("; in %d of them, only the payload differs", s.DataOnly)
	}
	if s.A != s.B {
		text += fmt.Sprintf("; A has %s, B has %s", english.Count(s.A, "command"),
			english.Number(s.B))
	}
	if s.LongestA != s.LongestB {
		a, b := lmb.WaitText(s.LongestA), lmb.WaitText(s.LongestB)
		if a == b { // equal in three digits
			a, b = countText(s.LongestA)+" us", countText(s.LongestB)+" us"
		}
		text += fmt.Sprintf("; a run takes at most %s in A, %s in B", a, b)
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
