package rv32

// A small assembler: one function for each instruction format of section 2.2 of the manual, and
// tables of the instructions by name.

func rType(opcode, funct3, funct7, rd, rs1, rs2 uint32) uint32 {
	return funct7<<25 | rs2<<20 | rs1<<15 | funct3<<12 | rd<<7 | opcode
}

func iType(opcode, funct3, rd, rs1 uint32, imm int32) uint32 {
	return uint32(imm)<<20 | rs1<<15 | funct3<<12 | rd<<7 | opcode
}

func sType(funct3, rs1, rs2 uint32, imm int32) uint32 {
	u := uint32(imm)
	return u>>5<<25 | rs2<<20 | rs1<<15 | funct3<<12 | u&0x1f<<7 | opStore
}

func bType(funct3, rs1, rs2 uint32, offset int32) uint32 {
	u := uint32(offset)
	return u>>12&1<<31 | u>>5&0x3f<<25 | rs2<<20 | rs1<<15 | funct3<<12 | u>>1&0xf<<8 | u>>11&1<<7 |
		opBranch
}

func uType(opcode, rd, imm uint32) uint32 { return imm&^0xfff | rd<<7 | opcode }

func jType(rd uint32, offset int32) uint32 {
	u := uint32(offset)
	return u>>20&1<<31 | u>>1&0x3ff<<21 | u>>11&1<<20 | u>>12&0xff<<12 | rd<<7 | opJal
}

func addi(rd, rs1 uint32, imm int32) uint32 { return iType(opImm, 0, rd, rs1, imm) }
func lui(rd, imm uint32) uint32             { return uType(opLui, rd, imm) }

// li returns lui and addi, which load a value into a register.
func li(rd, value uint32) []uint32 {
	low := int32(value<<20) >> 20
	return []uint32{lui(rd, value-uint32(low)), addi(rd, rd, low)}
}

const (
	ecall  = 0x00000073
	ebreak = 0x00100073
)

// op is an instruction of a format: its name and its funct fields.
type op struct {
	name           string
	funct3, funct7 uint32
}

var (
	regOps = []op{
		{"add", 0, 0}, {"sub", 0, 0x20}, {"sll", 1, 0}, {"slt", 2, 0}, {"sltu", 3, 0},
		{"xor", 4, 0}, {"srl", 5, 0}, {"sra", 5, 0x20}, {"or", 6, 0}, {"and", 7, 0},
		{"mul", 0, 1}, {"mulh", 1, 1}, {"mulhsu", 2, 1}, {"mulhu", 3, 1},
		{"div", 4, 1}, {"divu", 5, 1}, {"rem", 6, 1}, {"remu", 7, 1},
	}
	immOps = []op{
		{"addi", 0, 0}, {"slti", 2, 0}, {"sltiu", 3, 0}, {"xori", 4, 0}, {"ori", 6, 0},
		{"andi", 7, 0},
	}
	shiftOps  = []op{{"slli", 1, 0}, {"srli", 5, 0}, {"srai", 5, 0x20}}
	branchOps = []op{
		{"beq", 0, 0}, {"bne", 1, 0}, {"blt", 4, 0}, {"bge", 5, 0}, {"bltu", 6, 0}, {"bgeu", 7, 0},
	}
	loadOps  = []op{{"lb", 0, 0}, {"lh", 1, 0}, {"lw", 2, 0}, {"lbu", 4, 0}, {"lhu", 5, 0}}
	storeOps = []op{{"sb", 0, 0}, {"sh", 1, 0}, {"sw", 2, 0}}
)

// encode ignores the operands that the format of the instruction does not have.
func encode(name string, rd, rs1, rs2 uint32, imm int32) uint32 {
	formats := []struct {
		ops    []op
		encode func(o op) uint32
	}{
		{regOps, func(o op) uint32 { return rType(opReg, o.funct3, o.funct7, rd, rs1, rs2) }},
		{immOps, func(o op) uint32 { return iType(opImm, o.funct3, rd, rs1, imm) }},
		{shiftOps, func(o op) uint32 {
			return iType(opImm, o.funct3, rd, rs1, imm&31|int32(o.funct7)<<5)
		}},
		{branchOps, func(o op) uint32 { return bType(o.funct3, rs1, rs2, imm) }},
		{loadOps, func(o op) uint32 { return iType(opLoad, o.funct3, rd, rs1, imm) }},
		{storeOps, func(o op) uint32 { return sType(o.funct3, rs1, rs2, imm) }},
	}
	for _, f := range formats {
		for _, o := range f.ops {
			if o.name == name {
				return f.encode(o)
			}
		}
	}
	panic("no instruction " + name)
}

// ram is a Bus with memory from `base` on. It rejects all other addresses.
type ram struct {
	base uint32
	data []byte
}

// newRAM has memory that begins with the code.
func newRAM(base uint32, size int, code ...uint32) *ram {
	m := &ram{base: base, data: make([]byte, size)}
	for i, w := range code {
		m.Store(base+uint32(4*i), 4, w)
	}
	return m
}

// bytesAt returns the bytes of an access, and false if they are not in the memory.
func (m *ram) bytesAt(address uint32, width uint8) ([]byte, bool) {
	o := uint64(address) - uint64(m.base)
	if address < m.base || o+uint64(width) > uint64(len(m.data)) {
		return nil, false
	}
	return m.data[o : o+uint64(width)], true
}

func (m *ram) Fetch(address uint32) (uint32, bool) { return m.Load(address, 4) }

func (m *ram) Load(address uint32, width uint8) (value uint32, ok bool) {
	b, ok := m.bytesAt(address, width)
	for i, v := range b {
		value |= uint32(v) << (8 * i)
	}
	return value, ok
}

func (m *ram) Store(address uint32, width uint8, value uint32) bool {
	b, ok := m.bytesAt(address, width)
	for i := range b {
		b[i] = byte(value >> (8 * i))
	}
	return ok
}
