package rv32

// alu returns the result of a register-register instruction of RV32I or the M extension. `ok` is
// false if there is no such instruction.
func alu(i instruction, a, b uint32) (value uint32, ok bool) {
	switch i.funct7() {
	case 0x00:
		return integer(i.funct3(), a, b), true
	case 0x01:
		return muldiv(i.funct3(), a, b), true
	case 0x20:
		switch i.funct3() {
		case 0: // sub
			return a - b, true
		case 5: // sra
			return uint32(int32(a) >> (b & 31)), true
		}
	}
	return 0, false
}

// aluImm returns the result of a register-immediate instruction of RV32I with the register's value
// `a`. `ok` is false if there is no such instruction. The immediate of a shift contains the amount
// in its lower 5 bits and funct7 in its upper 7 bits.
func aluImm(i instruction, a uint32) (value uint32, ok bool) {
	f, imm := i.funct3(), i.immI()
	shift := f == 1 || f == 5
	switch {
	case shift && i.funct7() == 0x20 && f == 5: // srai
		return uint32(int32(a) >> (imm & 31)), true
	case shift && i.funct7() != 0:
		return 0, false
	}
	return integer(f, a, imm), true
}

// integer is for funct7 = 0, and for immediates.
func integer(funct3, a, b uint32) uint32 {
	switch funct3 {
	case 0: // add, addi
		return a + b
	case 1: // sll, slli
		return a << (b & 31)
	case 2: // slt, slti
		return truth(int32(a) < int32(b))
	case 3: // sltu, sltiu
		return truth(a < b)
	case 4: // xor, xori
		return a ^ b
	case 5: // srl, srli
		return a >> (b & 31)
	case 6: // or, ori
		return a | b
	}
	return a & b // and, andi
}

// muldiv is for the M extension (chapter 7). If the divisor is 0, the quotient is all ones and the
// remainder is the dividend. If the most negative number is divided by -1, the quotient is that
// number and the remainder is 0 (table 7.1); Go's operators do the same.
func muldiv(funct3, a, b uint32) uint32 {
	if b == 0 && funct3 >= 4 {
		if funct3 < 6 {
			return ^uint32(0)
		}
		return a
	}
	switch funct3 {
	case 0: // mul
		return a * b
	case 1: // mulh
		return uint32(int64(int32(a)) * int64(int32(b)) >> 32)
	case 2: // mulhsu
		return uint32(int64(int32(a)) * int64(b) >> 32)
	case 3: // mulhu
		return uint32(uint64(a) * uint64(b) >> 32)
	case 4: // div
		return uint32(int32(a) / int32(b))
	case 5: // divu
		return a / b
	case 6: // rem
		return uint32(int32(a) % int32(b))
	}
	return a % b // remu
}

func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
