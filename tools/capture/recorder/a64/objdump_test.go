package a64

import (
	"bufio"
	"bytes"
	"encoding/binary"
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

// randomWord returns a random word that is a load or a store more often than by chance.
func randomWord(r *rand.Rand) uint32 {
	w := r.Uint32()
	switch r.IntN(8) {
	case 0:
		return 0xd50b7000 | w&0xfff
	case 1:
		return w&^0x3f000000 | 0x08000000
	case 2:
		return w&^0x3f000000 | 0x19000000
	case 3:
		return w&^0x3fe00c00 | 0x38a00800&(w|0x38200800)
	case 4:
		return w&^0xbe000000 | 0x0c000000
	}
	return w&^0x0a000000 | 0x08000000
}

// knownNames matches objdump's names of the instructions that Step executes.
var knownNames = regexp.MustCompile(
	`^(ld|st)(n?p|[ut]?r|psw|[ut]?rs?[bhw]|apu?r(s?[bhw])?|lu?r[bh]?|l?ar[bh]?|llr[bh]?|1r?)$|^dc$`)

var (
	elementPattern  = regexp.MustCompile(`\{v\d+\.([bhsd])\}\[`)
	wholePattern    = regexp.MustCompile(`\{v\d+\.(\d+)([bhsd])`)
	registerPattern = regexp.MustCompile(`^([wxbhsdq])(\d+|zr)`)
	basePattern     = regexp.MustCompile(`\[(x\d+|sp)(?:, #(-?\d+)\]|\], #(-?\d+)|)`)
	elementSizes    = map[string]int{"b": 1, "h": 2, "s": 4, "w": 4, "d": 8, "x": 8, "q": 16}
)

// printedWidth returns the width in bytes of one register in a text of objdump.
func printedWidth(name, operands string) int {
	if m := elementPattern.FindStringSubmatch(operands); m != nil {
		return elementSizes[m[1]]
	}
	if m := wholePattern.FindStringSubmatch(operands); m != nil {
		n, _ := strconv.Atoi(m[1])
		if name == "ld1r" {
			n = 1
		}
		return n * elementSizes[m[2]]
	}
	switch {
	case strings.HasSuffix(name, "sw"), strings.HasSuffix(name, "sb"),
		strings.HasSuffix(name, "sh"), strings.HasSuffix(name, "rb"), strings.HasSuffix(name, "rh"):
		return elementSizes[name[len(name)-1:]]
	}
	if m := registerPattern.FindStringSubmatch(operands); m != nil {
		return elementSizes[m[1]]
	}
	return 0
}

// explainMismatch describes how objdump's text differs from the decoded instruction, or returns "".
func explainMismatch(i *instruction, name, operands string) string {
	switch {
	case strings.HasPrefix(name, "."):
		return "but objdump reports no instruction"
	case !knownNames.MatchString(name):
		return "but objdump reports another instruction"
	case name == "dc":
		return ""
	case printedWidth(name, operands) != i.width:
		return fmt.Sprintf("width %d", i.width)
	case i.load != strings.HasPrefix(name, "ld"):
		return "opposite direction"
	}
	m := basePattern.FindStringSubmatch(operands)
	if m == nil {
		return "but objdump reports no base register"
	}
	want := "sp"
	if i.base != 31 {
		want = fmt.Sprintf("x%d", i.base)
	}
	offset := m[2] + m[3]
	if offset == "" {
		offset = "0"
	}
	if m[1] != want || !i.hasIndex && offset != strconv.FormatInt(int64(i.offset), 10) ||
		i.isPostIndex != (m[3] != "" || strings.Contains(operands, "], x") ||
			strings.HasPrefix(operands, "{")) {
		return fmt.Sprintf("base %s offset %d post %v", want, int64(i.offset), i.isPostIndex)
	}
	return ""
}

// disassemble returns objdump's name and operands of each word.
func disassemble(t *testing.T, words []uint32) (list [][2]string) {
	t.Helper()
	const objdump = "aarch64-linux-gnu-objdump"
	if _, err := exec.LookPath(objdump); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("needs " + objdump)
	}
	var blob []byte
	for _, w := range words {
		blob = binary.LittleEndian.AppendUint32(blob, w)
	}
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, blob, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-D", "-z", "-b", "binary", "-m", "aarch64", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := append(strings.SplitN(lines.Text(), "\t", 4), "")
		at, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(fields[0], ":")), 16, 64)
		if len(fields) < 4 || err != nil {
			continue
		}
		if at != uint64(4*len(list)) {
			t.Fatalf("objdump printed %q, want the line of word %d", lines.Text(), len(list))
		}
		list = append(list, [2]string{fields[2], fields[3]})
	}
	if len(list) != len(words) {
		t.Fatalf("objdump printed %d of %d instructions", len(list), len(words))
	}
	return list
}

// TestDecodingAgreesWithObjdump: each accepted random word is an instruction for objdump, and has
// the same name, width, base and offset.
func TestDecodingAgreesWithObjdump(t *testing.T) {
	effort.SkipShort(t)
	r := rand.New(rand.NewPCG(1, 2))
	var accepted []instruction
	var words []uint32
	tried := 0
	for ; len(accepted) < 60000; tried++ {
		code := randomWord(r)
		if i, reason := decode(code); reason == "" && i.scalable == nil && i.bulk == nil {
			accepted, words = append(accepted, i), append(words, code)
		}
	}
	failed := 0
	for n, text := range disassemble(t, words) {
		if reason := explainMismatch(&accepted[n], text[0], text[1]); reason != "" {
			if failed++; failed <= 40 {
				t.Errorf("objdump: %08x %s %s; decoded: %s", words[n], text[0], text[1], reason)
			}
		}
	}
	t.Logf("evidence: %d random words decoded as objdump does, of %d tried; %d wrong",
		len(accepted), tried, failed)
}

// countingMemory counts accesses, which may be to any address. Loads do not change data.
type countingMemory struct{ accesses int }

func (m *countingMemory) Load(_ uint64, data []byte) error { return m.countAccess(data) }

func (m *countingMemory) Store(_ uint64, data []byte) error { return m.countAccess(data) }

func (m *countingMemory) IsDevice(address uint64) bool { return address>>3&1 == 1 }

func (m *countingMemory) countAccess(data []byte) error {
	m.accesses++
	if n := len(data); n == 0 || n > 16 || n&(n-1) != 0 {
		return fmt.Errorf("access of %d bytes, want a power of two up to 16", n)
	}
	return nil
}

// FuzzStep executes any word: Step executes or refuses the instruction, and a refused one has no
// effect.
func FuzzStep(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f.Add(randomWord(r), r.Uint64(), r.Uint64())
	}
	f.Fuzz(func(t *testing.T, code uint32, fault, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := State{PC: r.Uint64(), SP: r.Uint64(), ZVASize: 64}
		for i := range s.X {
			s.X[i] = r.Uint64()
		}
		v := Vectors{Length: 16 << r.IntN(5), Scalable: true}
		for i := range v.P {
			binary.NativeEndian.PutUint64(v.P[i][:], r.Uint64())
		}
		s.Vectors = func() (*Vectors, error) { return &v, nil }
		s.OptionB = func() bool { return seed&1 == 1 }
		if i, reason := decode(code); reason == "" { // use the address that the instruction has
			fault, _ = (&machine{State: &s, instruction: i}).address()
		}
		before := s
		before.Vectors = nil
		var memory countingMemory
		if err := Step(code, fault, &s, &memory); err != nil {
			s.Vectors = nil
			if refusal, ok := err.(*Refusal); !ok || refusal.Reason == "" || memory.accesses != 0 ||
				s.X != before.X || s.SP != before.SP {
				t.Errorf("%08x: error %v after %d accesses, want a refusal without an effect", code,
					err, memory.accesses)
			}
		}
	})
}
