package importer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// Place is a tile, a BAR or host memory. The zero value is Options.Bar.
type Place struct {
	Tile   bool
	X, Y   uint8 // coordinates of the tile: NoC 0, translated, or as the program used them
	HasBar bool
	Bar    uint8 // if HasBar
	Bus    bool  // host memory, by the bus addresses of the recording
}

const busPrefix = "bus:"

func (p Place) String() string {
	switch {
	case p.Tile:
		return fmt.Sprintf("(%d,%d) ", p.X, p.Y)
	case p.Bus:
		return busPrefix
	case p.HasBar:
		return fmt.Sprintf("bar%d+", p.Bar)
	}
	return ""
}

// withDefaultBar returns p, with the zero value replaced by the given BAR.
func (p Place) withDefaultBar(bar uint8) Place {
	if !p.Tile && !p.HasBar && !p.Bus {
		p.HasBar, p.Bar = true, bar
	}
	return p
}

// flagText returns the place in the form that flags accept.
func (p Place) flagText() string {
	if p.Tile {
		return fmt.Sprintf("%d,%d,", p.X, p.Y)
	}
	return p.String()
}

// TensorSpec describes a named input or output and where it is in the device.
//
// Stores through a multicast window count for every tile of the rectangle, so
// a tensor that was multicast is named by any one of them.
type TensorSpec struct {
	Name string
	Place
	Address uint64 // in Place
	// Of an input: only the first store to each byte from this line on counts. 0: all stores
	Line  int
	DType gen.DType
	Shape []uint32
	// Page is the size of a page of an interleaved buffer of tt-metal, in bytes; Address is then
	// the address in each bank. 0: the tensor is contiguous.
	Page uint64
	// Cores are the first and the last core of a sharded buffer of tt-metal, which has one page in
	// each core of the rectangle. Zero: the tensor is not sharded.
	Cores [2]chips.Tile
}

func (t *TensorSpec) isSharded() bool { return t.Cores != [2]chips.Tile{} }

// addressText returns the address in the form that flags accept.
func (t *TensorSpec) addressText() string {
	text := fmt.Sprintf("0x%x", t.Address)
	if t.Line > 0 {
		text += fmt.Sprintf("@%d", t.Line)
	}
	return text
}

// placeText returns place and address in the form that flags accept.
func (t *TensorSpec) placeText() string {
	if t.isSharded() {
		return fmt.Sprintf("%s%d,%d,%d,%d,%s", shardedPrefix, t.Cores[0].X, t.Cores[0].Y,
			t.Cores[1].X, t.Cores[1].Y, t.addressText())
	}
	if t.Page != 0 {
		return fmt.Sprintf("%s%s,%d", interleavedPrefix, t.addressText(), t.Page)
	}
	return t.Place.flagText() + t.addressText()
}

// Size returns the size of the tensor in bytes.
func (t *TensorSpec) Size() uint64 {
	size := uint64(fbs.DTypeSize(t.DType))
	for _, n := range t.Shape {
		size *= uint64(n)
	}
	return size
}

// tensorSizeMax is the maximum size of a tensor, because offsets in a window have 32 bits.
const tensorSizeMax = 1 << 32

// tensorForm is used in errors; the help of lm import lists all forms of an address.
const tensorForm = "NAME=X,Y,ADDRESS,DTYPE,SHAPE, " +
	"such as w=1,1,0x20000,int8,32x64, with X,Y only in a tile; see lm import --help"

// ParseTensor parses NAME=X,Y,ADDRESS,DTYPE,SHAPE or, outside tiles, NAME=ADDRESS,DTYPE,SHAPE.
// ADDRESS may be barN+ADDRESS.
func ParseTensor(spec string) (TensorSpec, error) {
	t, reason := parseTensor(spec)
	if reason != "" {
		return TensorSpec{}, traces.UsageError("tensor %q: %s (the form is %s)", spec, reason,
			tensorForm)
	}
	return t, nil
}

func parseTensor(spec string) (t TensorSpec, reason string) {
	name, rest, ok := strings.Cut(spec, "=")
	if !ok {
		return t, "the = after the name is missing"
	}
	if reason := nameReason(name); reason != "" {
		return t, reason
	}
	t.Name = name
	if pages, ok := strings.CutPrefix(rest, interleavedPrefix); ok {
		reason = parseInterleaved(&t, pages)
		return t, reason
	}
	if shards, ok := strings.CutPrefix(rest, shardedPrefix); ok {
		reason = parseSharded(&t, shards)
		return t, reason
	}
	parts := strings.Split(rest, ",")
	if len(parts) != 5 && len(parts) != 3 {
		return t, fmt.Sprintf("there are %d parts after the =, "+
			"but there must be 5 or 3", len(parts))
	}
	place, parts := parts[:len(parts)-2], parts[len(parts)-2:]
	if t.Place, rest, reason = parsePlace(strings.Join(place, ",")); reason != "" {
		return t, reason
	}
	if reason = t.parseAddress(rest); reason == "" {
		reason = t.parseType(parts[0], parts[1])
	}
	return t, reason
}

// parseAddress parses ADDRESS or ADDRESS@LINE.
func (t *TensorSpec) parseAddress(text string) (reason string) {
	address, line, hasLine := strings.Cut(text, "@")
	var ok bool
	if t.Address, ok = parseNumber(address); !ok {
		return fmt.Sprintf("address %q is not a number", address)
	}
	n, err := strconv.ParseUint(line, 10, 32)
	t.Line = int(n)
	switch {
	case hasLine && (err != nil || n == 0):
		return fmt.Sprintf("@LINE must be a line number of at least 1, not %q", line)
	}
	return ""
}

// parseType parses the element type and the shape of a tensor, after its address.
func (t *TensorSpec) parseType(dtype, shape string) (reason string) {
	t.DType = gen.DType(max(slices.Index(lmb.DTypes, dtype), 0))
	if t.DType == gen.DTypeInvalid {
		return fmt.Sprintf("element type %q is unknown; element types: %s", dtype,
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
		return !unicode.IsGraphic(c) || unicode.IsSpace(c) || fbs.IsHidden(c) || c == ','
	}):
		return "the name has blanks, commas, or invisible or control characters"
	}
	return ""
}

// parsePlace splits X,Y, or bus: or barN+ off the front of an address.
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
		return p, "",
			fmt.Sprintf("%q must have the form bar0+ADDRESS to bar5+ADDRESS, without X,Y", text)
	}
	p.HasBar, p.Bar = true, uint8(n)
	return p, address, ""
}

// parseNumber parses a decimal number, or a hexadecimal one with the prefix 0x.
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
				fmt.Sprintf("shape %q must be numbers above 0 joined by x, such as 32x64", s)
		}
		shape = append(shape, uint32(n))
	}
	if len(shape) > fbs.DimsMax {
		return nil, fmt.Sprintf("shape %q has more than %d dimensions", s, fbs.DimsMax)
	}
	return shape, ""
}

// Range is a range of addresses, including Last.
type Range struct {
	Place
	First, Last uint64
}

// ParseRanges parses one range in a tile, or a list of ranges outside tiles.
func ParseRanges(list string) (ranges []Range, err error) {
	parts := strings.Split(list, ",")
	small := func(s string) bool { n, ok := parseNumber(s); return ok && n <= math.MaxUint8 }
	for i := range len(parts) - 2 {
		switch address := parts[i+2]; {
		// barN+ or bus:
		case !small(parts[i]) || !small(parts[i+1]) || strings.HasPrefix(address, "b"):
		case len(parts) > 3 || small(address):
			return nil,
				traces.UsageError(
					"%q may be a list or a place in a tile; use one flag for each place, "+
						"and write a place in a tile as X,Y,FIRST-LAST", list)
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

// ParseRange parses X,Y,FIRST[-LAST] or, for devices without tiles, FIRST[-LAST], or
// bus:FIRST[-LAST] for host memory. Without LAST, the range is the register at FIRST.
func ParseRange(spec string) (Range, error) {
	place, addresses, reason := parsePlace(spec)
	if reason != "" {
		return Range{}, traces.UsageError("range %q: %s", spec, reason)
	}
	r, ok := Range{Place: place}, true
	first, last, pair := strings.Cut(addresses, "-")
	if r.First, ok = parseNumber(first); !ok {
		return Range{},
			traces.UsageError("range %q must have the form X,Y,FIRST-LAST, "+
				"such as 1,1,0x10000-0x10003, or FIRST-LAST if the device has no tiles", spec)
	}
	r.Last = r.First
	if pair {
		if r.Last, ok = parseNumber(last); !ok || r.Last < r.First {
			return Range{}, traces.UsageError("range %q: "+
				"the last address %q must be a number, and not less than the first address", spec,
				last)
		}
	}
	return r, nil
}
