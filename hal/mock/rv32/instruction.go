package rv32

// instruction is one 32-bit instruction. Its methods return the fields, under their names in the
// manual (sections 2.2 and 2.3). Immediates are sign-extended, except immU.
type instruction uint32

func (i instruction) opcode() uint32 { return uint32(i) & 0x7f }
func (i instruction) rd() uint32     { return uint32(i) >> 7 & 31 }
func (i instruction) funct3() uint32 { return uint32(i) >> 12 & 7 }
func (i instruction) rs1() uint32    { return uint32(i) >> 15 & 31 }
func (i instruction) rs2() uint32    { return uint32(i) >> 20 & 31 }
func (i instruction) funct7() uint32 { return uint32(i) >> 25 }

func (i instruction) immI() uint32 { return uint32(int32(i) >> 20) }
func (i instruction) immU() uint32 { return uint32(i) &^ 0xfff }

func (i instruction) immS() uint32 {
	return uint32(int32(i)>>25)<<5 | i.rd()
}

func (i instruction) immB() uint32 {
	return uint32(int32(i)>>31)<<12 | uint32(i)>>7&1<<11 | uint32(i)>>25&0x3f<<5 |
		uint32(i)>>8&0xf<<1
}

func (i instruction) immJ() uint32 {
	return uint32(int32(i)>>31)<<20 | uint32(i)&0xff000 | uint32(i)>>20&1<<11 |
		uint32(i)>>21&0x3ff<<1
}
