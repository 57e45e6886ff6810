package metal

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
)

// image is the contents of a kernel's executable, for L1.
type image struct {
	entry    uint32  // address of the first instruction
	segments []block // bytes to store
	spans    []span  // memory that the kernel occupies: segments with their zeroed parts
	zeroed   []span  // parts of spans that the kernel itself clears and then changes
}

// block is bytes at an address in the L1 of a core.
type block struct {
	address uint64
	data    []byte
}

func (b block) span() span { return span{b.address, b.address + uint64(len(b.data))} }

// overlaps reports whether s and o have a byte in common.
func (s span) overlaps(o span) bool { return s.first < o.end && o.first < s.end }

// readELF returns the segments of a kernel's executable.
func readELF(file []byte) *image {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		refuse("the kernel is not an ELF file: %v", err)
	}
	switch {
	case f.Machine != elf.EM_RISCV:
		refuse("the kernel is an ELF file for %v, not for RISC-V", f.Machine)
	case f.Class != elf.ELFCLASS32 || f.Data != elf.ELFDATA2LSB:
		refuse("the kernel is %v %v, but the cores are 32-bit little endian; "+
			"compile with -march=rv32im -mabi=ilp32",
			f.Class, f.Data)
	case f.Type != elf.ET_EXEC:
		refuse("the kernel has the ELF type %v, but must be a linked executable", f.Type)
	}
	const compressed = 1 // e_flags, EF_RISCV_RVC
	if binary.LittleEndian.Uint32(file[36:])&compressed != 0 {
		refuse("the kernel has compressed instructions, which the cores do not execute; " +
			"compile with -march=rv32im")
	}
	k := &image{entry: uint32(f.Entry)}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Memsz > 0 {
			k.add(p)
		}
	}
	for _, s := range k.spans {
		if f.Entry >= s.first && f.Entry < s.end && f.Entry%4 == 0 {
			return k
		}
	}
	refuse("the entry address of the kernel, %#x, must be in a segment and a multiple of 4",
		f.Entry)
	return nil
}

func (k *image) add(p *elf.Prog) {
	switch {
	case p.Memsz > kernelEnd:
		refuse("a segment of the kernel has %d bytes and is too large: kernels have %d bytes of L1",
			p.Memsz,
			kernelEnd)
	case p.Vaddr >= kernelEnd || p.Vaddr+p.Memsz > kernelEnd:
		refuse("the kernel segment %#x..%#x is outside the part of L1 for kernels, 0x0..%#x",
			p.Vaddr,
			p.Vaddr+p.Memsz, kernelEnd)
	case p.Vaddr%4 != 0:
		refuse("the kernel segment at %#x is not aligned to 4 bytes", p.Vaddr)
	case p.Filesz > p.Memsz:
		refuse("the kernel segment at %#x has more bytes in the file than in memory", p.Vaddr)
	}
	data, err := io.ReadAll(p.Open())
	if err != nil || uint64(len(data)) != p.Filesz {
		refuse("the kernel file ends inside the segment at %#x", p.Vaddr)
	}
	k.spans = append(k.spans, span{p.Vaddr, p.Vaddr + roundUp(p.Memsz, 4)})
	if p.Memsz > p.Filesz {
		k.zeroed = append(k.zeroed, span{(p.Vaddr + p.Filesz) &^ 3, p.Vaddr + roundUp(p.Memsz, 4)})
	}
	if len(data) > 0 {
		k.segments = append(k.segments, block{p.Vaddr, pad(data)})
	}
}

// pad appends zeros up to a multiple of 4 bytes, the size of the smallest store.
func pad(data []byte) []byte {
	return append(data, make([]byte, roundUp(uint64(len(data)), 4)-uint64(len(data)))...)
}

// jump returns the instruction "jal x0" at the address `from`, which jumps to the address `to`. The
// addresses must be at most 1 MiB apart.
func jump(from, to uint32) block {
	d := to - from
	word := 0x6f | d>>20&1<<31 | d>>1&0x3ff<<21 | d>>11&1<<20 | d>>12&0xff<<12
	return block{uint64(from), words(word)}
}

func words(list ...uint32) (data []byte) {
	for _, w := range list {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	return data
}
