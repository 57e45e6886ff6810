package lmb

import (
	"iter"

	"lightmetal/fbs"
)

// Packed is a list of commands that takes as many bytes of each as a file does, for images of
// millions of commands. It grows without being copied.
type Packed struct {
	chunks [][]fbs.Command
	data   [][]byte // of the commands that have Data, in their order
	count  int
}

// packedChunk is the number of commands that room is made for at once.
const packedChunk = 4096

// Append adds a command, and keeps its Data.
func (p *Packed) Append(c *Command) {
	if p.count%packedChunk == 0 {
		p.chunks = append(p.chunks, make([]fbs.Command, 0, packedChunk))
	}
	last := &p.chunks[len(p.chunks)-1]
	*last = append(*last, c.Command)
	p.count++
	if hasData(&c.Command) {
		p.data = append(p.data, c.Data)
	}
}

// Len returns the number of commands, marks included.
func (p *Packed) Len() int { return p.count }

// All yields the commands. Each is valid until the next.
func (p *Packed) All() iter.Seq[*Command] {
	return func(yield func(*Command) bool) {
		var c Command
		data := p.data
		for _, chunk := range p.chunks {
			for i := range chunk {
				c = Command{Command: chunk[i]}
				if hasData(&c.Command) {
					c.Data, data = data[0], data[1:]
				}
				if !yield(&c) {
					return
				}
			}
		}
	}
}

// hasData reports whether the Data of a command means something.
func hasData(c *fbs.Command) bool { return c.Opcode == OpcodeMark || HasPayload(c) }

// Unpack lists the commands of all sequences that stream them.
func (i *Image) Unpack() {
	for s := range i.Sequences {
		if i.Sequences[s].Stream != nil {
			i.Sequences[s].list(0)
		}
	}
}
