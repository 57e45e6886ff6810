//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

// dma runs testdata/dma.c under the recorder, which takes a file for the memory
// that a device reaches.
func dma(t *testing.T, o Options) *run {
	t.Helper()
	program, path := compiled(t, "testdata/dma.c", "-O2"), card(t)
	memory := filepath.Join(filepath.Dir(path), "memory")
	if err := os.WriteFile(memory, make([]byte, 5*pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Files = []File{{Path: memory, Memory: true, Bus: 0x10000}}
	c, out := prepared(t, nil, o, path, program, memory)
	r := finished(t, c, path)
	if r.read(out); r.err != nil || r.exit != 0 || !strings.HasSuffix(r.output, "done\n") {
		t.Fatalf("exit %d, record %v: %s; it said %s", r.exit, r.err, r.output, r.said)
	}
	return r
}

// events gives accesses and what happened in host memory, as the format has them.
func (r *run) events() (list []string) {
	names := map[record.Kind]string{record.BarWrite: "W", record.BarRead: "R",
		record.HostRead: "HR", record.HostWrite: "HW"}
	for _, a := range r.capture.Records {
		if name := names[a.Kind]; name != "" {
			list = append(list, fmt.Sprintf("%s %x %d %x", name, a.Offset, len(a.Data), a.Data))
		}
	}
	return list
}

// TestHostMemoryIsInTheRecord where the kernel tells which pages a program
// writes, and where it does not and the program's loads of completions, or all
// that it does in the memory, are watched.
func TestHostMemoryIsInTheRecord(t *testing.T) {
	completions, all := Range{0x12000, 0x12fff}, Range{0, ^uint64(0)}
	for name, o := range map[string]Options{
		"pages":                         {},
		"pages, completions watched":    {Watch: []Range{completions}},
		"compared, completions watched": {IgnoreTracking: true, Watch: []Range{completions}},
		"all watched":                   {IgnoreTracking: true, Watch: []Range{all}},
	} {
		t.Run(name, func(t *testing.T) {
			o.HostMemoryLimit = 1 << 20
			r := dma(t, o)
			if o.Watch == nil && strings.Contains(r.said, "does not report which pages") {
				t.Skip("needs Linux 6.7: ", r.said)
			}
			if os.Geteuid() != 0 && strings.Contains(r.said, "CAP_CHECKPOINT_RESTORE") {
				t.Skip("needs root: ", r.said)
			}
			if difference := differ(r.events(), expected(r.output)); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// TestWhatNobodyTellsOfHostMemoryIsSaid: without pages and watched ranges what
// the device wrote is the program's, and more than the limit is not followed.
func TestWhatNobodyTellsOfHostMemoryIsSaid(t *testing.T) {
	unknown := dma(t, Options{IgnoreTracking: true, HostMemoryLimit: 1 << 20})
	if !strings.Contains(unknown.said, "does not report which pages a program has written") ||
		strings.Contains(strings.Join(unknown.events(), "\n"), "HW") {
		t.Error(unknown.said)
	}
	over := dma(t, Options{HostMemoryLimit: 4 * pageSize})
	if !strings.Contains(over.said, "20480 bytes") ||
		!strings.Contains(over.said, "--host-memory") ||
		strings.Contains(strings.Join(over.events(), "\n"), "H") {
		t.Error(over.said, over.events())
	}
	for _, r := range []*run{unknown, over} {
		if len(r.told()) == 0 {
			t.Error("the record does not say it")
		}
	}
}

// TestThreadThatHasEndedHasNoMemory: the recorder is notified of the end of a thread
// later, and must not take its memory, which is gone, for that of the process.
func TestThreadThatHasEndedHasNoMemory(t *testing.T) {
	c := exec.Command("/bin/true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := c.Process.Pid
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, ended, &info, unix.WEXITED|unix.WNOWAIT,
		nil); err != nil {
		t.Fatal(err)
	}
	r, self, _ := inside(t, Options{})
	r.threads[ended] = &thread{tid: ended, space: self.space}
	for range 100 { // the order of a map differs
		if got := r.threadOf(self.space); got != self.tid {
			t.Fatalf("thread %d, which has ended, want %d", got, self.tid)
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}
