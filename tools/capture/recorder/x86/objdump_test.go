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
)

// slot is how far apart instructions lie for objdump: more than it can make of
// one and what follows.
const slot = 32

// random gives bytes that are an instruction more often than chance has it.
func random(r *rand.Rand) []byte {
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

var names = strings.Fields("rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15")

// operand is the memory operand as objdump writes it.
func operand(i *instruction) string {
	text := ""
	if i.base >= 0 {
		text = names[i.base]
	}
	if i.ipRelative {
		text = "rip"
	}
	if i.index >= 0 {
		text += fmt.Sprintf("+%s*%d", names[i.index], 1<<i.scale)
	}
	text = strings.TrimPrefix(text, "+")
	if d := int64(i.displacement); d < 0 && !i.ipRelative {
		text += fmt.Sprintf("-%#x", -d)
	} else if d != 0 || i.mode != 0 || i.ipRelative {
		text += fmt.Sprintf("+%#x", uint64(d))
	}
	return "[" + text + "]"
}

// plain tells that objdump writes the operand of an instruction as operand does.
func plain(i *instruction) bool {
	return i.form.shape == modRM && !i.address32 && (i.base >= 0 || i.ipRelative)
}

var widths = map[string]int{"BYTE": 1, "WORD": 2, "DWORD": 4, "QWORD": 8, "XMMWORD": 16,
	"YMMWORD": 32, "ZMMWORD": 64}

// noIndex is how objdump shows that there is none.
var noIndex = regexp.MustCompile(`\+riz\*\d`)

// width is what objdump says of the operand, 0 where it says nothing.
func width(text string) int {
	before, _, ok := strings.Cut(text, " PTR ")
	fields := strings.FieldsFunc(before, func(c rune) bool { return c == ' ' || c == ',' })
	if !ok || len(fields) == 0 {
		return 0
	}
	return widths[fields[len(fields)-1]]
}

// disassembled is what objdump makes of an instruction.
type disassembled struct {
	length     int
	code, text string
}

// disassemble has objdump decode instructions.
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
		blob.Write(bytes.Repeat([]byte{0x90}, slot-len(code)))
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
		if len(fields) != 3 || err != nil || at%slot != 0 {
			continue
		}
		shown = append(shown, disassembled{len(strings.Fields(fields[1])), fields[1], fields[2]})
	}
	if len(shown) != len(list) {
		t.Fatalf("objdump shows %d of %d instructions", len(shown), len(list))
	}
	return shown
}

// TestWhatIsDecodedIsWhatObjdumpSays: no instruction that is taken has another
// length, width or place there, or is none.
func TestWhatIsDecodedIsWhatObjdumpSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var taken []instruction
	var list [][]byte
	tried := 0
	for ; len(taken) < 60000; tried++ {
		code := random(r)
		i, err := decode(code)
		if err != nil {
			continue
		}
		taken = append(taken, i)
		list = append(list, code[:i.length])
	}
	wrong := 0
	for n, shown := range disassemble(t, list) {
		i := &taken[n]
		reason := ""
		switch w := width(shown.text); {
		case strings.Contains(shown.text, "(bad)"):
			reason = "none for objdump"
		case shown.length != i.length:
			reason = fmt.Sprintf("length %d", i.length)
		case w != 0 && i.memoryWidth() != 0 && w != i.memoryWidth():
			reason = fmt.Sprintf("width %d", i.memoryWidth())
		case plain(i) && !strings.Contains(noIndex.ReplaceAllString(shown.text, ""), operand(i)):
			reason = operand(i)
		}
		if reason != "" {
			if wrong++; wrong <= 40 {
				t.Errorf("%s\t%s: decoded: %s", shown.code, shown.text, reason)
			}
		}
	}
	t.Logf("evidence: %d random inputs decoded as objdump does, of %d tried; %d wrong", len(taken),
		tried, wrong)
}

// followedWords are what instructions may be called that are followed and have no operand in
// memory.
var followedWords = regexp.MustCompile(`^((bnd|repn?z|rep|rex\S*|[cdes]s|data16|notrack) +)*` +
	`(add|or|adc|sbb|and|sub|xor|cmp|test|mov|movabs|lea|inc|dec|not|neg|imul|` +
	`shl|sal|shr|sar|push|` +
	`pop|call|ret|leave|jmp|jn?[abceglopsz]e?|jp[eo]|j[ab]e?|j[gl]e?|cmovn?[abeglops]e?|` +
	`setn?[abeglops]e?|movzx|movsxd?|cbw|cwde|cdqe|cwd|cdq|cqo|bswap|nop[wlq]?|xchg +ax,ax|` +
	`endbr(64|32)|prefetch\w*|[slm]fence|vzeroupper|` +
	`v?xorp[sd]|v?pxor|v?movap[sd]|v?movup[sd]|v?movdq[au])\b`)

// TestWhatIsFollowedIsWhatObjdumpSays: no instruction that is followed has another length there,
// or another name.
func TestWhatIsFollowedIsWhatObjdumpSays(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var lengths []int
	var list [][]byte
	tried := 0
	for ; len(list) < 60000; tried++ {
		code := random(r)
		i := decodeFollowed(code)
		if i.run == nil {
			continue
		}
		if known, err := decode(code); err == nil { // its length is another test's
			if known.length != i.length {
				t.Errorf("% x: length %d, and %d where it is followed", code, known.length,
					i.length)
			}
			continue
		}
		lengths = append(lengths, i.length)
		list = append(list, code[:i.length])
	}
	wrong := 0
	for n, shown := range disassemble(t, list) {
		if shown.length != lengths[n] || !followedWords.MatchString(shown.text) {
			if wrong++; wrong <= 40 {
				t.Errorf("%s\t%s: decoded: length %d", shown.code, shown.text, lengths[n])
			}
		}
	}
	t.Logf("evidence: %d random inputs followed as objdump decodes them, of %d tried; %d wrong",
		len(list), tried, wrong)
}

// TestWhatLooksLikeAnotherInstructionIsRefused: XSAVEOPT stores, a flush makes no access.
func TestWhatLooksLikeAnotherInstructionIsRefused(t *testing.T) {
	for code, want := range map[string]bool{
		// XSAVEOPT, of 64 bits, CLRSSBSY
		"\x0f\xae\x37": false, "\x48\x0f\xae\x37": false, "\xf3\x0f\xae\x37": false,
		// CLFLUSH, CLFLUSHOPT, CLWB
		"\x0f\xae\x3f": true, "\x66\x0f\xae\x3f": true, "\x66\x0f\xae\x37": true,
		"\x0f\xae\x2f": false, "\x66\x0f\xae\x2f": false, // XRSTOR
		// MOVSXD, that of 16 bits: how much it loads differs
		"\x63\x07": true, "\x48\x63\x07": true, "\x66\x63\x07": false,
	} {
		if _, err := decode([]byte(code)); (err == nil) != want {
			t.Errorf("% x: %v", code, err)
		}
	}
}

// TestWhatNeedsNoPageToComputeInIsWhatThePageOfTheRecorderSays, by (%rdi).
func TestWhatNeedsNoPageToComputeInIsWhatThePageOfTheRecorderSays(t *testing.T) {
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
		if err := Step([]byte(code), 4096, &s, &memoryOf{}); (err == nil) != own {
			t.Errorf("% x: %v", code, err)
		}
	}
}

// memoryOf is memory where everything is, and gives nothing back.
type memoryOf struct{ accesses int }

func (m *memoryOf) Load(_ uint64, data []byte) error { return m.note(data) }

func (m *memoryOf) Store(_ uint64, data []byte) error { return m.note(data) }

func (m *memoryOf) note(data []byte) error {
	m.accesses++
	if n := len(data); n == 0 || n > 64 || n&(n-1) != 0 {
		return fmt.Errorf("an access of %d bytes", n)
	}
	return nil
}

// FuzzStep: whatever bytes there are, an instruction is carried out or refused,
// and a refusal has done nothing.
func FuzzStep(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f.Add(random(r), r.Uint64(), r.Uint64())
	}
	// POP by RSP, whose operand lies behind what it pops
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
		if err == nil { // a fault that fits more often than chance has it
			m := machine{State: &s, instruction: &i}
			fault = m.effectiveAddress()
			if i.form.shape == noModRM {
				fault = s.Reg[rdi]
			}
		}
		before := s.Reg
		var memory memoryOf
		if err := Step(code, fault, &s, &memory); err != nil {
			refusal, ok := err.(*Refusal)
			if !ok || refusal.Reason == "" || memory.accesses != 0 || s.Reg != before {
				t.Errorf("% x: %v after %d accesses", code, err, memory.accesses)
			}
		}
	})
}
