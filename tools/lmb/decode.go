package lmb

import (
	"slices"

	"lightmetal/fbs"
)

// Decode verifies a file and gives its image. Data slices of the image refer
// to file.
func Decode(file []byte) (*Image, error) {
	view, err := fbs.Verify(file)
	if err != nil {
		return nil, err
	}
	return FromView(view)
}

// FromView gives the image of a verified file. The error is one of ReadNotes.
func FromView(view *fbs.View) (*Image, error) {
	notes, err := ReadNotes(view)
	if err != nil {
		return nil, err
	}
	image := &Image{Origin: notes.Origin}
	for _, t := range view.Targets {
		image.Targets = append(image.Targets, Target{view.Name(t.Board), t.Vendor, t.Device, t.Bars})
	}
	for i, w := range view.Windows {
		image.Windows = append(image.Windows, Window{w, notes.Windows[i]})
	}
	for i := range view.Tensors {
		t := &view.Tensors[i]
		image.Tensors = append(image.Tensors, Tensor{
			Name: view.Name(t.Name), Role: t.Role, DType: t.DType, Shape: slices.Clone(t.Shape()), Data: view.Data(t), Golden: notes.Goldens[i],
		})
	}
	marks := notes.Marks
	for _, s := range view.Sequences {
		sequence := Sequence{Name: view.Name(s.Name), Commands: slices.Grow([]Command(nil), int(s.Count)-1)}
		for i := s.First; i < s.First+s.Count; i++ {
			for ; len(marks) > 0 && marks[0].Command == int(i); marks = marks[1:] {
				sequence.Commands = append(sequence.Commands, Command{Command: fbs.Command{Opcode: OpcodeMark, Mode: uint8(marks[0].Kind)}, Name: marks[0].Name})
			}
			if i < s.First+s.Count-1 {
				sequence.Commands = append(sequence.Commands, command(view, view.Commands[i]))
			}
		}
		image.Sequences = append(image.Sequences, sequence)
	}
	return image, nil
}

func command(view *fbs.View, c fbs.Command) Command {
	full := Command{Command: c}
	if HasPayload(&c) {
		full.Data = view.Payload[c.Value : c.Value+uint64(c.Amount)]
		full.Value = 0
	}
	return full
}
