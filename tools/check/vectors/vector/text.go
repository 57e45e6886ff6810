package vector

// This file reads and writes the text of vectors.

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Parse returns the vectors of a text, in their order.
func Parse(text string) (list []*Vector, err error) {
	var v *Vector
	for number, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "vector" {
			v = &Vector{Name: rest, Size: -1}
			list = append(list, v)
			continue
		}
		if v == nil {
			return nil, fmt.Errorf("line %d: the first line must be a vector", number+1)
		}
		p := parser{words: strings.Fields(rest)}
		p.line(v, word, rest)
		if p.err == nil && len(p.words) > 0 {
			p.fail("has too many words")
		}
		if p.err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", number+1, line, p.err)
		}
	}
	return list, nil
}

// parser reads the words of one line. After an error it returns zeros.
type parser struct {
	words []string
	err   error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// word returns the next word.
func (p *parser) word() string {
	if len(p.words) == 0 {
		p.fail("has too few words")
		return ""
	}
	word := p.words[0]
	p.words = p.words[1:]
	return word
}

// number returns the next word as a number, decimal or with the prefix 0x.
func (p *parser) number() uint64 {
	word := p.word()
	n, err := strconv.ParseUint(word, 0, 64)
	if err != nil {
		p.fail("%q is not a number", word)
	}
	return n
}

func (p *parser) index() int { return int(p.number()) }

// bytes returns the next word as bytes in hexadecimal digits.
func (p *parser) bytes() []byte {
	data, err := hex.DecodeString(p.word())
	if err != nil {
		p.fail("has invalid hexadecimal digits")
	}
	return data
}

// space returns the next word as a space.
func (p *parser) space() (s Space) {
	word := p.word()
	number := func(text string) int {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			p.fail("%q is not a BAR, configuration space or host memory", word)
		}
		return int(n)
	}
	if window, isHost := strings.CutPrefix(word, "host"); isHost {
		return OfHost(number(window))
	}
	device, kind, _ := strings.Cut(strings.TrimPrefix(word, "device"), ".")
	if kind == "config" {
		return OfConfig(number(device))
	}
	return OfBar(number(device), number(strings.TrimPrefix(kind, "bar")))
}

// keyword skips the next word if it is the given one.
func (p *parser) keyword(word string) bool {
	found := len(p.words) > 0 && p.words[0] == word
	if found {
		p.words = p.words[1:]
	}
	return found
}

// line adds a line to a vector.
func (p *parser) line(v *Vector, word, rest string) {
	switch word {
	case "format":
		v.Sentences = append(v.Sentences, rest)
		p.words = nil
	case "image":
		v.Image = p.word()
	case "size":
		v.Size = p.index()
	case "patch":
		v.Patches = append(v.Patches, Patch{p.index(), p.bytes()})
	case "access-ns":
		v.AccessNs = int64(p.number())
	case "late-ns":
		v.LateNs = int64(p.number())
	case "limit-us":
		v.LimitUs = p.number()
	case "device":
		d := Device{Index: p.index(), Vendor: uint16(p.number()), Device: uint16(p.number()),
			Subsystem: uint32(p.number())}
		for i := range d.Bars {
			d.Bars[i] = p.number()
		}
		v.Devices = append(v.Devices, d)
	case "bus":
		v.Windows = append(v.Windows, Window{p.index(), p.number()})
	case "reject":
		v.Reject = &Verdict{p.word(), strings.Join(p.words, " ")}
		p.words = nil
	default:
		v.Steps = append(v.Steps, p.step(word))
	}
}

// step reads a step that begins with a word.
func (p *parser) step(word string) (s Step) {
	kind, known := kinds[word]
	s.Kind = kind
	switch kind {
	case Input, Output:
		s.Index, s.Data = p.index(), p.bytes()
	case Run, Query, Gone:
		s.Index = p.index()
	case Store, Load:
		s.Space, s.Offset, s.Width, s.Value = p.space(), p.number(), uint8(p.number()), p.number()
		if p.keyword("until") {
			s.Until = int64(p.number())
		}
		s.Fails = p.keyword("fails")
	case StoreBytes, LoadBytes:
		s.Space, s.Offset, s.Data = p.space(), p.number(), p.bytes()
	case Elapsed, Ignored:
		s.Value = p.number()
	case End:
		s.Code, s.Index = p.word(), -1
		if p.keyword("command") {
			s.Index = p.index()
		}
	case Seen:
		s.Got, s.Want, s.Mask, s.Element = p.number(), p.number(), p.number(), p.number()
	case Safe:
		s.Code = p.word()
	}
	if !known {
		p.fail("unknown word %q", word)
	}
	return s
}

// names has the first word of each kind of step.
var names = [...]string{Input: "input", Run: "run", Store: "store", Load: "load",
	StoreBytes: "store-bytes", LoadBytes: "load-bytes", Fence: "fence", Query: "query",
	Gone: "gone", Elapsed: "elapsed", End: "end", Seen: "seen", Safe: "safe", Ignored: "ignored",
	Output: "output", Unload: "unload"}

// kinds has the kind of step for each first word.
var kinds = func() map[string]Kind {
	kinds := map[string]Kind{}
	for kind, name := range names {
		if name != "" {
			kinds[name] = Kind(kind)
		}
	}
	return kinds
}()

// String returns the line of a step.
func (s Step) String() string {
	line := names[s.Kind]
	switch s.Kind {
	case Input, Output:
		line += fmt.Sprintf(" %d %x", s.Index, s.Data)
	case Run, Query, Gone:
		line += fmt.Sprintf(" %d", s.Index)
	case Store, Load:
		line += fmt.Sprintf(" %v %#x %d %#x", s.Space, s.Offset, s.Width, s.Value)
		if s.Until != 0 {
			line += fmt.Sprintf(" until %d", s.Until)
		}
		if s.Fails {
			line += " fails"
		}
	case StoreBytes, LoadBytes:
		line += fmt.Sprintf(" %v %#x %x", s.Space, s.Offset, s.Data)
	case Elapsed, Ignored:
		line += fmt.Sprintf(" %d", s.Value)
	case End:
		line += " " + s.Code
		if s.Index >= 0 {
			line += fmt.Sprintf(" command %d", s.Index)
		}
	case Seen:
		line += fmt.Sprintf(" %#x %#x %#x %d", s.Got, s.Want, s.Mask, s.Element)
	case Safe:
		line += " " + s.Code
	}
	return line
}

// String returns the text of a vector, which Parse reads.
func (v *Vector) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("vector %s", v.Name)
	for _, sentence := range v.Sentences {
		line("format %s", sentence)
	}
	line("image %s", v.Image)
	if v.Size >= 0 {
		line("size %d", v.Size)
	}
	for _, p := range v.Patches {
		line("patch %#x %x", p.Offset, p.Data)
	}
	if v.AccessNs != 0 {
		line("access-ns %d", v.AccessNs)
	}
	if v.LateNs != 0 {
		line("late-ns %d", v.LateNs)
	}
	if v.LimitUs != 0 {
		line("limit-us %d", v.LimitUs)
	}
	for _, d := range v.Devices {
		text := fmt.Sprintf("device %d %#x %#x %#x", d.Index, d.Vendor, d.Device, d.Subsystem)
		for _, size := range d.Bars {
			text += fmt.Sprintf(" %#x", size)
		}
		line("%s", text)
	}
	for _, w := range v.Windows {
		line("bus %d %#x", w.Index, w.Bus)
	}
	if v.Reject != nil {
		line("reject %s", strings.TrimSpace(v.Reject.Code+" "+v.Reject.Place))
	}
	for _, s := range v.Steps {
		line("%v", s)
	}
	return b.String()
}
