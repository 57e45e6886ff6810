package lmb

import (
	"iter"

	"lightmetal/fbs"
)

// Packed is a list of commands that takes as little memory as the commands in a file, for images of
// millions of commands. It grows without copying its elements.
type Packed struct {
	chunks [][]fbs.Command
	data   [][]byte // Data of the commands that have any, in order
	count  int
}

// packedChunk is the number of commands in a chunk.
const packedChunk = 4096

// Append appends a command. Its Data is not copied.
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

// Len returns the number of commands, including marks.
func (p *Packed) Len() int { return p.count }

// All yields the commands. Each pointer is valid only until the next command.
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

// hasData reports whether the Data of a command is used.
func hasData(c *fbs.Command) bool { return c.Opcode == OpcodeMark || HasPayload(c) }

// Unpack replaces the streams of all sequences by lists of commands.
func (i *Image) Unpack() {
	for s := range i.Sequences {
		if i.Sequences[s].Stream != nil {
			i.Sequences[s].list(0)
		}
	}
}
