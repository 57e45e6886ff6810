package runtime_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/effort"

	"golang.org/x/sys/unix"
)

// longListing describes a run of about 20 ms with every kind of command. Go preempts a goroutine
// after 10 ms.
const longListing = ivshmemHead + plainTensors + `
main:
  fill.4 m+0x0 <- 0x1 size 0xffff0
  fill.4 m+0x0 <- 0x2 size 0xffff0
` + everyKind + `
sub:
  write.4 m+0x0 0x1
wait:
  delay 3ms
`

// runsBeginMark and runsEndMark are written to standard output before and after the runs, and so
// appear in the log of strace.
const runsBeginMark, runsEndMark = "runs begin", "runs end"

// runSteady freezes the process and seals it if args[2] is "sealed". It writes runsBeginMark, makes
// the number of runs in args[1], with 60 repetitions each and some waits, and writes runsEndMark.
func runSteady(args []string) error {
	load := loadFrozen
	if args[2] == "sealed" {
		load = loadSealed
	}
	r, _, err := load(args[0])
	if err != nil {
		return err
	}
	var runs int
	fmt.Sscan(args[1], &runs)
	main, wait := runtime.ViewOf(r).SequenceByName("main"), runtime.ViewOf(r).SequenceByName("wait")
	hal.Write(1, []byte(runsBeginMark))
	for i := range runs {
		for range 60 {
			if r.Run(main).Code != hal.OK {
				unix.Exit(1)
			}
		}
		if i%20 == 0 && r.Run(wait).Code != hal.OK {
			unix.Exit(1)
		}
	}
	hal.Write(1, []byte(runsEndMark))
	unix.Exit(0) // with go test -cover, os.Exit would write the coverage to a new file
	return nil
}

// TestFrozenRunsMakeNoSystemCallsExceptWaits traces all threads of a process that makes 200 long
// runs and ten waits. The replaying thread makes only the system calls of the waits, and no thread
// is created or woken. System calls that Go's monitor thread makes by itself (to sleep and to poll
// files) are counted separately.
func TestFrozenRunsMakeNoSystemCallsExceptWaits(t *testing.T) {
	effort.SkipShort(t) // what makes system calls depends neither on the walk nor on the processor
	if underRace {
		t.Skip("the race detector makes system calls by itself")
	}
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("strace is not installed")
	}
	log, image := filepath.Join(t.TempDir(), "strace"), writeImage(t, assembleImage(t, longListing))
	for retries := 2; ; retries-- {
		c := exec.Command("strace", "-f", "-qq", "-o", log, os.Args[0], image, "200", "open")
		c.Env = append(os.Environ(), childTask+"=steady")
		if out, err := c.CombinedOutput(); err != nil || string(out) != runsBeginMark+runsEndMark {
			t.Skipf("strace cannot trace this process: %v, %s", err, out)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		runner, ofRunner, scheduling, monitor := countSystemCalls(t, text)
		t.Logf("evidence: %d system calls of frozen runs except waits (Go's monitor made "+
			"%d by itself)", ofRunner-10+scheduling, monitor)
		yields := countYields(text, runner)
		if ofRunner == 10 && scheduling == 0 {
			return
		}
		if retries > 0 && yields <= 1 && ofRunner-yields == 10 &&
			(scheduling == 0 || scheduling == 2 && isMonitorLockContention(text, runner)) {
			continue
		}
		t.Fatalf("thread %s made %d system calls in 200 runs and 10 waits, want 10; all threads "+
			"made %d calls of futex and clone, want 0:\n%s", runner, ofRunner, scheduling,
			relevantLines(text, runner))
	}
}

// relevantLines returns the lines of a log that explain a failure: the system calls of the runner,
// and those that create, wake or suspend threads.
func relevantLines(log []byte, runner string) (text string) {
	_, log, _ = bytes.Cut(log, []byte("\""+runsBeginMark+"\""))
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, runner) || strings.Contains(line, "futex") ||
			strings.Contains(line, "clone") || strings.Contains(line, "sched_yield") {
			text += line
		}
	}
	return text
}

// isMonitorLockContention reports whether the only pair of futexes is of Go's monitor, which waits
// for the scheduler's lock, and of the runner, which releases it. They meet if the kernel
// deschedules the runner while it holds the lock: once in hours on an overloaded machine (GO.md).
func isMonitorLockContention(log []byte, runner string) bool {
	waits := regexp.MustCompile(`(?m)^(\d+) +sched_yield\(\) += 0\n` +
		`\d+ +futex\(\w+, FUTEX_WAIT_PRIVATE, 4294967295, NULL`)
	wait := waits.FindSubmatch(log)
	return wait != nil && string(wait[1]) != runner
}

// countYields returns how often the runner called sched_yield during the runs. The runner calls it
// once, before it would wait with a futex, if the kernel deschedules Go's monitor while the monitor
// holds the scheduler's lock (GO.md).
func countYields(log []byte, runner string) int {
	_, log, _ = bytes.Cut(log, []byte("\""+runsBeginMark+"\""))
	log, _, _ = bytes.Cut(log, []byte("\""+runsEndMark+"\""))
	return len(regexp.MustCompile(`(?m)^`+runner+` +sched_yield\(`).FindAll(log, -1))
}

func TestYieldsOfTheRunnerAreCounted(t *testing.T) {
	log := `7 write(1, "` + runsBeginMark + `", 10) = 10
7 sched_yield( <unfinished ...>
8 sched_yield() = 0
7 <... sched_yield resumed>) = 0
7 write(1, "` + runsEndMark + `", 8) = 8
7 sched_yield() = 0
`
	if yields := countYields([]byte(log), "7"); yields != 1 {
		t.Errorf("%d calls of sched_yield are counted, want 1", yields)
	}
}

// parkedThread matches the system call of a thread that sleeps until Go wakes it (m.park).
var parkedThread = regexp.MustCompile(`^\d+ +futex\(\w+, FUTEX_WAIT_PRIVATE, 0, NULL`)

// systemCall matches the thread and the name of a system call in a line of strace.
var systemCall = regexp.MustCompile(`^(\d+) +(?:<\.\.\. )?(\w+)`)

// countSystemCalls counts the system calls between the two marks. runner is the thread that wrote
// the marks, ofRunner are its calls, scheduling are the calls of futex and clone by any thread, and
// rest are all others. On an overloaded machine, a thread that had work before the runs may go to
// sleep only during the runs; rest includes this call.
func countSystemCalls(t *testing.T, log []byte) (runner string, ofRunner, scheduling, rest int) {
	t.Helper()
	_, log, begun := bytes.Cut(log, []byte("\""+runsBeginMark+"\""))
	log, end, ended := bytes.Cut(log, []byte("\""+runsEndMark+"\""))
	if !begun || !ended || len(end) == 0 {
		t.Fatalf("the log does not contain the marks %q and %q", runsBeginMark, runsEndMark)
	}
	lines := strings.Split(string(log), "\n")
	// The last line is the beginning of the line with the second mark: its thread and "write(1, ".
	runner, _, _ = strings.Cut(lines[len(lines)-1], " ")
	isParked := map[string]bool{}
	for _, line := range lines[1 : len(lines)-1] {
		m := systemCall.FindStringSubmatch(line)
		switch {
		case m == nil || strings.Contains(line, "resumed>") || strings.Contains(line, " --- "):
		// A wait continues. An ignored signal interrupts a wait only if the process is traced.
		case m[2] == "restart_syscall":
		case parkedThread.MatchString(line) && m[1] != runner && !isParked[m[1]]:
			// The thread had work before the runs. A call that wakes it would be counted.
			isParked[m[1]] = true
			rest++
		case m[2] == "futex" || strings.HasPrefix(m[2], "clone"):
			scheduling++
		case m[1] == runner:
			ofRunner++
		default:
			rest++
		}
	}
	return runner, ofRunner, scheduling, rest
}

// TestSealedProcessesSurviveTheirFirstRuns: if Go still creates something when the process is
// sealed, it usually does so in the first runs.
func TestSealedProcessesSurviveTheirFirstRuns(t *testing.T) {
	skipWithoutSeccomp(t)
	processes := effort.Cases(4, 40, 40)
	path := writeImage(t, assembleImage(t, longListing))
	for i := range processes {
		if out, status := runChild(t, "steady", path, "2", "sealed"); status != 0 {
			t.Fatalf("process %d: exit %d, signal %v, %q", i, status.ExitStatus(), status.Signal(),
				out)
		}
	}
	t.Logf("evidence: %d sealed processes that lived (on %s)", processes, goruntime.GOARCH)
}

func TestFallbackOfTheLinknamesBuilds(t *testing.T) {
	effort.SkipShort(t)
	build := exec.Command("go", "build", "-tags", "nolinkname", ".", "lightmetal/hal",
		"lightmetal/tools/lmrun/args")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build -tags nolinkname: %v: %s", err, out)
	}
}
