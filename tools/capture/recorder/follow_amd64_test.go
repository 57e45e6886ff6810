package recorder

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/capture/recorder/x86"
	"lightmetal/tools/check/effort"
)

// singleInstruction is a zeroMemory with code, of which one instruction is followed.
type singleInstruction struct {
	zeroMemory
	code []byte
	done bool
}

func (c *singleInstruction) Fetch(uint64) []byte { return c.code }
func (c *singleInstruction) More() bool          { more := !c.done; c.done = true; return more }

// TestInstructionsOfFollowedTestsAreFollowed: the recorder follows each instruction of the
// section "followed", so that the comparison with the processor really tests the recorder.
func TestInstructionsOfFollowedTestsAreFollowed(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	var source strings.Builder
	source.WriteString(".text\n")
	list := readInstructionTests(t, "followed")
	for n, test := range list {
		fmt.Fprintf(&source, ".balign 1024, 0x90\n.globl run%d\nrun%[1]d: %s\n", n, test.text)
	}
	source.WriteString(".data\nin: .skip 4096\nout: .skip 4096\n")
	folder := t.TempDir()
	path, object := filepath.Join(folder, "tests.S"), filepath.Join(folder, "tests.o")
	if err := os.WriteFile(path, []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-c", "-o", object, path).CombinedOutput(); err != nil {
		t.Fatalf("assembling the tests: %v\n%s", err, out)
	}
	file, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := file.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	const instructionMax = 15 // bytes
	textSize := len(text)
	text = append(text, make([]byte, instructionMax)...) // the last instruction may be shorter
	for n, test := range list {
		const store = 3 // bytes of the store before the instruction
		at := 1024*n + store
		if at >= textSize {
			t.Fatalf("the assembled text has %d bytes, but test %d of %d has its instruction at %d",
				textSize, n, len(list), at)
		}
		var f x86.Follower
		s := x86.State{Vectors: func() (*x86.Vectors, error) { return &x86.Vectors{}, nil }}
		f.Follow(&s, &singleInstruction{code: text[at : at+instructionMax]})
		if s.IP == 0 {
			t.Errorf("the recorder did not follow %s: % x", test.text, text[at:at+instructionMax])
		}
	}
}

// TestEachLoadOfAPollStopsTheProgram: the record has the program's own time between two loads.
func TestEachLoadOfAPollStopsTheProgram(t *testing.T) {
	effort.SkipShort(t)
	program := compileProgram(t, followsSource, "-O2")
	const enough = 20 // loads of one poll, after which a loop of loads would be followed
	loads := 0
	// On a slow machine, the device must work longer to be polled often enough.
	for busy := 20 * time.Millisecond; loads < enough; busy *= 2 {
		if busy > 10*time.Second {
			t.Fatalf("the program made %d loads in 10 s, want at least %d", loads, enough)
		}
		loads = recordPolls(t, program, busy)
	}
}

// recordPolls records a program that polls a device, which is busy for a time. It returns the
// number of recorded loads, and checks that each load has a time in the record.
func recordPolls(t *testing.T, program string, busy time.Duration) (loads int) {
	t.Helper()
	path := createCard(t)
	c, out := recorderCommand(t, nil, Options{}, path, program, "poll")
	memory := mapCard(t, path)
	done := make(chan bool)
	go func() {
		defer close(done)
		for binary.LittleEndian.Uint32(memory[8:]) == 0 {
			runtime.Gosched()
		}
		for began := time.Now(); time.Since(began) < busy; {
			runtime.Gosched()
		}
		binary.LittleEndian.PutUint32(memory[4:], 1)
	}()
	r := runCommand(t, c, path)
	<-done
	r.readRecord(out)
	clocks := 0
	for _, a := range r.capture.Records {
		switch a.Kind {
		case record.Clock:
			clocks++
		case record.BarRead:
			loads++
		}
	}
	if r.err != nil || r.exit != 0 || clocks < loads {
		t.Errorf("the record has %d loads and %d times, want a time for each load; "+
			"exit status %d, record: %v", loads, clocks, r.exit, r.err)
	}
	return loads
}

// TestLoadsKeepTheirOrder: the device writes memory before a word of its BAR and before another
// word of memory. If the program loads the new value of such a word, it then loads the new memory.
func TestLoadsKeepTheirOrder(t *testing.T) {
	effort.SkipShort(t)
	program := compileProgram(t, followsSource, "-O2")
	path, shared := createCard(t), createCard(t)
	c, out := recorderCommand(t, nil, Options{}, path, program, "order", shared)
	bar, memory := mapCard(t, path), mapCard(t, shared)
	done := make(chan bool)
	store := func(to []byte, at int, v uint32) {
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&to[at])), v)
	}
	load := func(at int) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&bar[at]))) }
	go func() {
		defer close(done)
		for n := uint32(1); load(4100) == 0; n++ {
			if store(memory, 0, n); load(4096) == 0 {
				n = 0
				runtime.Gosched()
			}
			store(memory, 68, n)
			store(memory, 4092, n)
			for at := 0; at < 64; at += 4 {
				store(bar, at, n)
			}
		}
	}()
	r := runCommand(t, c, path)
	store(bar, 4100, 1) // ends the goroutine, also if the program failed
	<-done
	if r.readRecord(out); r.err != nil || r.output != "0 bad, 1\n" {
		t.Errorf("output %q, want no bad load; exit status %d, record: %v, messages %s", r.output,
			r.exit, r.err, r.messages)
	}
}

// TestStoresToAProtectedPageAreRecordedAsTheProgramsOwn: the recorder follows the stores, so that
// it does not have to unprotect the page. The record has all of them before the next store to the
// BAR.
func TestStoresToAProtectedPageAreRecordedAsTheProgramsOwn(t *testing.T) {
	program, path := compileProgram(t, followsSource, "-O2"), createCard(t)
	memory := filepath.Join(filepath.Dir(path), "memory")
	if err := os.WriteFile(memory, make([]byte, pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Protect: ProtectAll, HostMemoryLimit: 8 << 20,
		Files: []File{{Path: memory, Memory: true, Bus: 0x200000}}}
	c, out := recorderCommand(t, nil, o, path, program, "rings", memory)
	r := runCommand(t, c, path)
	if strings.Contains(r.messages, "CAP_CHECKPOINT_RESTORE") {
		t.Skip("needs root: ", r.messages)
	}
	if r.readRecord(out); r.err != nil || r.exit != 0 ||
		strings.Contains(r.messages, "all changes are recorded as") {
		t.Fatalf("exit status %d, record: %v, messages %s", r.exit, r.err, r.messages)
	}
	want, err := os.ReadFile(memory)
	if err != nil {
		t.Fatal(err)
	}
	got, stores := make([]byte, pageSize), 0
	for _, a := range r.capture.Records {
		switch {
		case a.Kind == record.HostWrite:
			t.Errorf("line %d of the record: %d bytes written by a device, want none", a.Line,
				len(a.Data))
		case a.Kind == record.HostRead && stores == 1:
			copy(got[a.Offset-0x200000:], a.Data)
		case a.Kind == record.BarWrite:
			stores++
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("host memory in the record before the last store to the BAR differs from the " +
			"memory that the program has written, want all stores in the record")
	}
}

// setCopiesByBytes makes the recorder treat the kernel as one that copies by bytes, if the
// environment variable LM_COPIES_BY_BYTES is not empty.
func setCopiesByBytes() {
	if os.Getenv("LM_COPIES_BY_BYTES") != "" {
		copiesByBytes = true
	}
}

// TestWordsSharedByThreadsAreNotTorn follows one thread while another one runs, with both kinds of
// copies by the kernel.
func TestWordsSharedByThreadsAreNotTorn(t *testing.T) {
	effort.SkipShort(t)
	program := compileProgram(t, followsSource, "-O2")
	for _, bytes := range []string{"", "1"} {
		r := runRecorded(t, []string{"LM_COPIES_BY_BYTES=" + bytes}, Options{}, program, "shared")
		if r.exit != 0 || r.err != nil || !strings.Contains(r.output, "0 torn") {
			t.Errorf("LM_COPIES_BY_BYTES=%s: exit status %d, record: %v, output %s, want 0 torn "+
				"words; messages %s", bytes, r.exit, r.err, r.output, r.messages)
		}
	}
}
