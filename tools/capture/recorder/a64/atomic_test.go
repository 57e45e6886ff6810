package a64

import (
	"encoding/binary"
	"testing"
)

// newUnsharedState returns a state of a thread that shares its memory with no other thread.
func newUnsharedState() *State {
	s := &State{Serialized: func(uint64) bool { return true }}
	for n := range s.X {
		s.X[n] = uint64(n) * 0x0101010101010101
	}
	s.X[0] = middle
	return s
}

// TestAtomicsLoadAndStore checks registers and memory after each kind of atomic, of different
// widths. GNU as produced the codes.
func TestAtomicsLoadAndStore(t *testing.T) {
	const old = 0x8877665544332281
	for _, c := range []struct {
		name           string
		code           uint32
		operand        uint64 // X1
		result, memory uint64
	}{
		{"ldadd x1, x2, [x0]", 0xf8210002, 3, old, old + 3},
		{"ldaddalb w1, w2, [x0]", 0x38e10002, 0x1ff, 0x81, old - 1},
		{"ldclr w1, w2, [x0]", 0xb8211002, 0xff, 0x44332281, old - 0x81},
		{"ldeor x1, x2, [x0]", 0xf8212002, old, old, 0},
		{"ldseth w1, w2, [x0]", 0x78213002, 0xff00, 0x2281, old | 0xff00},
		{"ldsmaxb w1, w2, [x0]", 0x38214002, 1, 0x81, old - 0x80},
		{"ldsminb w1, w2, [x0]", 0x38215002, 1, 0x81, old},
		{"ldumaxb w1, w2, [x0]", 0x38216002, 1, 0x81, old},
		{"lduminb w1, w2, [x0]", 0x38217002, 1, 0x81, old - 0x80},
		{"swpal w1, w2, [x0]", 0xb8e18002, 5, 0x44332281, old>>32<<32 | 5},
		{"stadd w1, [x0]", 0xb821001f, 1, 0x0202020202020202, old + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, m := newUnsharedState(), newFlatMemory()
			binary.LittleEndian.PutUint64(m.data[memorySize/2:], old)
			s.X[1] = c.operand
			if err := Step(c.code, middle, s, m); err != nil || s.PC != 4 {
				t.Fatalf("error %v, PC %d, want 4", err, s.PC)
			}
			got := binary.LittleEndian.Uint64(m.data[memorySize/2:])
			if s.X[2] != c.result || got != c.memory {
				t.Errorf("X2 %#x, memory %#x; want %#x, %#x", s.X[2], got, c.result, c.memory)
			}
		})
	}
}

// TestCompareAndSwap checks that CAS and CASP store only if the memory has the compared value.
func TestCompareAndSwap(t *testing.T) {
	for _, c := range []struct {
		name         string
		code         uint32
		compare, new uint8 // registers
		width, count int
	}{
		{"cas x1, x2, [x0]", 0xc8a17c02, 1, 2, 8, 1},
		{"casab w1, w2, [x0]", 0x08e17c02, 1, 2, 1, 1},
		{"casp x2, x3, x4, x5, [x0]", 0x48227c04, 2, 4, 8, 2},
		{"caspal w2, w3, w4, w5, [x0]", 0x0862fc04, 2, 4, 4, 2},
	} {
		for name, same := range map[string]bool{"equal": true, "different": false} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				s, m := newUnsharedState(), newFlatMemory()
				at := m.data[memorySize/2:][:c.width*c.count]
				for n := range c.count {
					var b [8]byte
					binary.LittleEndian.PutUint64(b[:], s.X[int(c.compare)+n])
					copy(at[n*c.width:], b[:c.width])
				}
				if !same {
					at[len(at)-1]++
				}
				before := string(at)
				if err := Step(c.code, middle, s, m); err != nil {
					t.Fatal(err)
				}
				for n := range c.count {
					part := at[n*c.width:][:c.width]
					if want := byte(int(c.new) + n); same && part[0] != want || !same &&
						string(part) != before[n*c.width:][:c.width] {
						t.Errorf("memory %x, want %d if equal, otherwise %x", part, want,
							before[n*c.width:][:c.width])
					}
					loaded := littleEndian([]byte(before[n*c.width:][:c.width]))
					if got := s.X[int(c.compare)+n]; got != loaded {
						t.Errorf("register %#x, want %#x, which the memory had", got, loaded)
					}
				}
			})
		}
	}
}

// TestExclusiveStoreNeedsItsLoad: an exclusive store fails without an exclusive load of the same
// memory before, after another exclusive store, and if the memory has changed.
func TestExclusiveStoreNeedsItsLoad(t *testing.T) {
	for _, c := range []struct {
		name        string
		load, store uint32
		size        int
	}{
		{"ldxr x1, stxr w2", 0xc85f7c01, 0xc8027c01, 8},
		{"ldaxrb w1, stlxrb w2", 0x085ffc01, 0x0802fc01, 1},
		{"ldxp w1, w3, stxp w2", 0x887f0c01, 0x88220c01, 8},
		{"ldxp x1, x3, stlxp w2", 0xc87f0c01, 0xc8228c01, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, m := newUnsharedState(), newFlatMemory()
			at := m.data[memorySize/2:][:c.size]
			step := func(code uint32) {
				t.Helper()
				if err := Step(code, middle, s, m); err != nil {
					t.Fatal(err)
				}
			}
			before := string(at)
			store := func(want uint64) {
				t.Helper()
				s.X[1] = ^s.X[1]
				step(c.store)
				if stored := string(at) != before; s.X[2] != want || stored != (want == 0) ||
					s.Monitor.Stored != stored {
					t.Errorf("store: status %d, want %d; memory %x, before %x", s.X[2], want, at,
						before)
				}
				before = string(at)
			}
			store(1)
			step(c.load)
			store(0)
			store(1)
			step(c.load)
			at[0]++
			before = string(at)
			store(1)
			if !IsExclusive(c.load) || !IsExclusive(c.store) || IsExclusiveStore(c.load) ||
				!IsExclusiveStore(c.store) {
				t.Errorf("IsExclusive %v, %v, IsExclusiveStore %v, %v of load and store; want "+
					"true, true, false, true", IsExclusive(c.load), IsExclusive(c.store),
					IsExclusiveStore(c.load), IsExclusiveStore(c.store))
			}
		})
	}
}

// TestAtomicsNeedSerializedMemory: atomics on other memory are refused, and have no effect.
func TestAtomicsNeedSerializedMemory(t *testing.T) {
	for _, code := range []uint32{0xf8210002, 0xc8a17c02, 0xc85f7c01, 0xc8027c01} {
		for name, change := range map[string]func(*State){
			"unknown if shared": func(s *State) { s.Serialized = nil },
			"shared": func(s *State) {
				s.Serialized = func(uint64) bool { return false }
			},
			"not aligned": func(s *State) { s.X[0]++ },
		} {
			s, m := newUnsharedState(), newFlatMemory()
			change(s)
			before, sum := s.X, m.checksum()
			err := Step(code, s.X[0], s, m)
			_, refused := err.(*Refusal)
			if !refused || s.X != before || m.checksum() != sum || s.PC != 0 {
				t.Errorf("%08x, memory %s: error %v, want a refusal without an effect", code, name,
					err)
			}
		}
	}
	for _, code := range []uint32{0xc8dffc01, 0xc89ffc01, 0xf8bfc001} { // LDAR, STLR, LDAPR
		if _, ok := decodeAtomic(code); ok {
			t.Errorf("decodeAtomic accepts %08x, which is not an atomic", code)
		}
	}
}
