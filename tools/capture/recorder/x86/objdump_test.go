package x86

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
)

// slotSize is the distance in bytes of instructions in objdump's input. It is larger than any
// instruction that begins in the bytes of the one before.
const slotSize = 32

// randomCode returns random bytes that are an instruction more often than by chance.
func randomCode(r *rand.Rand) []byte {
	code := make([]byte, 15)
	for i := range code {
		code[i] = byte(r.Uint32())
	}
	at := 0
	put := func(b ...byte) { at += copy(code[at:], b) }
	for r.IntN(3) == 0 {
		put([]byte{0x66, 0xf2, 0xf3, 0x67, 0x64, 0x2e}[r.IntN(6)])
	}
	switch r.IntN(6) {
	case 0:
		put(0x40 | byte(r.IntN(16)))
	case 1:
		put(0x0f)
	case 2:
		put(0x40|byte(r.IntN(16)), 0x0f)
	case 3:
		put(0xc5, byte(r.Uint32()))
	case 4:
		put(0xc4, byte(r.Uint32())&0xe0|byte(1+r.IntN(3)), byte(r.Uint32()))
		if r.IntN(2) == 0 {
			code[at-1] |= 0x78
		}
	case 5:
		put(0x62, byte(r.Uint32())&0xf0|byte(1+r.IntN(3)), byte(r.Uint32())|4, byte(r.Uint32()))
		if r.IntN(2) == 0 {
			code[at-2] |= 0x78
			code[at-1] = code[at-1]&0x60 | 8
		}
	}
	return code
}

var registerNames = strings.Fields("rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15")

// operandText returns the memory operand of an instruction as objdump writes it.
func operandText(i *instruction) string {
	text := ""
	if i.base >= 0 {
		text = registerNames[i.base]
	}
	if i.ipRelative {
		text = "rip"
	}
	if i.index >= 0 {
		text += fmt.Sprintf("+%s*%d", registerNames[i.index], 1<<i.scale)
	}
	text = strings.TrimPrefix(text, "+")
	if d := int64(i.displacement); d < 0 && !i.ipRelative {
		text += fmt.Sprintf("-%#x", -d)
	} else if d != 0 || i.mode != 0 || i.ipRelative {
		text += fmt.Sprintf("+%#x", uint64(d))
	}
	return "[" + text + "]"
}

// hasPlainOperand reports whether objdump writes the operand of an instruction as operandText does.
func hasPlainOperand(i *instruction) bool {
	return i.form.shape == modRM && !i.address32 && (i.base >= 0 || i.ipRelative)
}

var widthsByName = map[string]int{"BYTE": 1, "WORD": 2, "DWORD": 4, "QWORD": 8, "XMMWORD": 16,
	"YMMWORD": 32, "ZMMWORD": 64}

// noIndex matches objdump's text for an operand without an index register.
var noIndex = regexp.MustCompile(`\+riz\*\d`)

// printedWidth returns the width in bytes of the operand in a text of objdump, 0 if it has none.
func printedWidth(text string) int {
	before, _, ok := strings.Cut(text, " PTR ")
	fields := strings.FieldsFunc(before, func(c rune) bool { return c == ' ' || c == ',' })
	if !ok || len(fields) == 0 {
		return 0
	}
	return widthsByName[fields[len(fields)-1]]
}

// disassembled is an instruction that objdump has decoded.
type disassembled struct {
	length     int
	code, text string
}

// disassemble decodes instructions by objdump.
func disassemble(t *testing.T, list [][]byte) (shown []disassembled) {
	t.Helper()
	if _, err := exec.LookPath("objdump"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("needs objdump")
	}
	var blob bytes.Buffer
	for _, code := range list {
		blob.Write(code)
		blob.Write(bytes.Repeat([]byte{0x90}, slotSize-len(code)))
	}
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, blob.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel",
		"-w", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), "\t", 3)
		at, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(fields[0], ":")), 16, 64)
		if len(fields) != 3 || err != nil || at%slotSize != 0 {
			continue
		}
		shown = append(shown, disassembled{len(strings.Fields(fields[1])), fields[1], fields[2]})
	}
	if len(shown) != len(list) {
		t.Fatalf("objdump printed %d of %d instructions", len(shown), len(list))
	}
	return shown
}

// TestDecodingAgreesWithObjdump: each accepted random input is an instruction for objdump, and has
// the same length, width and operand.
func TestDecodingAgreesWithObjdump(t *testing.T) {
	effort.SkipShort(t)
	r := rand.New(rand.NewPCG(1, 2))
	var accepted []instruction
	var list [][]byte
	tried := 0
	for ; len(accepted) < 60000; tried++ {
		code := randomCode(r)
		i, err := decode(code)
		if err != nil {
			continue
		}
		accepted = append(accepted, i)
		list = append(list, code[:i.length])
	}
	wrong := 0
	for n, shown := range disassemble(t, list) {
		i := &accepted[n]
		reason := ""
		switch w := printedWidth(shown.text); {
		case strings.Contains(shown.text, "(bad)"):
			reason = "but objdump reports no instruction"
		case shown.length != i.length:
			reason = fmt.Sprintf("length %d", i.length)
		case w != 0 && i.memoryWidth() != 0 && w != i.memoryWidth():
			reason = fmt.Sprintf("width %d", i.memoryWidth())
		case hasPlainOperand(i) && !strings.Contains(noIndex.ReplaceAllString(shown.text, ""),
			operandText(i)):
			reason = "operand " + operandText(i)
		}
		if reason != "" {
			if wrong++; wrong <= 40 {
				t.Errorf("objdump: %s\t%s; decoded: %s", shown.code, shown.text, reason)
			}
		}
	}
	t.Logf("evidence: %d random inputs decoded as objdump does, of %d tried; %d wrong",
		len(accepted), tried, wrong)
}

// followedNames matches objdump's names of the instructions without a memory operand that the
// recorder follows.
var followedNames = regexp.MustCompile(`^((bnd|repn?z|rep|rex\S*|[cdes]s|data16|notrack) +)*` +
	`(add|or|adc|sbb|and|sub|xor|cmp|test|mov|movabs|lea|inc|dec|not|neg|imul|` +
	`shl|sal|shr|sar|push|` +
	`pop|call|ret|leave|jmp|jn?[abceglopsz]e?|jp[eo]|j[ab]e?|j[gl]e?|cmovn?[abeglops]e?|` +
	`setn?[abeglops]e?|movzx|movsxd?|cbw|cwde|cdqe|cwd|cdq|cqo|bswap|nop[wlq]?|xchg +ax,ax|` +
	`endbr(64|32)|prefetch\w*|[slm]fence|vzeroupper|` +
	`v?xorp[sd]|v?pxor|v?movap[sd]|v?movup[sd]|v?movdq[au])\b`)

// TestDecodingOfFollowedAgreesWithObjdump: each followed instruction has the same length for
// objdump and a name of followedNames.
func TestDecodingOfFollowedAgreesWithObjdump(t *testing.T) {
	effort.SkipShort(t)
	r := rand.New(rand.NewPCG(5, 6))
	var lengths []int
	var list [][]byte
	tried := 0
	for ; len(list) < 60000; tried++ {
		code := randomCode(r)
		i := decodeFollowed(code)
		if !i.isFollowed {
			continue
		}
		if known, err := decode(code); err == nil { // TestDecodingAgreesWithObjdump tests these
			if known.length != i.length {
				t.Errorf("% x: decode reports length %d, decodeFollowed %d", code, known.length,
					i.length)
			}
			continue
		}
		lengths = append(lengths, i.length)
		list = append(list, code[:i.length])
	}
	wrong := 0
	for n, shown := range disassemble(t, list) {
		if shown.length != lengths[n] || !followedNames.MatchString(shown.text) {
			if wrong++; wrong <= 40 {
				t.Errorf("objdump: %s\t%s; followed with length %d", shown.code, shown.text,
					lengths[n])
			}
		}
	}
	t.Logf("evidence: %d random inputs followed as objdump decodes them, of %d tried; %d wrong",
		len(list), tried, wrong)
}

// TestInstructionsWithSimilarCodesAreRefused: XSAVEOPT, which stores, has a code similar to that of
// a flush, which makes no access.
func TestInstructionsWithSimilarCodesAreRefused(t *testing.T) {
	for code, want := range map[string]bool{
		// XSAVEOPT, XSAVEOPT64, CLRSSBSY
		"\x0f\xae\x37": false, "\x48\x0f\xae\x37": false, "\xf3\x0f\xae\x37": false,
		// CLFLUSH, CLFLUSHOPT, CLWB
		"\x0f\xae\x3f": true, "\x66\x0f\xae\x3f": true, "\x66\x0f\xae\x37": true,
		"\x0f\xae\x2f": false, "\x66\x0f\xae\x2f": false, // XRSTOR
		// MOVSXD; the one of 16 bits loads 2 or 4 bytes, depending on the processor
		"\x63\x07": true, "\x48\x63\x07": true, "\x66\x63\x07": false,
	} {
		if _, err := decode([]byte(code)); (err == nil) != want {
			t.Errorf("% x: error %v, want accepted: %v", code, err, want)
		}
	}
}

// TestInstructionsWithoutComputePageAreThoseOfTheManual: the recorder executes these instructions
// on (%rdi) itself, as its page says. Others need a page in which the program's thread executes
// them.
func TestInstructionsWithoutComputePageAreThoseOfTheManual(t *testing.T) {
	for code, own := range map[string]bool{
		// MOV, MOVZX, MOVSX, MOVSXD, MOVNTI
		"\x89\x07": true, "\x0f\xb6\x07": true, "\x0f\xbe\x07": true, "\x48\x63\x07": true,
		"\x0f\xc3\x07": true,
		// ADD, CMP, TEST, PUSH, POP, REP STOS
		"\x01\x07": true, "\x3b\x07": true, "\x85\x07": true, "\xff\x37": true, "\x8f\x07": true,
		"\xf3\xaa": true,
		// MOVUPS, MOVHPS, MOVD, VMOVUPS with a mask
		"\x0f\x11\x07": true, "\x0f\x17\x07": true, "\x66\x0f\x7e\x07": true,
		"\x62\xf1\x7c\x49\x11\x07": true,
		// VMASKMOVPS; loads: MOVUPS, MOVSS
		"\xc4\xe2\x6d\x2e\x1f": true, "\x0f\x10\x07": true, "\xf3\x0f\x10\x07": true,
		// PEXTRD, VEXTRACTF128, SETE
		"\x66\x0f\x3a\x16\x07\x00": false, "\xc4\xe3\x7d\x19\x07\x01": false, "\x0f\x94\x07": false,
		// INC, DEC, NOT, NEG
		"\xfe\x07": true, "\xff\x0f": true, "\xf6\x17": true, "\xf7\x1f": true,
		// MOVBE, CMOVE, MUL, MOVLPS
		"\x0f\x38\xf1\x07": false, "\x0f\x44\x07": false, "\xf7\x27": false, "\x0f\x12\x07": false,
		// VMOVUPS with a mask, VBROADCASTSS
		"\x62\xf1\x7c\x49\x10\x07": false, "\xc4\xe2\x7d\x18\x07": false,
	} {
		s := State{Vectors: func() (*Vectors, error) { return &Vectors{}, nil }}
		s.Reg[rcx], s.Reg[rdi] = 1, 4096
		if err := Step([]byte(code), 4096, &s, &countingMemory{}); (err == nil) != own {
			t.Errorf("% x: error %v, want executed without a page: %v", code, err, own)
		}
	}
}

// countingMemory counts accesses, which may be to any address. Loads do not change data.
type countingMemory struct{ accesses int }

func (m *countingMemory) Load(_ uint64, data []byte) error { return m.countAccess(data) }

func (m *countingMemory) Store(_ uint64, data []byte) error { return m.countAccess(data) }

func (m *countingMemory) countAccess(data []byte) error {
	m.accesses++
	if n := len(data); n == 0 || n > 64 || n&(n-1) != 0 {
		return fmt.Errorf("access of %d bytes, want a power of two up to 64", n)
	}
	return nil
}

// FuzzStep executes any bytes: Step executes or refuses the instruction, and a refused one has no
// effect.
func FuzzStep(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f.Add(randomCode(r), r.Uint64(), r.Uint64())
	}
	// POP with an operand at RSP, whose address is computed after RSP was incremented
	f.Add([]byte("\x8fDDD"), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, code []byte, fault, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := State{IP: r.Uint64(), Flags: r.Uint64()}
		for i := range s.Reg {
			s.Reg[i] = r.Uint64()
		}
		s.Reg[rcx] &= 0xff
		var v Vectors
		s.Vectors = func() (*Vectors, error) { return &v, nil }
		i, err := decode(code)
		if err == nil { // use the address that the instruction has
			m := machine{State: &s, instruction: &i}
			fault = m.effectiveAddress()
			if i.form.shape == noModRM {
				fault = s.Reg[rdi]
			}
		}
		before := s.Reg
		var memory countingMemory
		if err := Step(code, fault, &s, &memory); err != nil {
			refusal, ok := err.(*Refusal)
			if !ok || refusal.Reason == "" || memory.accesses != 0 || s.Reg != before {
				t.Errorf("% x: error %v after %d accesses, want a refusal without an effect", code,
					err, memory.accesses)
			}
		}
	})
}
