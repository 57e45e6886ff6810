package listing

import (
	"bytes"
	"encoding/binary"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// memory executes a sequence on a device that has only memory, and reports every expect and compare
// command that fails.
type memory struct {
	t      *testing.T
	image  *lmb.Image
	bytes  []byte
	output []byte
}

func (m *memory) load(c *lmb.Command) uint64 {
	var word [8]byte
	copy(word[:c.Width], m.bytes[c.Offset:])
	return binary.LittleEndian.Uint64(word[:])
}

func (m *memory) store(offset uint32, width uint8, value uint64) {
	copy(m.bytes[offset:], binary.LittleEndian.AppendUint64(nil, value)[:width])
}

func (m *memory) execute(c *lmb.Command) {
	end := c.Offset + c.Amount
	switch c.Opcode {
	case gen.OpcodeWrite:
		m.store(c.Offset, c.Width, c.Value)
	case gen.OpcodeModify:
		m.store(c.Offset, c.Width, m.load(c)&^c.Mask|c.Value)
	case gen.OpcodeCopyIn, gen.OpcodeFill:
		m.copyIn(c)
	case gen.OpcodeCopyOut:
		m.output = bytes.Clone(m.bytes[c.Offset:end])
	case gen.OpcodeExpect:
		if got := m.load(c); !fbs.ConditionMet(&c.Command, got) {
			m.t.Errorf("%s fails: the memory has %#x", CommandText(m.image, c), got)
		}
	case gen.OpcodeCompare:
		if !bytes.Equal(m.bytes[c.Offset:end], c.Data) {
			m.t.Errorf("%s fails: the memory has % x", CommandText(m.image, c),
				m.bytes[c.Offset:end])
		}
	}
}

func (m *memory) copyIn(c *lmb.Command) {
	switch {
	case lmb.HasPayload(&c.Command):
		copy(m.bytes[c.Offset:], c.Data)
	case c.Opcode == gen.OpcodeCopyIn:
		copy(m.bytes[c.Offset:], m.image.Tensors[c.Index-1].Data[c.Value:c.Value+uint64(c.Amount)])
	default:
		for i := uint32(0); i < c.Amount; i += uint32(c.Width) {
			if gen.Access(c.Mode) == gen.AccessFixed {
				m.store(c.Offset, c.Width, c.Value)
			} else {
				m.store(c.Offset+i, c.Width, c.Value)
			}
		}
	}
}

// TestIvshmemListingLeavesTheDocumentedMemory executes ivshmem-blocks.lms. The comment at its
// beginning describes the memory at the end, which this test computes without the listing.
func TestIvshmemListingLeavesTheDocumentedMemory(t *testing.T) {
	image := mustParse(t, string(readListing(t, "ivshmem-blocks.lms")))
	m := memory{t: t, image: image, bytes: make([]byte, 1<<20)}
	for i := range image.Sequences[0].Commands {
		m.execute(&image.Sequences[0].Commands[i])
	}
	var want []byte
	for n := range uint32(16) {
		want = append(want, Pattern(0x1000+n, 1<<16)...)
	}
	scratch := want[0xf0000:]
	copy(scratch, bytes.Repeat([]byte{0x5a}, 4096))
	copy(scratch[0x1000:], bytes.Repeat([]byte{0xef, 0xbe}, 2048))
	copy(scratch[0x2000:], bytes.Repeat([]byte{0xef, 0xbe, 0xad, 0xde}, 1024))
	copy(scratch[0x3000:],
		bytes.Repeat([]byte{0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01}, 512))
	clear(scratch[0x4000:0x6000])
	copy(scratch[0x4000:], []byte{0xfe, 0xca})
	copy(scratch[0x5000:], []byte{
		0, 0, 0, 0x11, 0, 0, 0, 0,
		0, 0, 0x22, 0x22, 0, 0, 0, 0,
		0, 0, 0, 0, 0x44, 0x44, 0x44, 0x44,
		0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
		0xc3, 0, 0, 0, 0, 0, 0, 0,
		0xf0, 0x0f, 0, 0, 0, 0, 0, 0,
		0xff, 0xff, 0x12, 0xff, 0, 0, 0, 0,
		1, 0, 0, 0, 0, 0, 0, 0x80,
	})
	for n := range 16 {
		binary.LittleEndian.PutUint32(scratch[0x6000+4*n:], uint32(n+1))
	}
	if !bytes.Equal(m.bytes, want) {
		for i, b := range want {
			if m.bytes[i] != b {
				t.Errorf("the memory at %#x is %#x, want %#x", i, m.bytes[i], b)
				break
			}
		}
	}
	output := image.Tensors[1]
	if output.Role != gen.RoleOutput || !bytes.Equal(m.output, output.Data) {
		t.Errorf("the output %s differs from its golden data", output.Name)
	}
}
