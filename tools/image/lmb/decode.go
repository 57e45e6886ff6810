package lmb

import "lightmetal/fbs"

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
	notes, err := ReadNotes(view)
	if err != nil {
		return nil, err
	}
	image := header(view, notes)
	marks := notes.Marks
	for i, s := range view.Sequences {
		commands := make([]Command, 0, s.Count-1)
		for i := int(s.First); i < int(s.First+s.Count); i++ {
			for ; len(marks) > 0 && marks[0].Command == i; marks = marks[1:] {
				commands = append(commands,
					Command{Command: fbs.Command{Opcode: OpcodeMark, Mode: uint8(marks[0].Kind)},
						Data: []byte(marks[0].Name)})
			}
			if i < int(s.First+s.Count)-1 {
				commands = append(commands, CommandAt(view, i))
			}
		}
		if len(commands) > 0 {
			image.Sequences[i].Commands = commands
		}
	}
	return image, nil
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
	image := &Image{Origin: notes.Origin}
	for _, t := range view.Devices {
		image.Devices = append(image.Devices,
			Device{view.Name(t.Board), t.Vendor, t.Device, *t.BarSizes(), t.Subsystem})
	}
	for _, r := range view.Rules {
		name := view.Name(r.Name)
		r.Name = 0
		image.Rules = append(image.Rules, Rule{r, name})
	}
	for i, w := range view.Windows {
		image.Windows = append(image.Windows, Window{w, notes.Windows[i]})
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
