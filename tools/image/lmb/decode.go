package lmb

import (
	"iter"
	"slices"

	"lightmetal/fbs"
)

// Decode verifies a file and returns its image. Data slices of the image refer
// to file.
func Decode(file []byte) (*Image, error) {
	view, err := fbs.Verify(file)
	if err != nil {
		return nil, err
	}
	return FromView(view)
}

// FromView returns the image of a verified file. The error is that of ReadNotes.
func FromView(view *fbs.View) (*Image, error) {
	image, err := StreamView(view)
	if err != nil {
		return nil, err
	}
	for i := range image.Sequences {
		image.Sequences[i].list(int(view.Sequences[i].Count) - 1)
	}
	return image, nil
}

// StreamView is like FromView, but the sequences of its image stream their commands: each command
// is decoded when a loop reaches it.
func StreamView(view *fbs.View) (*Image, error) {
	notes, err := ReadNotes(view)
	if err != nil {
		return nil, err
	}
	image := header(view, notes)
	for i := range image.Sequences {
		image.Sequences[i].Stream = commandsOf(view, i, notes.Marks)
	}
	return image, nil
}

// commandsOf yields the commands of a sequence of a verified file, including the marks.
func commandsOf(view *fbs.View, sequence int, marks []Mark) iter.Seq[*Command] {
	s := view.Sequences[sequence]
	first, end := int(s.First), int(s.First+s.Count)-1 // End is not yielded
	from, _ := slices.BinarySearchFunc(marks, first,
		func(m Mark, command int) int { return m.Command - command })
	return func(yield func(*Command) bool) {
		var c Command
		next := marks[from:]
		for i := first; i <= end; i++ {
			for ; len(next) > 0 && next[0].Command == i; next = next[1:] {
				c = Command{Command: fbs.Command{Opcode: OpcodeMark, Mode: uint8(next[0].Kind)},
					Data: []byte(next[0].Name)}
				if !yield(&c) {
					return
				}
			}
			if i == end {
				return
			}
			if c = CommandAt(view, i); !yield(&c) {
				return
			}
		}
	}
}

// Header returns an image without its commands. Invalid notes are left out.
func Header(view *fbs.View) *Image {
	notes, err := ReadNotes(view)
	if err != nil {
		notes = &Notes{Windows: make([]string, len(view.Windows)),
			Goldens: make([]Golden, len(view.Tensors))}
	}
	return header(view, notes)
}

func header(view *fbs.View, notes *Notes) *Image {
	image := &Image{Origin: notes.Origin, Captures: notes.Captures}
	for _, t := range view.Devices {
		image.Devices = append(image.Devices,
			Device{view.Name(t.Board), t.Vendor, t.Device, *t.MinBarSizes(), t.Subsystem,
				t.Interrupts, t.Vectors})
	}
	for _, r := range view.Rules {
		name := view.Name(r.Name)
		r.Name = 0
		image.Rules = append(image.Rules, Rule{r, name})
	}
	for i, w := range view.Windows {
		image.Windows = append(image.Windows, Window{w, notes.Windows[i]})
	}
	for _, r := range view.Rings {
		image.Rings = append(image.Rings, Ring{view.Name(r.Name), r.Begin, r.End, r.First})
	}
	for i, t := range view.Tensors {
		image.Tensors = append(image.Tensors, Tensor{
			Name: view.Name(t.Name), Role: t.Role, DType: t.Dtype,
			Shape: append([]uint32(nil), t.Shape()[:t.Dims]...),
			Data:  view.TensorData(&t), Golden: notes.Goldens[i],
		})
	}
	for _, s := range view.Sequences {
		image.Sequences = append(image.Sequences, Sequence{Name: view.Name(s.Name)})
	}
	return image
}

// CommandAt returns a command of a verified file by its index.
func CommandAt(view *fbs.View, index int) Command {
	c := Command{Command: view.Commands[index]}
	if HasPayload(&c.Command) {
		c.Data = view.Payload[c.Value : c.Value+uint64(c.Amount)]
		c.Value = 0
	}
	return c
}
