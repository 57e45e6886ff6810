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

	"golang.org/x/sys/unix"
)

// followedTests are instructions that are followed between two accesses to a BAR.
func followedTests() (list []one) {
	add := func(flags uint64, format string, a ...any) {
		list = append(list, one{fmt.Sprintf(format, a...), flags})
	}
	registers := map[string][]string{"b": {"%bl", "%ch", "%r9b"}, "w": {"%cx", "%r10w"},
		"l": {"%ebp", "%r11d"}, "q": {"%rbx", "%r12"}}
	for _, size := range []string{"b", "w", "l", "q"} {
		from := map[string]string{"b": "%dl", "w": "%dx", "l": "%edx", "q": "%rdx"}[size]
		accumulator := map[string]string{"b": "%al", "w": "%ax", "l": "%eax", "q": "%rax"}[size]
		for _, r := range registers[size] {
			if r == "%r9b" {
				from = "%r8b"
			}
			for op, flags := range map[string]uint64{"add": allFlags, "or": noAdjust,
				"adc": allFlags, "sbb": allFlags, "and": noAdjust, "sub": allFlags,
				"xor": noAdjust, "cmp": allFlags} {
				add(flags, "%s %s, %s", op, from, r)
				add(flags, "%s $-7, %s", op, r)
				add(flags, "%s $0x65, %s", op, accumulator)
				if size != "b" {
					add(flags, "%s $0x1234, %s", op, r)
				}
			}
			add(noAdjust, "test %s, %s", from, r)
			add(noAdjust, "test $0x55, %s", r)
			add(noAdjust, "test $0x55, %s", accumulator)
			add(allFlags, "mov %s, %s", from, r)
			add(allFlags, ".byte 0; .skip 0; mov $0x55, %s", r)
			for _, op := range []string{"inc", "dec", "not", "neg"} {
				add(allFlags, "%s %s", op, r)
			}
			for _, op := range []string{"shl", "shr", "sar"} {
				add(noAdjust, "%s %s", op, r)
				add(shiftFlags, "%s $3, %s", op, r)
				cl := uint64(shiftFlags)
				if size == "b" || size == "w" { // the carry of more than all bits
					cl &^= carryOnly
				}
				add(cl, "%s %%cl, %s", op, r)
			}
			if size != "b" {
				add(0x801, "imul %s, %s", from, r)
				add(0x801, "imul $77, %s, %s", from, r)
				add(0x801, "imul $-1234, %s, %s", from, r)
				add(allFlags, "lea -5(%%rdx,%%rcx,4), %s", r)
			}
		}
	}
	for _, condition := range []string{"o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p",
		"np", "l", "ge", "le", "g"} {
		add(allFlags, "cmov%s %%edx, %%ebx", condition)
		add(allFlags, "cmov%s %%rdx, %%r11", condition)
		add(allFlags, "cmov%s in+%d(%%rip), %%rcx", condition, 8)
		add(allFlags, "set%s %%bl", condition)
		add(allFlags, "j%s 1f; lea 1(%%rbx), %%rbx; 1: lea 2(%%rbx), %%rbx", condition)
		add(allFlags, "j%s 1f; lea 1(%%rbx), %%rbx; .skip 200, 0x90; 1:", condition)
	}
	for _, text := range []string{"movzbl %bl, %ecx", "movzbw %ch, %dx", "movzwl %bx, %ecx",
		"movzbq %r9b, %r10", "movsbl %bl, %ecx", "movsbq %r9b, %r10", "movswq %bx, %rcx",
		"movslq %ebx, %rcx", "cbtw", "cwtl", "cltq", "cwtd", "cltd", "cqto", "bswap %ebx",
		"bswap %r11", "nop", "nopw 8(%rax,%rax,1)", "endbr64", "prefetcht0 (%rsi)", "sfence",
		"mfence", "lfence", "push %rbx; pop %r11", "push %r12; push $-5; pop %rcx; pop %rbx",
		"push $0x12345678; pop %r9", "call 1f; jmp 2f; 1: lea 1(%rbx), %rbx; ret; 2:",
		"call 1f; jmp 2f; 1: rep ret; 2:", "push $0; call 1f; jmp 2f; 1: ret $8; 2:",
		"lea 1f(%rip), %rcx; call *%rcx; jmp 2f; 1: ret; 2:",
		"lea 1f(%rip), %rcx; push %rcx; jmp *(%rsp); 1: pop %rcx",
		"mov %rsp, %r15; push %rbp; mov %rsp, %rbp; push %rbx; leave; sub %r15, %rsp; " +
			"add %r15, %rsp; xor %r15d, %r15d", "mov in+8(%rip), %rcx", "mov %bl, out+16(%rip)",
		"vzeroupper", "movdqu in+200(%rip), %xmm3", "vmovups %zmm5, out+200(%rip)",
		"movabs in+16, %rax", "xorps %xmm15, %xmm15", "xorpd %xmm3, %xmm4", "pxor %xmm9, %xmm4",
		"vxorps %ymm3, %ymm4, %ymm5", "vpxor %xmm13, %xmm4, %xmm5", "movaps %xmm3, %xmm12",
		"movups %xmm13, %xmm2", "movdqa %xmm3, %xmm2", "movdqu %xmm3, %xmm12",
		"vmovaps %ymm3, %ymm12", "vmovdqu %xmm13, %xmm2", "vmovdqa %ymm14, %ymm12",
		".byte 0x0f, 0x29, 0xda", ".byte 0xc5, 0xfe, 0x7f, 0xda"} {
		flags := uint64(allFlags)
		if strings.Contains(text, "xor") {
			flags = 0
		}
		add(flags, "%s", text)
	}
	for i := range list {
		list[i].text = strings.ReplaceAll(list[i].text, ".byte 0; .skip 0; ", "")
		list[i].text = "mov %r13, (%rdi); " + list[i].text + "; mov %r14, 8(%rdi)"
	}
	return list
}

// oneInstruction is memory of zeros with code that is one instruction.
type oneInstruction struct {
	none
	code []byte
	done bool
}

func (c *oneInstruction) Fetch(uint64) []byte { return c.code }
func (c *oneInstruction) More() bool          { more := !c.done; c.done = true; return more }

// TestInstructionsOfTheTestsAreFollowed: no test of what the processor leaves is of an instruction
// that the processor executes itself.
func TestInstructionsOfTheTestsAreFollowed(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	var source strings.Builder
	source.WriteString(".text\n")
	list := followedTests()
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
		t.Fatalf("%v\n%s", err, out)
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
	for n, test := range list {
		const store = 3 // bytes of the first one
		at := 1024*n + store
		if at+15 > len(text) {
			break
		}
		var f x86.Follower
		s := x86.State{Vectors: func() (*x86.Vectors, error) { return &x86.Vectors{}, nil }}
		f.Follow(&s, &oneInstruction{code: text[at : at+15]})
		if s.IP == 0 {
			t.Errorf("%s: not followed: % x", test.text, text[at:at+15])
		}
	}
}

// TestPollIsAStopForEachLoad: the record has the program's own time between them.
func TestPollIsAStopForEachLoad(t *testing.T) {
	program := compiled(t, "testdata/follows.c", "-O2")
	const enough = 20 // loads of one poll, after which a loop of loads would be followed
	loads := 0
	// A device that works longer is polled more often, however slow the machine is.
	for works := 20 * time.Millisecond; loads < enough; works *= 2 {
		if works > 10*time.Second {
			t.Fatalf("only %d loads", loads)
		}
		loads = pollsUntil(t, program, works)
	}
}

// pollsUntil records a program that polls a device, which works for a time, and returns how often
// the program loaded. Each load has its time in the record.
func pollsUntil(t *testing.T, program string, works time.Duration) (loads int) {
	t.Helper()
	path := card(t)
	c, out := prepared(t, nil, Options{}, path, program, "poll")
	memory := deviceOf(t, path)
	done := make(chan bool)
	go func() {
		defer close(done)
		for binary.LittleEndian.Uint32(memory[8:]) == 0 {
			runtime.Gosched()
		}
		for began := time.Now(); time.Since(began) < works; {
			runtime.Gosched()
		}
		binary.LittleEndian.PutUint32(memory[4:], 1)
	}()
	r := finished(t, c, path)
	<-done
	r.read(out)
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
		t.Errorf("%d loads, %d times, exit %d, %v", loads, clocks, r.exit, r.err)
	}
	return loads
}

// deviceOf is a card as its device has it.
func deviceOf(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, cardSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	return memory
}

// TestLoadsKeepTheirOrder: memory that the device wrote before a word of its BAR, or before another
// word of memory, is new if that word is.
func TestLoadsKeepTheirOrder(t *testing.T) {
	program := compiled(t, "testdata/follows.c", "-O2")
	path, shared := card(t), card(t)
	c, out := prepared(t, nil, Options{}, path, program, "order", shared)
	bar, memory := deviceOf(t, path), deviceOf(t, shared)
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
	r := finished(t, c, path)
	store(bar, 4100, 1) // also if it failed
	<-done
	if r.read(out); r.err != nil || r.output != "0 bad, 1\n" {
		t.Errorf("%q, exit %d, %v: %s", r.output, r.exit, r.err, r.said)
	}
}

// TestLoopsAreFollowedAsTheProcessorExecutesThem: of copies in both directions, calls, the stack,
// code that changes, and ordinary memory at the end of a mapping.
func TestLoopsAreFollowedAsTheProcessorExecutesThem(t *testing.T) {
	for _, flags := range [][]string{{"-O0"}, {"-O1"}, {"-O2"}, {"-O3", "-march=native"},
		{"-Os", "-fstack-protector-all"}} {
		program := compiled(t, "testdata/follows.c", flags...)
		for _, scenario := range []string{"loops", "recursion", "edge", "code"} {
			t.Run(strings.Join(append(flags, scenario), " "), func(t *testing.T) {
				with := recorded(t, nil, Options{}, program, scenario)
				same(t, with, alone(t, nil, program, scenario))
				carriedOut(t, with)
				if difference := differ(with.accesses(), expected(with.output)); difference != "" {
					t.Error(difference)
				}
			})
		}
	}
}

// TestInstructionThatLoadsAndStoresDoesSoOnce, also where following ends: it ends between
// instructions.
func TestInstructionThatLoadsAndStoresDoesSoOnce(t *testing.T) {
	r := recorded(t, nil, Options{}, compiled(t, "testdata/follows.c", "-O2"), "steps")
	if r.err != nil || r.exit != 0 {
		t.Fatalf("exit %d, %v: %s", r.exit, r.err, r.said)
	}
	carriedOut(t, r)
	if got := len(r.accesses()); got != 2*50000 {
		t.Errorf("%d accesses, want %d", got, 2*50000)
	}
}

// TestManyStoresToAProtectedPageAreTheProgramsOwn: they are followed, so that the page need not be
// opened, and the record has all of them before the next store to the BAR.
func TestManyStoresToAProtectedPageAreTheProgramsOwn(t *testing.T) {
	program, path := compiled(t, "testdata/follows.c", "-O2"), card(t)
	memory := filepath.Join(filepath.Dir(path), "memory")
	if err := os.WriteFile(memory, make([]byte, pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Protect: ProtectAll, HostMemoryLimit: 8 << 20,
		Files: []File{{Path: memory, Memory: true, Bus: 0x200000}}}
	c, out := prepared(t, nil, o, path, program, "rings", memory)
	r := finished(t, c, path)
	if strings.Contains(r.said, "CAP_CHECKPOINT_RESTORE") {
		t.Skip("needs root: ", r.said)
	}
	if r.read(out); r.err != nil || r.exit != 0 ||
		strings.Contains(r.said, "all changes are recorded as") {
		t.Fatalf("exit %d, %v: %s", r.exit, r.err, r.said)
	}
	want, err := os.ReadFile(memory)
	if err != nil {
		t.Fatal(err)
	}
	told, stores := make([]byte, pageSize), 0
	for _, a := range r.capture.Records {
		switch {
		case a.Kind == record.HostWrite:
			t.Errorf("line %d: a device wrote %d bytes", a.Line, len(a.Data))
		case a.Kind == record.HostRead && stores == 1:
			copy(told[a.Offset-0x200000:], a.Data)
		case a.Kind == record.BarWrite:
			stores++
		}
	}
	if !bytes.Equal(told, want) {
		t.Error("the record does not have what the program stored before its last store to the BAR")
	}
}

// setCopiesByBytes has the recorder take the kernel for one that copies by bytes.
func setCopiesByBytes() {
	if os.Getenv("LM_COPIES_BY_BYTES") != "" {
		copiesByBytes = true
	}
}

// TestWordsThatThreadsShareAreWhole: one thread follows, the other runs; both kinds of copies.
func TestWordsThatThreadsShareAreWhole(t *testing.T) {
	program := compiled(t, "testdata/follows.c", "-O2")
	for _, bytes := range []string{"", "1"} {
		r := recorded(t, []string{"LM_COPIES_BY_BYTES=" + bytes}, Options{}, program, "shared")
		if r.exit != 0 || r.err != nil || !strings.Contains(r.output, "0 torn") {
			t.Errorf("exit %d, %v: %s %s", r.exit, r.err, r.output, r.said)
		}
	}
}
