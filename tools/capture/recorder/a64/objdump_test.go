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
)

// random returns a word that is a load or a store more often than by chance.
func random(r *rand.Rand) uint32 {
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

// known are the instructions that are executed.
var known = regexp.MustCompile(
	`^(ld|st)(n?p|[ut]?r|psw|[ut]?rs?[bhw]|apu?r(s?[bhw])?|lu?r[bh]?|l?ar[bh]?|llr[bh]?|1r?)$|^dc$`)

var (
	element  = regexp.MustCompile(`\{v\d+\.([bhsd])\}\[`)
	whole    = regexp.MustCompile(`\{v\d+\.(\d+)([bhsd])`)
	register = regexp.MustCompile(`^([wxbhsdq])(\d+|zr)`)
	base     = regexp.MustCompile(`\[(x\d+|sp)(?:, #(-?\d+)\]|\], #(-?\d+)|)`)
	sizes    = map[string]int{"b": 1, "h": 2, "s": 4, "w": 4, "d": 8, "x": 8, "q": 16}
)

// width is that of one register of a text of objdump's.
func width(name, operands string) int {
	if m := element.FindStringSubmatch(operands); m != nil {
		return sizes[m[1]]
	}
	if m := whole.FindStringSubmatch(operands); m != nil {
		n, _ := strconv.Atoi(m[1])
		if name == "ld1r" {
			n = 1
		}
		return n * sizes[m[2]]
	}
	switch {
	case strings.HasSuffix(name, "sw"), strings.HasSuffix(name, "sb"),
		strings.HasSuffix(name, "sh"), strings.HasSuffix(name, "rb"), strings.HasSuffix(name, "rh"):
		return sizes[name[len(name)-1:]]
	}
	if m := register.FindStringSubmatch(operands); m != nil {
		return sizes[m[1]]
	}
	return 0
}

// wrong says what objdump's text of an instruction and what was decoded differ in.
func wrong(i *instruction, name, operands string) string {
	switch {
	case strings.HasPrefix(name, "."):
		return "none for objdump"
	case !known.MatchString(name):
		return "another one for objdump"
	case name == "dc":
		return ""
	case width(name, operands) != i.width:
		return fmt.Sprintf("width %d", i.width)
	case i.load != strings.HasPrefix(name, "ld"):
		return "the other direction"
	}
	m := base.FindStringSubmatch(operands)
	if m == nil {
		return "no base"
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
			t.Fatalf("objdump's line %q is not that of word %d", lines.Text(), len(list))
		}
		list = append(list, [2]string{fields[2], fields[3]})
	}
	if len(list) != len(words) {
		t.Fatalf("objdump shows %d of %d instructions", len(list), len(words))
	}
	return list
}

// TestWhatIsDecodedIsWhatObjdumpSays: no instruction that is taken has another
// name, width, base or offset there, or is none.
func TestWhatIsDecodedIsWhatObjdumpSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var taken []instruction
	var words []uint32
	tried := 0
	for ; len(taken) < 60000; tried++ {
		code := random(r)
		if i, reason := decode(code); reason == "" && i.scalable == nil && i.bulk == nil {
			taken, words = append(taken, i), append(words, code)
		}
	}
	failed := 0
	for n, text := range disassemble(t, words) {
		if reason := wrong(&taken[n], text[0], text[1]); reason != "" {
			if failed++; failed <= 40 {
				t.Errorf("%08x %s %s: decoded: %s", words[n], text[0], text[1], reason)
			}
		}
	}
	t.Logf("evidence: %d random words decoded as objdump does, of %d tried; %d wrong", len(taken),
		tried, failed)
}

// memoryOf is memory that has all addresses, of which loads read nothing.
type memoryOf struct{ accesses int }

func (m *memoryOf) Load(_ uint64, data []byte) error { return m.note(data) }

func (m *memoryOf) Store(_ uint64, data []byte) error { return m.note(data) }

func (m *memoryOf) IsDevice(address uint64) bool { return address>>3&1 == 1 }

func (m *memoryOf) note(data []byte) error {
	m.accesses++
	if n := len(data); n == 0 || n > 16 || n&(n-1) != 0 {
		return fmt.Errorf("an access of %d bytes", n)
	}
	return nil
}

// FuzzStep: whatever word there is, an instruction is executed or refused,
// and a refusal has done nothing.
func FuzzStep(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f.Add(random(r), r.Uint64(), r.Uint64())
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
		if i, reason := decode(code); reason == "" { // a fault that fits
			fault, _ = (&machine{State: &s, instruction: i}).address()
		}
		before := s
		before.Vectors = nil
		var memory memoryOf
		if err := Step(code, fault, &s, &memory); err != nil {
			s.Vectors = nil
			if refusal, ok := err.(*Refusal); !ok || refusal.Reason == "" || memory.accesses != 0 ||
				s.X != before.X || s.SP != before.SP {
				t.Errorf("%08x: %v after %d accesses", code, err, memory.accesses)
			}
		}
	})
}
