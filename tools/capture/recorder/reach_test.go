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

// recordDMA runs testdata/dma.c under the recorder. A file represents the memory that a device
// reaches.
func recordDMA(t *testing.T, o Options) *runResult {
	t.Helper()
	program, path := compileProgram(t, "testdata/dma.c", "-O2"), createCard(t)
	memory := filepath.Join(filepath.Dir(path), "memory")
	if err := os.WriteFile(memory, make([]byte, 5*pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Files = []File{{Path: memory, Memory: true, Bus: 0x10000}}
	c, out := recorderCommand(t, nil, o, path, program, memory)
	r := runCommand(t, c, path)
	if r.readRecord(out); r.err != nil || r.exit != 0 || !strings.HasSuffix(r.output, "done\n") {
		t.Fatalf("exit status %d, record: %v, output %s, messages %s", r.exit, r.err, r.output,
			r.messages)
	}
	return r
}

// events returns the accesses to BARs and the changes of host memory as the format writes them.
func (r *runResult) events() (list []string) {
	names := map[record.Kind]string{record.BarWrite: "W", record.BarRead: "R",
		record.HostRead: "HR", record.HostWrite: "HW", record.HostBoth: "HB"}
	for _, a := range r.capture.Records {
		if name := names[a.Kind]; name != "" {
			list = append(list, fmt.Sprintf("%s %x %d %x", name, a.Offset, len(a.Data), a.Data))
		}
	}
	return list
}

// TestHostMemoryIsInTheRecord records host memory on a kernel that reports which pages a program
// writes, and without these reports, while the recorder watches the program's loads of completions
// or all its accesses to the memory.
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
			r := recordDMA(t, o)
			if o.Watch == nil && strings.Contains(r.messages, "does not report which pages") {
				t.Skip("needs Linux 6.7: ", r.messages)
			}
			if os.Geteuid() != 0 && strings.Contains(r.messages, "CAP_CHECKPOINT_RESTORE") {
				t.Skip("needs root: ", r.messages)
			}
			if difference := firstDifference(r.events(),
				printedAccesses(r.output)); difference != "" {
				t.Errorf("events of the record: %s", difference)
			}
		})
	}
}

// TestUnrecordedHostMemoryIsReported: without reported pages and watched ranges, the record has the
// device's writes as stores of the program. Memory over the limit is not recorded. The recorder
// reports both.
func TestUnrecordedHostMemoryIsReported(t *testing.T) {
	unknown := recordDMA(t, Options{IgnoreTracking: true, HostMemoryLimit: 1 << 20})
	if !strings.Contains(unknown.messages, "does not report which pages a program has written") ||
		strings.Contains(strings.Join(unknown.events(), "\n"), "HW") {
		t.Errorf("recording without reported pages: messages %q, want one that the kernel does "+
			"not report which pages a program has written; events %q, want no HW event",
			unknown.messages, unknown.events())
	}
	over := recordDMA(t, Options{HostMemoryLimit: 4 * pageSize})
	if !strings.Contains(over.messages, "20480 bytes") ||
		!strings.Contains(over.messages, "--host-memory") ||
		strings.Contains(strings.Join(over.events(), "\n"), "H") {
		t.Errorf("recording 20480 bytes of memory with a lower limit: messages %q, want one with "+
			"\"20480 bytes\" and \"--host-memory\"; events %q, want no HR or HW event",
			over.messages, over.events())
	}
	for name, r := range map[string]*runResult{"without reported pages": unknown,
		"with a lower limit": over} {
		if len(r.eventLines()) == 0 {
			t.Errorf("recording %s: the record has no EVENT line, want one about host memory", name)
		}
	}
}

// TestThreadThatHasEndedHasNoMemory: the recorder learns later that a thread has ended. Until then,
// it must not read the memory of the process through this thread.
func TestThreadThatHasEndedHasNoMemory(t *testing.T) {
	c := exec.Command("/bin/true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := c.Process.Pid
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, ended, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	r, self, _ := newTestRecording(t, Options{})
	r.threads[ended] = &thread{tid: ended, space: self.space}
	for range 100 { // the order of a map differs
		if got := r.threadOf(self.space); got != self.tid {
			t.Fatalf("threadOf returned thread %d, which has ended, want %d", got, self.tid)
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}
