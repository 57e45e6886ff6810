package lmb

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Decode verifies a file and gives its image. Data slices of the image refer
// to file.
func Decode(file []byte) (*Image, error) {
	view, err := fbs.Verify(file)
	if err != nil {
		return nil, err
	}
	return FromView(view), nil
}

// FromView gives the image of a verified file.
func FromView(view *fbs.View) *Image {
	image := &Image{Origin: Origin{
		Tool: view.Origin.Tool, Source: view.Origin.Source, Time: view.Origin.Time, Git: view.Origin.Git,
	}}
	for _, t := range view.Targets {
		image.Targets = append(image.Targets, Target(t))
	}
	for _, w := range view.Windows {
		window := Window{Window: w}
		if w.Name != fbs.NoName {
			window.Name = view.Names[w.Name]
		}
		window.Window.Name = 0
		image.Windows = append(image.Windows, window)
	}
	for i := range view.Tensors {
		t := &view.Tensors[i]
		image.Tensors = append(image.Tensors, Tensor{
			Name: t.Name, Role: t.Role, DType: t.DType, Shape: t.Shape, Data: view.Data(t),
		})
	}
	for _, s := range view.Sequences {
		sequence := Sequence{Name: s.Name}
		for _, c := range view.Commands[s.First : s.First+s.Count-1] {
			sequence.Commands = append(sequence.Commands, command(view, c))
		}
		image.Sequences = append(image.Sequences, sequence)
	}
	return image
}

func command(view *fbs.View, c fbs.Command) Command {
	full := Command{Command: c}
	switch {
	case c.Opcode == gen.OpcodeMark:
		full.Name = view.Names[c.Index]
		full.Index = 0
	case hasPayload(&c):
		full.Data = view.Payload[c.Value : c.Value+uint64(c.Amount)]
		full.Value = 0
	}
	return full
}
