package lmb

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Quality checks a verified image for mistakes that are harmless on a target: duplicate names,
// conditions that can never be met, outputs that no command fills. Encode rejects such an image,
// and lm verify reports the mistake. The error is an *fbs.Error.
func Quality(view *fbs.View) error {
	if err := checkNames(view); err != nil {
		return err
	}
	filled := make([]bool, len(view.Tensors))
	for i := range view.Commands {
		c := &view.Commands[i]
		if reason := expectReason(c); reason != "" {
			return &fbs.Error{Place: fbs.Text("command %d", uint64(i)), Reason: reason,
				Command: i + 1}
		}
		if c.Opcode == gen.OpcodeCopyOut {
			filled[c.Index-1] = true
		}
	}
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleOutput && !filled[i] {
			return &fbs.Error{Place: "tensor " + fbs.Quote(view.Name(view.Tensors[i].Name)),
				Reason: "no copy command copies data from the device to this output"}
		}
	}
	return nil
}

func expectReason(c *fbs.Command) string {
	switch {
	case c.Opcode != gen.OpcodeExpect || c.Mask != 0:
		return ""
	case gen.Condition(c.Mode) == gen.ConditionNotEqual:
		return "the condition can never hold, because the mask is 0"
	case c.Amount != 0:
		return "the poll never waits, because the mask is 0"
	}
	return ""
}

func checkNames(view *fbs.View) error {
	sequences, tensors, rings := map[string]bool{}, map[string]bool{}, map[string]bool{}
	check := func(n fbs.NameRange, what string, index int, taken map[string]bool) error {
		name, place := view.Name(n), fbs.Text(what+" %d", uint64(index))
		if taken[name] {
			return &fbs.Error{Place: place, Reason: "the name " + fbs.Quote(name) + " is used " +
				"twice"}
		}
		taken[name] = true
		return nil
	}
	for i := range view.Sequences {
		if err := check(view.Sequences[i].Name, "sequence", i, sequences); err != nil {
			return err
		}
	}
	for i := range view.Rings {
		if err := check(view.Rings[i].Name, "ring", i, rings); err != nil {
			return err
		}
	}
	for i := range view.Tensors {
		if err := check(view.Tensors[i].Name, "tensor", i, tensors); err != nil {
			return err
		}
	}
	return nil
}

// SequenceChecksum returns the CRC-32C of the commands of a sequence.
func SequenceChecksum(view *fbs.View, sequence int) uint32 {
	s := &view.Sequences[sequence]
	list := view.Commands[s.First : s.First+s.Count]
	return fbs.Checksum(unsafe.Slice((*byte)(unsafe.Pointer(&list[0])),
		len(list)*int(unsafe.Sizeof(list[0]))))
}
