package lmb

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Format 2 has the layout of format 3. It lacks rings, scratch, interrupt vectors and, in notes,
// captures, arguments and verdict. Its three schemas differ in names, and in values added later.
var format2Schemas = []uint64{0x660bbb4db104bbf4, 0xa18c6a06cf82086e, 0x4177d725c0e5026a}

const (
	format2ImageFields = 10
	format2NotesFields = notesCaptures
)

// Rename is a name in an image of format 2 that format 3 does not accept.
type Rename struct {
	What     string // such as "sequence 0"
	Old, New string
}

// format2 has the tables of a file of format 2, in place.
type format2 struct {
	format2Tables
	text []byte
}

type format2Tables struct {
	reservation fbs.Reservation
	devices     []fbs.DeviceInfo
	windows     []fbs.Window
	sequences   []fbs.Sequence
	tensors     []fbs.Tensor
	segments    []fbs.Segment
	commands    []fbs.Command
	rules       []fbs.AccessRule
	notes       []byte
}

// DecodeFormat2 returns the image of a file of format 2, and the names that it changed. A signature
// is left out. The error is an *fbs.Error.
func DecodeFormat2(file []byte) (*Image, []Rename, error) {
	data, _, err := fbs.SplitSignature(file)
	if err != nil {
		return nil, nil, err
	}
	data = bytes.Clone(data)
	old, err := readFormat2(data)
	if err != nil {
		return nil, nil, err
	}
	names, renames := old.newNames()
	if len(renames) > 0 {
		data = bytes.Clone(data)
		if err := old.fillNames(data); err != nil {
			return nil, nil, err
		}
	}
	Stamp(data, fbs.ReadStruct[fbs.Preamble](data).EnvelopeSize)
	image, err := Decode(data)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range namesOf(image) {
		*name = names[i]
	}
	return image, renames, nil
}

// readFormat2 checks what Decode cannot check of a file of format 2.
func readFormat2(data []byte) (*format2, error) {
	p := fbs.ReadStruct[fbs.Preamble](data)
	problem := ""
	switch {
	case len(data) < fbs.PreambleSize || string(p.Identifier[:]) != fbs.FileIdentifier:
		problem = "not a Light Metal image"
	case p.Major != 2 || p.Minor != 0:
		problem = fmt.Sprintf("the image has format %d.%d, not 2.0", p.Major, p.Minor)
	case !slices.Contains(format2Schemas, p.SchemaHash):
		problem = fmt.Sprintf("the schema hash %#x belongs to no version of format 2", p.SchemaHash)
	case p.FileSize != uint64(len(data)):
		problem = fmt.Sprintf("the file is %d bytes long, but its preamble says %d", len(data),
			p.FileSize)
	case p.EnvelopeSize < fbs.PreambleSize || p.EnvelopeSize > p.FileSize:
		problem = fmt.Sprintf("invalid envelope size %d", p.EnvelopeSize)
	case fbs.EnvelopeChecksum(data[:p.EnvelopeSize]) != p.Checksum:
		problem = "the checksum of the envelope is wrong: the file is damaged"
	}
	if problem != "" {
		return nil, &fbs.Error{Place: "preamble", Reason: problem}
	}
	f, err := readFormat2Tables(data[:p.EnvelopeSize])
	if err != nil {
		return nil, err
	}
	return f, f.check()
}

func readFormat2Tables(envelope []byte) (*format2, error) {
	t := fbs.RootTable(envelope, fbs.PreambleSize, format2ImageFields, "image")
	f := &format2{format2Tables{
		fbs.StructField[fbs.Reservation](t, 0),
		fbs.VectorField[fbs.DeviceInfo](t, 1, 8, fbs.DevicesMax, "devices"),
		fbs.VectorField[fbs.Window](t, 2, 8, fbs.WindowsMax, "windows"),
		fbs.VectorField[fbs.Sequence](t, 3, 4, fbs.SequencesMax, "sequences"),
		fbs.VectorField[fbs.Tensor](t, 4, 8, fbs.TensorsMax, "tensors"),
		fbs.VectorField[fbs.Segment](t, 5, 8, fbs.SegmentsMax, "segments"),
		fbs.VectorField[fbs.Command](t, 6, 8, fbs.CommandsMax, "commands"),
		fbs.VectorField[fbs.AccessRule](t, 9, 8, fbs.RulesMax, "rules"),
		fbs.VectorField[byte](t, 8, 8, fbs.NotesMax, "notes"),
	}, fbs.VectorField[byte](t, 7, 1, fbs.TextMax, "text")}
	if t.Err != nil {
		return nil, t.Err
	}
	return f, nil
}

// check rejects what only format 3 has, and names outside the text.
func (f *format2) check() error {
	for i := range f.devices {
		if d := &f.devices[i]; d.Vectors != 0 || d.Interrupts != 0 || d.Reserved != 0 {
			return &fbs.Error{Place: fmt.Sprintf("device %d", i),
				Reason: "reserved bytes are not zero"}
		}
	}
	for i := range f.tensors {
		if f.tensors[i].Role > gen.RoleOutput {
			return &fbs.Error{Place: fmt.Sprintf("tensor %d", i),
				Reason: fmt.Sprintf("unknown role %d", f.tensors[i].Role)}
		}
	}
	if len(f.notes) > 0 {
		if t := fbs.RootTable(f.notes, 4, format2NotesFields, "notes"); t.Err != nil {
			return t.Err
		}
	}
	for _, n := range f.nameRanges() {
		if int(n>>8)+int(n&fbs.NameMax) > len(f.text) {
			return &fbs.Error{Place: "text", Reason: "a name lies outside the text"}
		}
	}
	return nil
}

// nameRanges returns the names in the order of namesOf.
func (f *format2) nameRanges() (list []fbs.NameRange) {
	for i := range f.devices {
		list = append(list, f.devices[i].Board)
	}
	for i := range f.rules {
		list = append(list, f.rules[i].Name)
	}
	for i := range f.tensors {
		list = append(list, f.tensors[i].Name)
	}
	for i := range f.sequences {
		list = append(list, f.sequences[i].Name)
	}
	return list
}

func namesOf(image *Image) (list []*string) {
	for i := range image.Devices {
		list = append(list, &image.Devices[i].Board)
	}
	for i := range image.Rules {
		list = append(list, &image.Rules[i].Name)
	}
	for i := range image.Tensors {
		list = append(list, &image.Tensors[i].Name)
	}
	for i := range image.Sequences {
		list = append(list, &image.Sequences[i].Name)
	}
	return list
}

// newNames returns the names that the image has in format 3. Different names stay different if the
// maximum length of a name permits it.
func (f *format2) newNames() (names []string, renames []Rename) {
	for _, n := range f.nameRanges() {
		names = append(names, string(f.text[n>>8:][:n&fbs.NameMax]))
	}
	taken := map[string]bool{}
	for _, name := range names {
		taken[name] = true
	}
	first := 0
	for _, kind := range []struct {
		what  string
		count int
	}{{"device", len(f.devices)}, {"rule", len(f.rules)}, {"tensor", len(f.tensors)},
		{"sequence", len(f.sequences)}} {
		for i := range names[first:][:kind.count] {
			name := &names[first+i]
			fresh := acceptedName(*name, kind.what == "sequence")
			if fresh == *name {
				continue
			}
			for taken[fresh] && len(fresh) < fbs.NameMax {
				fresh += "_"
			}
			taken[fresh] = true
			renames = append(renames, Rename{fmt.Sprintf("%s %d", kind.what, i), *name, fresh})
			*name = fresh
		}
		first += kind.count
	}
	return names, renames
}

// acceptedName replaces each character that a name must not have by an underscore.
func acceptedName(name string, ofSequence bool) string {
	return strings.Map(func(r rune) rune {
		if fbs.IsHidden(r) || ofSequence && !fbs.IsSequenceName([]byte(string(r))) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
}

// fillNames overwrites the text of data, a copy of f's file, with names that format 3 accepts. It
// fails if the text overlaps other parts.
func (f *format2) fillNames(data []byte) error {
	envelope := data[:fbs.ReadStruct[fbs.Preamble](data).EnvelopeSize]
	filled, err := readFormat2Tables(envelope)
	if err == nil {
		for i := range filled.text {
			filled.text[i] = 'x'
		}
		filled, err = readFormat2Tables(envelope)
	}
	if err != nil || !reflect.DeepEqual(f.format2Tables, filled.format2Tables) {
		return &fbs.Error{Place: "text", Reason: "overlaps other parts of the image"}
	}
	return nil
}
