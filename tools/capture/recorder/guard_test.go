//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sortedBetween sorts what happened between two stores to a BAR: the record has it in the
// order in which the recorder noticed it.
func sortedBetween(list []string) []string {
	list = slices.Clone(list)
	start := 0
	for i, line := range list {
		if strings.HasPrefix(line, "W ") {
			slices.Sort(list[start:i])
			start = i + 1
		}
	}
	slices.Sort(list[start:])
	return list
}

// crowded runs testdata/crowded.c under the recorder, with its memory in a file or in a
// huge page.
func crowded(t *testing.T, o Options, huge bool) *run {
	t.Helper()
	program, path := compiled(t, "testdata/crowded.c", "-O2"), card(t)
	memory := filepath.Join(filepath.Dir(path), "memory")
	arguments := []string{program, memory}
	if huge {
		memory = "memfd:crowded"
		arguments = []string{program, "crowded", "huge"}
	} else if err := os.WriteFile(memory, make([]byte, pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Files, o.HostMemoryLimit = []File{{Path: memory, Memory: true, Bus: 0x200000}}, 8<<20
	c, out := prepared(t, nil, o, path, arguments...)
	r := finished(t, c, path)
	if r.exit == 77 && huge {
		t.Skip("needs free huge pages")
	}
	if r.read(out); r.err != nil || r.exit != 0 || !strings.HasSuffix(r.output, "done\n") {
		t.Fatalf("exit %d, record %v: %s; it said %s", r.exit, r.err, r.output, r.said)
	}
	if strings.Contains(r.said, "CAP_CHECKPOINT_RESTORE") {
		t.Skip("needs root: ", r.said)
	}
	return r
}

// TestProtectedPageHasWhoWroteEachWord: program and device write to one page at the
// same time, the program by plain and locked instructions of two threads and by a
// system call too.
func TestProtectedPageHasWhoWroteEachWord(t *testing.T) {
	for name, compare := range map[string]bool{"the kernel notes pages": false,
		"it does not": true} {
		t.Run(name, func(t *testing.T) {
			r := crowded(t, Options{Protect: ProtectAll, IgnoreTracking: compare}, false)
			if difference := differ(sortedBetween(r.events()),
				sortedBetween(expected(r.output))); difference != "" {
				t.Errorf("%s\n%s", difference, r.said)
			}
		})
	}
}

// reserveHugePages has the kernel reserve a huge page if none is free and the test may
// ask for it. The number is put back at the end of the test.
func reserveHugePages(t *testing.T) {
	t.Helper()
	const setting = "/proc/sys/vm/nr_hugepages"
	text, err := os.ReadFile(setting)
	if err != nil {
		t.Skipf("needs a kernel with huge pages: %v", err)
	}
	before, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if before > 0 {
		return
	}
	if err := os.WriteFile(setting, []byte("4"), 0); err != nil {
		t.Skipf("needs a huge page: %s is 0, and cannot be changed: %v", setting, err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(setting, text, 0); err != nil {
			t.Error(err)
		}
	})
}

// TestHugePageHasWhoWroteEachWord: the memory of a program and a device is in a huge
// page, which the recorder protects by default.
func TestHugePageHasWhoWroteEachWord(t *testing.T) {
	reserveHugePages(t)
	r := crowded(t, Options{}, true)
	if difference := differ(sortedBetween(r.events()),
		sortedBetween(expected(r.output))); difference != "" {
		t.Errorf("%s\n%s", difference, r.said)
	}
}

// TestStoreAcrossWordsIsTheProgramsAlone: before a store the recorder compares the whole
// words that it touches, which are more bytes than an access has.
func TestStoreAcrossWordsIsTheProgramsAlone(t *testing.T) {
	for _, size := range []int{2, 4, 8, 16} {
		for at := uint64(64); at < 64+16; at++ {
			t.Run(fmt.Sprintf("%d bytes at %d", size, at), func(t *testing.T) {
				fd, b := sharedMemory(t)
				v, err := newView(fd, 0, 2*pageSize)
				if err != nil {
					t.Fatal(err)
				}
				copy(b[64:], "what the program stored there before")
				r, self, text := inside(t, Options{HostMemoryLimit: 2 * pageSize,
					IgnoreTracking: true})
				m := r.addDMARange(self, address(b), 2*pageSize, 0x10000)
				self.space.add(area{
					start: m.start, end: m.start + m.size(), view: v,
					prot: unix.PROT_READ | unix.PROT_WRITE,
					guard: &guard{owner: self.space, pageBytes: pageSize, open: map[uint64]bool{},
						storeCost: map[uint64]int{}},
				})
				stored := []byte("0123456789abcdef")[:size]
				if err := (&memory{r, self}).Store(m.start+at, stored); err != nil {
					t.Fatal(err)
				}
				r.recordChanges(byProgram)
				if got := text(); strings.Contains(got, "HW") ||
					!bytes.Equal(b[at:at+uint64(size)], stored) {
					t.Errorf("memory has %q, the record:\n%s", b[at:at+uint64(size)], got)
				}
			})
		}
	}
}
