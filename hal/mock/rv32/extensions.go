package rv32

import "math/bits"

// What Blackhole's cores have beyond RV32IM and ttsim v1.10.0 models
// (src/riscv_impl.h), floating point and the one control register aside:
// fence; Zba and Zbb (RISC-V Bit-Manipulation ISA-extensions 1.0.0), pack and
// brev8 of Zbkb; Zaamo.

// bitReg carries out the register-register part of Zba and Zbb. zext.h is pack
// with x0.
func bitReg(i instruction, a, b uint32) (value uint32, ok bool) {
	switch i.funct7()<<3 | i.funct3() {
	case 0x04<<3 | 4: // pack
		return a&0xffff | b<<16, true
	case 0x05<<3 | 4: // min
		return uint32(min(int32(a), int32(b))), true
	case 0x05<<3 | 5: // minu
		return min(a, b), true
	case 0x05<<3 | 6: // max
		return uint32(max(int32(a), int32(b))), true
	case 0x05<<3 | 7: // maxu
		return max(a, b), true
	case 0x10<<3 | 2: // sh1add
		return a<<1 + b, true
	case 0x10<<3 | 4: // sh2add
		return a<<2 + b, true
	case 0x10<<3 | 6: // sh3add
		return a<<3 + b, true
	case 0x20<<3 | 4: // xnor
		return a ^ ^b, true
	case 0x20<<3 | 6: // orn
		return a | ^b, true
	case 0x20<<3 | 7: // andn
		return a &^ b, true
	case 0x30<<3 | 1: // rol
		return bits.RotateLeft32(a, int(b&31)), true
	case 0x30<<3 | 5: // ror
		return bits.RotateLeft32(a, -int(b&31)), true
	}
	return 0, false
}

// bitImm carries out the register-immediate part of Zbb, and brev8.
func bitImm(i instruction, a uint32) (value uint32, ok bool) {
	imm := i.immI() & 0xfff
	if i.funct3() == 5 && imm>>5 == 0x30 { // rori
		return bits.RotateLeft32(a, -int(imm&31)), true
	}
	switch imm<<3 | i.funct3() {
	case 0x600<<3 | 1: // clz
		return uint32(bits.LeadingZeros32(a)), true
	case 0x601<<3 | 1: // ctz
		return uint32(bits.TrailingZeros32(a)), true
	case 0x602<<3 | 1: // cpop
		return uint32(bits.OnesCount32(a)), true
	case 0x604<<3 | 1: // sext.b
		return uint32(int8(a)), true
	case 0x605<<3 | 1: // sext.h
		return uint32(int16(a)), true
	case 0x287<<3 | 5: // orc.b
		a |= a >> 1
		a |= a >> 2
		a |= a >> 4
		return a & 0x01010101 * 0xff, true
	case 0x687<<3 | 5: // brev8
		return bits.ReverseBytes32(bits.Reverse32(a)), true
	case 0x698<<3 | 5: // rev8
		return bits.ReverseBytes32(a), true
	}
	return 0, false
}

// fence accepts the forms ttsim does. There is no cache, so it has nothing to
// do.
func (c *Core) fence(i instruction) (ok bool) {
	if !c.Extensions || i.funct3() != 0 || i.rd() != 0 || i.rs1() != 0 {
		return false
	}
	switch i.immI() {
	case 0x023, 0x031, 0x033, 0x0ff: // r,rw; rw,w; rw,rw; iorw,iorw
		return true
	}
	return false
}

// atomic carries out Zaamo. Other cores step between instructions only, so a
// load and a store are atomic, and aq and rl have no effect.
func (c *Core) atomic(i instruction, address, b uint32) (old uint32, ok bool) {
	funct5 := i.funct7() >> 2
	if !c.Extensions || i.funct3() != 2 || funct5 == 2 || funct5 == 3 { // lr.w, sc.w
		return 0, false
	}
	if _, ok = amo(funct5, 0, 0); !ok {
		return 0, false
	}
	if address >= c.AtomicsBelow {
		c.halt(LoadRefused, i, address)
		return 0, false
	}
	if old, ok = c.read(i, address, 4); !ok {
		return 0, false
	}
	value, _ := amo(funct5, old, b)
	return old, c.write(i, address, 4, value)
}

func amo(funct5, a, b uint32) (value uint32, ok bool) {
	switch funct5 {
	case 0x00: // amoadd.w
		return a + b, true
	case 0x01: // amoswap.w
		return b, true
	case 0x04: // amoxor.w
		return a ^ b, true
	case 0x08: // amoor.w
		return a | b, true
	case 0x0c: // amoand.w
		return a & b, true
	case 0x10: // amomin.w
		return uint32(min(int32(a), int32(b))), true
	case 0x14: // amomax.w
		return uint32(max(int32(a), int32(b))), true
	case 0x18: // amominu.w
		return min(a, b), true
	case 0x1c: // amomaxu.w
		return max(a, b), true
	}
	return 0, false
}
