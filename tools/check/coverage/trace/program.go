// Package trace finds out, from QEMU's log of a guest, which instructions of a program ran there,
// and which ways its conditional branches went.
package trace

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Program is the inspected part of a static arm64 program: from the first function of this project
// to the last.
type Program struct {
	Sum        [sha256.Size]byte // of the complete file
	Start, End uint64            // addresses
	Words      []uint32          // instructions from Start on
	Symbols    *gosym.Table      // functions and lines of the complete program
}

// Open reads a program as it ships. The program contains Go's table of functions even without
// symbols.
func Open(file []byte) (*Program, error) {
	program, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	text, table := program.Section(".text"), program.Section(".gopclntab")
	if text == nil || table == nil || program.Type != elf.ET_EXEC ||
		program.Machine != elf.EM_AARCH64 {
		return nil, errors.New("not a Go program for arm64 at a fixed address")
	}
	code, err := text.Data()
	if err != nil {
		return nil, err
	}
	lines, err := table.Data()
	if err != nil {
		return nil, err
	}
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(lines, text.Addr))
	if err != nil {
		return nil, err
	}
	p := &Program{Sum: sha256.Sum256(file), Symbols: symbols}
	for i := range symbols.Funcs {
		if f := &symbols.Funcs[i]; IsProjectFunction(f.Name) {
			if p.Start == 0 {
				p.Start = f.Entry
			}
			p.End = f.End
		}
	}
	if p.Start < text.Addr || p.End > text.Addr+text.Size {
		return nil, fmt.Errorf("functions of this project are at %#x to %#x, the code at %#x",
			p.Start, p.End, text.Addr)
	}
	p.Words = make([]uint32, (p.End-p.Start)/4)
	_, err = binary.Decode(code[p.Start-text.Addr:], binary.LittleEndian, p.Words)
	return p, err
}

// IsProjectFunction reports whether the name of a function in the program belongs to this project.
func IsProjectFunction(function string) bool {
	return strings.HasPrefix(function, "lightmetal/") || strings.HasPrefix(function, "main.")
}

// Kind is the effect of an instruction on the flow of control.
type Kind uint8

const (
	Straight    Kind = iota // to the next instruction
	Conditional             // to the next instruction or to the target
	Jump                    // to the target
	Call                    // to the target, which returns
	Indirect                // to an address in a register
	Trap                    // to the kernel; or data between functions
)

// Decode returns the kind of an instruction and, if it has one, its target (Arm ARM DDI 0487, C4.1:
// branches, exception generating and system instructions).
func Decode(word uint32, at uint64) (kind Kind, target uint64) {
	relative := func(shift, bits uint) uint64 {
		return at + uint64(int64(word)<<(64-shift-bits)>>(64-bits)<<2)
	}
	switch {
	case word>>24 == 0x54, word>>25&0x3f == 0x1a: // B.cond; CBZ, CBNZ
		return Conditional, relative(5, 19)
	case word>>25&0x3f == 0x1b: // TBZ, TBNZ
		return Conditional, relative(5, 14)
	case word>>26 == 0x05:
		return Jump, relative(0, 26)
	case word>>26 == 0x25:
		return Call, relative(0, 26)
	case word>>25 == 0x6b: // BR, BLR, RET
		return Indirect, 0
	case word>>24 == 0xd4, word>>16 == 0: // SVC, BRK; UDF
		return Trap, 0
	}
	return Straight, 0
}
