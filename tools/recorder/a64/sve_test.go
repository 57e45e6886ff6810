package a64

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// executedScalable matches what objdump prints of SVE's contiguous accesses, and
// executedBulk what it prints of FEAT_MOPS, with two suffixes that do not matter
// to a program: of privilege, and of streaming.
var (
	executedScalable = regexp.MustCompile(`^(ld1s?|ldnt1|ld1rs?|ld1rq|st1|stnt1)[bhwd] ` +
		`\{z\d+\.[bhsd]\}, p\d+(/z)?, \[(x\d+|sp)(, x\d+(, lsl #\d)?|, #-?\d+(, mul vl)?)?\]$|^(ldr|str) [zp]\d+, \[`)
	executedBulk = regexp.MustCompile(`^(cpyf?|set)([pme])(r|w)?t?(w|r)?n? (.*)$`)
	bulkSuffix   = regexp.MustCompile(`^(cpyf?|set)([pme])[a-z]*`)
)

var elementNames = map[int]string{1: "b", 2: "h", 4: "s", 8: "d"}

// text returns what objdump prints of an instruction of SVE, without the mark of
// a streaming access.
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
		if s.one {
			name = "ld1r"
		}
		if s.quad {
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

func (s *scalable) offsetText() string {
	shift := map[int]string{1: "", 2: ", lsl #1", 4: ", lsl #2", 8: ", lsl #3"}[s.memory]
	switch {
	case s.indexed:
		return fmt.Sprintf(", x%d%s", s.index, shift)
	case s.immediate == 0:
		return ""
	case s.one || s.quad:
		return fmt.Sprintf(", #%d", s.immediate*int64(s.size(16)))
	}
	return fmt.Sprintf(", #%d, mul vl", s.immediate)
}

// text returns what objdump prints of an instruction of FEAT_MOPS, without
// suffixes.
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

// wide returns a word of the classes of SVE's memory accesses and of FEAT_MOPS.
func wide(r *rand.Rand) uint32 {
	w := r.Uint32()
	if r.IntN(4) == 0 {
		return w&^(bulkMask) | bulkValue | w&(1<<26)
	}
	return w&^0x1e000000 | 0x84000000
}

// TestScalableAndBulkAreWhatObjdumpPrints: what is executed is all that objdump
// prints with a contiguous operand, with the same one, and what it prints of
// FEAT_MOPS. All else is refused, SVE with the kernel's option that helps.
func TestScalableAndBulkAreWhatObjdumpPrints(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	words := make([]uint32, 120000)
	for i := range words {
		words[i] = wide(r)
	}
	executed, failed := 0, 0
	names := map[string]int{}
	for n, printed := range disassemble(t, words) {
		want := ""
		line, _, _ := strings.Cut(printed[0]+" "+printed[1], "  //")
		switch {
		case executedScalable.MatchString(line):
			want = strings.NewReplacer("ldnt1", "ld1", "stnt1", "st1").Replace(line)
		case executedBulk.MatchString(line):
			want = bulkSuffix.ReplaceAllString(line, "$1$2")
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
				t.Errorf("%08x %s: decoded %q, %q", words[n], line, got, reason)
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
