package a64

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
)

// Patterns of objdump's text of the instructions that Step supports. sveAccessPattern matches SVE's
// contiguous accesses. cpyOrSetPattern matches the CPY and SET instructions of FEAT_MOPS, also with
// the suffixes of unprivileged and of non-temporal accesses, which do not matter to a program.
// cpyOrSetNamePattern matches the names of these instructions.
var (
	sveAccessPattern = regexp.MustCompile(`^(ld1s?|ldnt1|ld1rs?|ld1rq|st1|stnt1)[bhwd] ` +
		`\{z\d+\.[bhsd]\}, p\d+(/z)?, \[(x\d+|sp)` +
		`(, x\d+(, lsl #\d)?|, #-?\d+(, mul vl)?)?\]$|^(ldr|str) [zp]\d+, \[`)
	cpyOrSetPattern     = regexp.MustCompile(`^(cpyf?|set)([pme])(r|w)?t?(w|r)?n? (.*)$`)
	cpyOrSetNamePattern = regexp.MustCompile(`^(cpyf?|set)([pme])[a-z]*`)
)

var elementNames = map[int]string{1: "b", 2: "h", 4: "s", 8: "d"}

// text returns objdump's text of an SVE instruction, without the mark of a streaming access.
func (s *scalable) text() string {
	var name, operand string
	memory := strings.Replace(elementNames[s.memory], "s", "w", 1)
	switch {
	case !s.governed:
		name = "str"
		if s.load {
			name = "ldr"
		}
		operand = fmt.Sprintf("z%d", s.register)
		if s.predicateData {
			operand = fmt.Sprintf("p%d", s.register)
		}
	case !s.load:
		name = "st1" + memory
		operand = fmt.Sprintf("{z%d.%s}, p%d", s.register, elementNames[s.element], s.predicate)
	default:
		name = "ld1"
		if s.loadsOne {
			name = "ld1r"
		}
		if s.loadsQuad {
			name = "ld1rq"
		}
		if s.signed {
			name += "s"
		}
		name += memory
		operand = fmt.Sprintf("{z%d.%s}, p%d/z", s.register, elementNames[s.element], s.predicate)
	}
	base := fmt.Sprintf("x%d", s.base)
	if s.base == 31 {
		base = "sp"
	}
	return fmt.Sprintf("%s %s, [%s%s]", name, operand, base, s.offsetText())
}

// offsetText returns the offset of the operand as objdump prints it.
func (s *scalable) offsetText() string {
	shift := map[int]string{1: "", 2: ", lsl #1", 4: ", lsl #2", 8: ", lsl #3"}[s.memory]
	switch {
	case s.indexed:
		return fmt.Sprintf(", x%d%s", s.index, shift)
	case s.immediate == 0:
		return ""
	case s.loadsOne || s.loadsQuad:
		return fmt.Sprintf(", #%d", s.immediate*int64(s.size(16)))
	}
	return fmt.Sprintf(", #%d, mul vl", s.immediate)
}

// text returns objdump's text of an instruction of FEAT_MOPS, without suffixes.
func (b *bulk) text() string {
	stage := "pme"[b.stage : b.stage+1]
	if b.set {
		data := fmt.Sprintf("x%d", b.from)
		if b.from == 31 {
			data = "xzr"
		}
		return fmt.Sprintf("set%s [x%d]!, x%d!, %s", stage, b.to, b.size, data)
	}
	name := "cpy"
	if b.forwardOnly {
		name = "cpyf"
	}
	return fmt.Sprintf("%s%s [x%d]!, [x%d]!, x%d!", name, stage, b.to, b.from, b.size)
}

// randomScalableWord returns a random word of the classes of SVE's memory accesses and FEAT_MOPS.
func randomScalableWord(r *rand.Rand) uint32 {
	w := r.Uint32()
	if r.IntN(4) == 0 {
		return w&^(bulkMask) | bulkValue | w&(1<<26)
	}
	return w&^0x1e000000 | 0x84000000
}

// TestDecodingOfScalableAndBulkAgreesWithObjdump: Step supports exactly the instructions that
// objdump prints with a contiguous operand, with the same operand, and those of FEAT_MOPS. It
// refuses other words; the reason for an SVE instruction names the kernel option that helps.
func TestDecodingOfScalableAndBulkAgreesWithObjdump(t *testing.T) {
	effort.SkipShort(t)
	r := rand.New(rand.NewPCG(5, 6))
	words := make([]uint32, 120000)
	for i := range words {
		words[i] = randomScalableWord(r)
	}
	executed, failed := 0, 0
	names := map[string]int{}
	for n, printed := range disassemble(t, words) {
		want := ""
		line, _, _ := strings.Cut(printed[0]+" "+printed[1], "  //")
		switch {
		case sveAccessPattern.MatchString(line):
			want = strings.NewReplacer("ldnt1", "ld1", "stnt1", "st1").Replace(line)
		case cpyOrSetPattern.MatchString(line):
			want = cpyOrSetNamePattern.ReplaceAllString(line, "$1$2")
		}
		got := ""
		i, reason := decode(words[n])
		switch {
		case reason != "":
		case i.scalable != nil:
			got = i.scalable.text()
		case i.bulk != nil:
			got = i.bulk.text()
		}
		scalable := bits(words[n], 28, 25) == 2
		if got != want || scalable && got == "" && !strings.Contains(reason, "arm64.nosve") {
			if failed++; failed <= 40 {
				t.Errorf("%08x: decoded %q, want %q; reason %q; objdump: %s", words[n], got, want,
					reason, line)
			}
		}
		if got != "" {
			executed++
			names[printed[0]]++
		}
	}
	t.Logf("evidence: %d words of %d names executed, %d refused; %d wrong",
		executed, len(names), len(words)-executed, failed)
}

// widthMemory lists the offset and width of each access.
type widthMemory struct {
	*flatMemory
	accesses []string
}

func (m *widthMemory) Load(address uint64, data []byte) error {
	m.accesses = append(m.accesses, fmt.Sprintf("R%d+%d", address-middle, len(data)))
	return m.flatMemory.Load(address, data)
}

func (m *widthMemory) Store(address uint64, data []byte) error {
	m.accesses = append(m.accesses, fmt.Sprintf("W%d+%d", address-middle, len(data)))
	return m.flatMemory.Store(address, data)
}

// TestWidthsOfAccesses: each element of 2 bytes and more is one access; adjacent bytes are moved by
// aligned accesses of up to 16 bytes.
func TestWidthsOfAccesses(t *testing.T) {
	tests := []struct {
		name      string
		code      uint32
		to, from  uint64
		predicate uint64
		want      string
	}{
		{"ld1b {z0.b}, p0/z, [x0]", 0xa400a000, 3, 0, 0xffffffff,
			"R3+1 R4+4 R8+8 R16+16 R32+2 R34+1"},
		{"st1b {z0.b}, p0, [x0]", 0xe400e000, 0, 0, 0x80ff00f1, "W0+1 W4+4 W16+8 W31+1"},
		{"st1b {z0.h}, p0, [x0]", 0xe420e000, 2, 0, 0x55555555, "W2+2 W4+4 W8+8 W16+2"},
		{"st1w {z0.s}, p0, [x0]", 0xe540e000, 0, 0, 0x11110011,
			"W0+4 W4+4 W16+4 W20+4 W24+4 W28+4"},
		{"str z0, [x0]", 0xe5804000, 0, 0, 0, "W0+16 W16+16"},
		{"setp [x0]!, x2!, x1", 0x19c10440, 7, 0, 0, "W7+1 W8+8 W16+4"},
		{"cpyfp [x0]!, [x1]!, x2!", 0x19010440, 6, 102, 0,
			"R102+2 W6+2 R104+8 W8+8 R112+2 W16+2 R114+1 W18+1"},
		{"cpyp [x0]!, [x1]!, x2!", 0x1d010440, 8, 0, 0, "R12+1 W20+1 R8+4 W16+4 R0+8 W8+8"},
	}
	for _, test := range tests {
		v := &Vectors{Length: 32, Scalable: true}
		for i := range 4 {
			v.P[0][i] = byte(test.predicate >> (8 * i))
		}
		s := State{
			Vectors: func() (*Vectors, error) { return v, nil },
			OptionB: func() bool { return false },
		}
		s.X[0], s.X[1], s.X[2] = middle+test.to, middle+test.from, 13
		m := &widthMemory{flatMemory: newFlatMemory()}
		err := Step(test.code, s.X[0], &s, m)
		if got := strings.Join(m.accesses, " "); err != nil || got != test.want {
			t.Errorf("%s: accesses %q, error %v, want %q", test.name, got, err, test.want)
		}
	}
}
