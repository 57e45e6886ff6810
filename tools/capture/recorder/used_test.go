//go:build linux && (amd64 || arm64)

package recorder

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestUnusedMemoryCostsNothing has 100 stores to a device that reaches 1 GiB of which the program
// uses little: private memory, and shared memory.
func TestUnusedMemoryCostsNothing(t *testing.T) {
	program := compileProgram(t, "testdata/sparse.c", "-O2")
	for name, arguments := range map[string][]string{"private": {program},
		"shared": {program, "shared"}} {
		t.Run(name, func(t *testing.T) {
			for _, compare := range []bool{false, true} {
				path := createCard(t)
				c, out := recorderCommand(t, []string{requestVariable + "=0x3b71"},
					Options{HostMemoryLimit: 2 << 30, IgnoreTracking: compare}, path, arguments...)
				r := runCommand(t, c, path)
				if r.readRecord(out); r.err != nil || r.exit != 0 {
					t.Fatalf("exit status %d, record: %v, messages %s", r.exit, r.err, r.messages)
				}
				list := slices.DeleteFunc(r.events(), func(e string) bool {
					return strings.HasPrefix(e, "W ") && e > "W 0 4 04"
				})
				// The kernel does not report that the program makes shared memory zero.
				if n := len(list); n > 0 {
					list[n-1] = strings.Replace(list[n-1], "HW", "HR", 1)
				}
				want := []string{"HR 101000 8 0100000000000000", "W 0 4 01000000",
					"HR 20100000 8 0200000000000000", "W 0 4 02000000",
					"HR 101000 8 0400000000000000", "HR 400ffff8 8 0300000000000000",
					"W 0 4 03000000", "HR 101000 8 0000000000000000"}
				if !slices.Equal(list, want) {
					t.Errorf("got  %q\nwant %q", list, want)
				}
				used := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
				memory := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
				t.Logf("evidence: %v of processor time, %d KiB of memory", used, memory)
				if used > 10*time.Second || memory > 512<<10 {
					t.Errorf("%v of processor time and %d KiB of memory, want at most 10 s and "+
						"512 MiB, of which this test may have left some", used, memory)
				}
			}
		})
	}
}
