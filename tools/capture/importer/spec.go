package importer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// Place is a range of addresses: in a tile, in a BAR that is named, or in Options.Bar.
type Place struct {
	Tile  bool
	X, Y  uint8 // of the tile, as the recorded program numbered it
	Named bool
	Bar   uint8 // where Named
	Bus   bool  // host memory, by the address that the recorded device had it at
}

const busPrefix = "bus:"

func (p Place) String() string {
	switch {
	case p.Tile:
		return fmt.Sprintf("(%d,%d) ", p.X, p.Y)
	case p.Bus:
		return busPrefix
	case p.Named:
		return fmt.Sprintf("bar%d+", p.Bar)
	}
	return ""
}

// in returns a place that is in no tile and not named the BAR that it is in.
func (p Place) in(bar uint8) Place {
	if !p.Tile && !p.Named && !p.Bus {
		p.Named, p.Bar = true, bar
	}
	return p
}

// spec is the place as flags have it.
func (p Place) spec() string {
	if p.Tile {
		return fmt.Sprintf("%d,%d,", p.X, p.Y)
	}
	return p.String()
}

// TensorSpec says where a named input or output lies in the device.
//
// Stores through a multicast window count for every tile of the rectangle, so
// a tensor that was multicast is named by any one of them.
type TensorSpec struct {
	Name string
	Place
	Address uint64 // in the tile or the BAR
	Line    int    // of an input, each byte's first store from there on; 0: all of them
	DType   gen.DType
	Shape   []uint32
	// Page is the size of a page of an interleaved buffer of tt-metal, in bytes; Address is then
	// the address in each bank. 0: the tensor is contiguous.
	Page uint64
}

// at is the address as flags have it.
func (t *TensorSpec) at() string {
	text := fmt.Sprintf("0x%x", t.Address)
	if t.Line > 0 {
		text += fmt.Sprintf("@%d", t.Line)
	}
	return text
}

// where is the place of the tensor as flags have it.
func (t *TensorSpec) where() string {
	if t.Page != 0 {
		return fmt.Sprintf("%s%s,%d", interleavedPrefix, t.at(), t.Page)
	}
	return t.Place.spec() + t.at()
}

// Size is the number of bytes of the tensor's elements.
func (t *TensorSpec) Size() uint64 {
	size := uint64(fbs.DTypeSize(t.DType))
	for _, n := range t.Shape {
		size *= uint64(n)
	}
	return size
}

// tensorSizeMax bounds one tensor: an offset in a window has 32 bits.
const tensorSizeMax = 1 << 32

// tensorForm is in errors; the help of lm import has all forms of an address.
const tensorForm = "NAME=X,Y,ADDRESS,DTYPE,SHAPE, such as w=1,1,0x20000,int8,32x64; no X,Y " +
	"outside of tiles; see lm import --help"

// ParseTensor reads NAME=X,Y,ADDRESS,DTYPE,SHAPE or, outside of tiles,
// NAME=ADDRESS,DTYPE,SHAPE; ADDRESS may be barN+ADDRESS.
func ParseTensor(spec string) (TensorSpec, error) {
	t, reason := parseTensor(spec)
	if reason != "" {
		return TensorSpec{}, traces.Usage("tensor %q: %s (the form is %s)", spec, reason,
			tensorForm)
	}
	return t, nil
}

func parseTensor(spec string) (t TensorSpec, reason string) {
	name, rest, ok := strings.Cut(spec, "=")
	if !ok {
		return t, "there is no ="
	}
	if reason := nameReason(name); reason != "" {
		return t, reason
	}
	t.Name = name
	if pages, ok := strings.CutPrefix(rest, interleavedPrefix); ok {
		reason = parseInterleaved(&t, pages)
		return t, reason
	}
	parts := strings.Split(rest, ",")
	if len(parts) != 5 && len(parts) != 3 {
		return t, fmt.Sprintf("there are %d parts after the =, but there must be 5 or "+
			"3", len(parts))
	}
	place, parts := parts[:len(parts)-2], parts[len(parts)-2:]
	if t.Place, rest, reason = parsePlace(strings.Join(place, ",")); reason != "" {
		return t, reason
	}
	address, line, apart := strings.Cut(rest, "@")
	if t.Address, ok = parseNumber(address); !ok {
		return t, fmt.Sprintf("address %q is not a number", address)
	}
	n, err := strconv.ParseUint(line, 10, 32)
	if t.Line = int(n); apart && (err != nil || n == 0 || t.Bus) {
		return t, fmt.Sprintf("%q is not the number of a line, from 1", line)
	}
	reason = t.parseType(parts[0], parts[1])
	return t, reason
}

// parseType reads the type and the shape of a tensor, whose address is known.
func (t *TensorSpec) parseType(dtype, shape string) (reason string) {
	t.DType = gen.DType(max(slices.Index(lmb.DTypes, dtype), 0))
	if t.DType == gen.DTypeInvalid {
		return fmt.Sprintf("there is no element type %q; types: %s", dtype,
			strings.Join(lmb.DTypes[1:], ", "))
	}
	if t.Shape, reason = parseShape(shape); reason != "" {
		return reason
	}
	size := uint64(fbs.DTypeSize(t.DType))
	for _, n := range t.Shape {
		if size *= uint64(n); size > tensorSizeMax {
			return "the tensor has more than 4 GiB"
		}
	}
	if t.Address > math.MaxUint64-size {
		return fmt.Sprintf("%d bytes at 0x%x go beyond the last 64-bit address", size, t.Address)
	}
	return ""
}

func nameReason(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case len(name) > fbs.NameMax:
		return fmt.Sprintf("the name is longer than %d bytes", fbs.NameMax)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool {
		return !unicode.IsGraphic(c) || unicode.IsSpace(c) || c == ','
	}):
		return "the name has blanks, commas or control characters"
	}
	return ""
}

// parsePlace takes X,Y, or bus: or barN+ from the front of an address.
func parsePlace(text string) (p Place, address, reason string) {
	if parts := strings.Split(text, ","); len(parts) == 3 {
		x, ok1 := parseNumber(parts[0])
		y, ok2 := parseNumber(parts[1])
		if !ok1 || !ok2 || x > math.MaxUint8 || y > math.MaxUint8 {
			return p, "", fmt.Sprintf("tile %q,%q must be two numbers, each at most 255", parts[0],
				parts[1])
		}
		p, text = Place{Tile: true, X: uint8(x), Y: uint8(y)}, parts[2]
	} else {
		text, p.Bus = strings.CutPrefix(text, busPrefix)
	}
	rest, ok := strings.CutPrefix(text, "bar")
	if !ok {
		return p, text, ""
	}
	number, address, ok := strings.Cut(rest, "+")
	n, err := strconv.ParseUint(number, 10, 8)
	if !ok || err != nil || n > 5 || p.Tile {
		return p, "", fmt.Sprintf("%q is not bar0+ADDRESS to bar5+ADDRESS", text)
	}
	p.Named, p.Bar = true, uint8(n)
	return p, address, ""
}

// parseNumber reads a decimal number, or a hexadecimal one with 0x.
func parseNumber(s string) (uint64, bool) {
	base := 10
	if digits, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		s, base = digits, 16
	}
	n, err := strconv.ParseUint(s, base, 64)
	return n, err == nil
}

func parseShape(s string) (shape []uint32, reason string) {
	for part := range strings.SplitSeq(s, "x") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || n == 0 {
			return nil,
				fmt.Sprintf("shape %q is not one or more numbers above 0 with x between them", s)
		}
		shape = append(shape, uint32(n))
	}
	if len(shape) > fbs.DimsMax {
		return nil, fmt.Sprintf("shape %q has more than %d dimensions", s, fbs.DimsMax)
	}
	return shape, ""
}

// Range is where registers lie, from the first byte to the last.
type Range struct {
	Place
	First, Last uint64
}

// ParseRanges reads one place in a tile, or a list of other places.
func ParseRanges(list string) (ranges []Range, err error) {
	parts := strings.Split(list, ",")
	small := func(s string) bool { n, ok := parseNumber(s); return ok && n <= math.MaxUint8 }
	for i := range len(parts) - 2 {
		switch address := parts[i+2]; {
		// barN+ or bus:
		case !small(parts[i]) || !small(parts[i+1]) || strings.HasPrefix(address, "b"):
		case len(parts) > 3 || small(address):
			return nil,
				traces.Usage("%q may be a list, or have X,Y of a tile; use one flag for "+
					"each place, and X,Y,FIRST-LAST for a place in a tile", list)
		default:
			parts = []string{list}
		}
	}
	for _, part := range parts {
		r, err := ParseRange(part)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// ParseRange reads X,Y,FIRST[-LAST] or, for devices without tiles,
// FIRST[-LAST], or bus:FIRST[-LAST] for host memory. Without LAST the range is the one register at
// FIRST.
func ParseRange(spec string) (Range, error) {
	place, addresses, reason := parsePlace(spec)
	if reason != "" {
		return Range{}, traces.Usage("range %q: %s", spec, reason)
	}
	r, ok := Range{Place: place}, true
	first, last, pair := strings.Cut(addresses, "-")
	if r.First, ok = parseNumber(first); !ok {
		return Range{},
			traces.Usage("range %q: the form is X,Y,FIRST-LAST, such as "+
				"1,1,0x10000-0x10003, or FIRST-LAST if the device has no tiles", spec)
	}
	r.Last = r.First
	if pair {
		if r.Last, ok = parseNumber(last); !ok || r.Last < r.First {
			return Range{}, traces.Usage("range %q: %q is not an address at or after the "+
				"first", spec,
				last)
		}
	}
	return r, nil
}
