// Package rehearsal makes an image whose checks only record what they load. One run then shows all
// checks that a device would fail, and the flag of lm import that each place needs.
package rehearsal

import (
	"bytes"
	"fmt"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// recordedMax is the most that the checks of a sequence may load, in bytes.
const recordedMax = 256 << 20

// Rehearsal is an image with a copy out in place of each check of one sequence, with the same
// accesses. Checks are Compares, and Expects without a deadline. Polls stay, as do checks of
// configuration space, which no command copies out.
type Rehearsal struct {
	Image    *lmb.Image
	Output   int // index of the tensor with what the checks have loaded
	source   *fbs.View
	commands []int // index in the source of each command of the sequence; calls are replaced
	checks   []check
}

// check is a check of the source that became a copy out.
type check struct {
	place   string // in the form of a flag of lm import
	exact   bool   // place is one register of the device
	at      int    // number in the sequence of the rehearsal
	command int    // index in the source
	offset  int    // of the loaded bytes, in the output
	size    int    // number of loaded bytes
}

// Of returns the rehearsal of a sequence. The error says which limit the sequence exceeds, or why
// its notes cannot be read.
func Of(source *fbs.View, sequence int) (*Rehearsal, error) {
	image, err := lmb.FromView(source)
	if err != nil {
		return nil, err
	}
	r := &Rehearsal{Image: image, Output: len(image.Tensors), source: source}
	s := &image.Sequences[sequence]
	s.Commands = nil
	size, err := r.add(s, sequence, 0)
	if err != nil {
		return nil, err
	}
	if len(r.checks) == 0 {
		return nil, fmt.Errorf("sequence %q has no checks, so there is nothing to rehearse", s.Name)
	}
	image.Tensors = append(image.Tensors, lmb.Tensor{Name: r.unusedName(), Role: gen.RoleOutput,
		DType: gen.DTypeUint8, Shape: []uint32{uint32(size)}})
	return r, nil
}

// add appends the commands of a sequence and of the sequences that it calls. It returns the size of
// the output so far.
func (r *Rehearsal) add(to *lmb.Sequence, sequence, size int) (int, error) {
	s := &r.source.Sequences[sequence]
	windows := places{r.source, map[uint16]*fbs.Command{}}
	for i := int(s.First); i < int(s.First+s.Count)-1; i++ {
		c := lmb.CommandAt(r.source, i)
		original := &r.source.Commands[i]
		windows.follow(original)
		if c.Opcode == gen.OpcodeCall {
			var err error
			if size, err = r.add(to, int(c.Index), size); err != nil {
				return 0, err
			}
			continue
		}
		if r.isCheck(original) {
			loaded := original.Amount
			if original.Opcode == gen.OpcodeExpect {
				loaded = uint32(original.Width)
			}
			place, exact := windows.of(original, uint64(loaded))
			r.checks = append(r.checks, check{place, exact, len(to.Commands), i, size, int(loaded)})
			c = lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCopyOut, Width: c.Width,
				Mode: uint8(gen.AccessExact), Window: c.Window, Index: uint16(1 + r.Output),
				Offset: c.Offset, Amount: loaded, Value: uint64(size)}}
			size += int(fbs.RoundUp(uint64(loaded), 8))
		}
		if size > recordedMax || len(to.Commands) == fbs.CommandsMax-1 {
			return 0, fmt.Errorf("sequence %q cannot be rehearsed: its checks load more than "+
				"%d bytes, or it has more than %d commands with those of its calls; "+
				"rehearse a shorter one", to.Name, recordedMax, fbs.CommandsMax)
		}
		to.Commands = append(to.Commands, c)
		r.commands = append(r.commands, i)
	}
	return size, nil
}

// isCheck reports whether a command ends the run if one load returns a wrong value.
func (r *Rehearsal) isCheck(c *fbs.Command) bool {
	switch c.Opcode {
	case gen.OpcodeExpect:
		return c.Amount == 0 && c.Mask != 0 && c.Option == uint8(gen.PolicyFail) &&
			r.source.Windows[c.Window].Kind != gen.WindowKindConfig
	case gen.OpcodeCompare:
		return c.Option == uint8(gen.PolicyFail)
	}
	return false
}

func (r *Rehearsal) unusedName() string {
	name := "rehearsal"
	for r.source.TensorByName(name) >= 0 {
		name += "_"
	}
	return name
}

// Command returns the index, in the source, of a command of the rehearsed sequence. number counts
// from the start of that sequence.
func (r *Rehearsal) Command(number int) int { return r.commands[number] }

// Mismatch is a check that does not hold.
type Mismatch struct {
	Command         int // index in the source
	Got, Want, Mask uint64
	Element         uint64 // of a Compare: index of the first wrong element
}

// judge returns what a check has loaded and whether that is what its command wants. golden has the
// bytes that a Compare wants.
func (c *check) judge(command *fbs.Command, loaded, golden []byte) (m Mismatch, holds bool) {
	m.Command = c.command
	if command.Opcode == gen.OpcodeExpect {
		m.Got, m.Want, m.Mask = lmb.Little(loaded), command.Value, command.Mask
		return m, fbs.ConditionMet(command, m.Got)
	}
	width := int(command.Width)
	m.Mask = ^uint64(0) >> (64 - 8*width)
	for i := 0; i < len(loaded); i += width {
		if got, want := loaded[i:i+width], golden[i:i+width]; !bytes.Equal(got, want) {
			m.Got, m.Want, m.Element = lmb.Little(got), lmb.Little(want), uint64(i/width)
			return m, false
		}
	}
	return m, true
}
