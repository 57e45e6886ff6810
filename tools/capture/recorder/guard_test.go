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

// sortedBetweenStores sorts the events between two stores to a BAR, because the record has them in
// the order in which the recorder noticed them.
func sortedBetweenStores(list []string) []string {
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

// recordCrowded runs testdata/crowded.c under the recorder, with the memory of the device in a file
// or in a huge page.
func recordCrowded(t *testing.T, o Options, huge bool) *runResult {
	t.Helper()
	return recordCrowdedWith(t, nil, o, huge)
}

// recordCrowdedWith is recordCrowded with variables of the environment.
func recordCrowdedWith(t *testing.T, env []string, o Options, huge bool) *runResult {
	t.Helper()
	program, path := compileProgram(t, "testdata/crowded.c", "-O2"), createCard(t)
	memory := filepath.Join(filepath.Dir(path), "memory")
	arguments := []string{program, memory}
	if huge {
		memory = "memfd:crowded"
		arguments = []string{program, "crowded", "huge"}
	} else if err := os.WriteFile(memory, make([]byte, pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Files, o.HostMemoryLimit = []File{{Path: memory, Memory: true, Bus: 0x200000}}, 8<<20
	c, out := recorderCommand(t, env, o, path, arguments...)
	r := runCommand(t, c, path)
	if r.exit == 77 && huge {
		t.Skip("needs free huge pages")
	}
	if r.readRecord(out); r.err != nil || r.exit != 0 || !strings.HasSuffix(r.output, "done\n") {
		t.Fatalf("exit status %d, record: %v, output %s, messages %s", r.exit, r.err, r.output,
			r.messages)
	}
	if strings.Contains(r.messages, "CAP_CHECKPOINT_RESTORE") {
		t.Skip("needs root: ", r.messages)
	}
	return r
}

// TestProtectedPageShowsWhoWroteEachWord: program and device write to one page at the same time.
// The program does so by ordinary and locked instructions of two threads, and by a system call.
func TestProtectedPageShowsWhoWroteEachWord(t *testing.T) {
	for name, compare := range map[string]bool{"the kernel tracks written pages": false,
		"the kernel does not track pages": true} {
		t.Run(name, func(t *testing.T) {
			r := recordCrowded(t, Options{Protect: ProtectAll, IgnoreTracking: compare}, false)
			if difference := firstDifference(sortedBetweenStores(r.events()),
				sortedBetweenStores(printedAccesses(r.output))); difference != "" {
				t.Errorf("events of the record: %s\nmessages: %s", difference, r.messages)
			}
		})
	}
}

// reserveHugePages makes the kernel reserve huge pages if it has none and the test has the
// permission. It restores the number at the end of the test.
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
	if reserved, _ := os.ReadFile(setting); string(reserved) == "0\n" {
		t.Skip("needs a huge page: the kernel finds none, for example in fragmented memory")
	}
}

// TestHugePageShowsWhoWroteEachWord: the memory of a program and a device is in a huge
// page, which the recorder protects by default.
func TestHugePageShowsWhoWroteEachWord(t *testing.T) {
	reserveHugePages(t)
	r := recordCrowded(t, Options{}, true)
	if difference := firstDifference(sortedBetweenStores(r.events()),
		sortedBetweenStores(printedAccesses(r.output))); difference != "" {
		t.Errorf("events of the record: %s\nmessages: %s", difference, r.messages)
	}
}

// TestStoreAcrossWordsIsRecordedAsTheProgramsOnly: before a store, the recorder compares all words
// that the store touches, which are more bytes than the store has.
func TestStoreAcrossWordsIsRecordedAsTheProgramsOnly(t *testing.T) {
	for _, size := range []int{2, 4, 8, 16} {
		for at := uint64(64); at < 64+16; at++ {
			t.Run(fmt.Sprintf("%d bytes at %d", size, at), func(t *testing.T) {
				fd, b := mapSharedMemory(t)
				v, err := newView(fd, 0, 2*pageSize)
				if err != nil {
					t.Fatal(err)
				}
				copy(b[64:], "what the program stored there before")
				r, self, text := newHostRecording(t, 2)
				m := r.addDMARange(self, addressOf(b), 2*pageSize, 0x10000)
				self.space.add(area{
					start: m.start, end: m.start + m.size, view: v,
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
					t.Errorf("memory has %q, want %q; want no HW line in the record:\n%s",
						b[at:at+uint64(size)], stored, got)
				}
			})
		}
	}
}
