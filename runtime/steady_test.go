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

	"golang.org/x/sys/unix"
)

// long is some 20 ms of commands, after half of which Go wants a goroutine to
// make room for others.
const long = ivshmem + `
main:
  fill.4 m+0x0 <- 0x1 size 0xffff0
  fill.4 m+0x0 <- 0x2 size 0xffff0
  call sub
sub:
  write.4 m+0x0 0x1
wait:
  delay 3ms
`

const steadyFrom, steadyTo = "runs begin", "runs end"

// runSteady freezes the process, seals it if requested, and makes runs
// between two lines of output.
func runSteady(args []string) error {
	r, _, err := loadPlain(args[0])
	if err != nil {
		return err
	}
	if err := r.Freeze(); err != nil {
		return err
	}
	var runs int
	fmt.Sscan(args[1], &runs)
	if args[2] == "sealed" {
		if err := runtime.Seal(); err != nil {
			return err
		}
	}
	main, wait := r.View().SequenceByName("main"), r.View().SequenceByName("wait")
	hal.Write(1, []byte(steadyFrom))
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
	hal.Write(1, []byte(steadyTo))
	unix.Exit(0) // os.Exit writes what go test -cover counts, to a new file
	return nil
}

// TestFrozenRunsMakeNoSystemCallsExceptWaits has strace look at all threads of a
// process that makes 200 long runs and ten waits: the replaying thread makes no
// system call but those of the waits, and no thread is made or woken. What
// Go's monitor does by itself, naps and looks for files, is counted apart.
func TestFrozenRunsMakeNoSystemCallsExceptWaits(t *testing.T) {
	if underRace {
		t.Skip("the race detector makes calls of its own")
	}
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("strace is not here")
	}
	log, image := filepath.Join(t.TempDir(), "strace"), written(t, encoded(t, long))
	for again := 2; ; again-- {
		c := exec.Command("strace", "-f", "-qq", "-o", log, os.Args[0], image, "200", "open")
		c.Env = append(os.Environ(), childTask+"=steady")
		if out, err := c.CombinedOutput(); err != nil || string(out) != steadyFrom+steadyTo {
			t.Skipf("strace cannot follow here: %v, %s", err, out)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		runner, own, others, monitor := between(t, text)
		t.Logf("evidence: %d system calls of frozen runs except waits (Go's monitor made "+
			"%d by itself)", own-10+others, monitor)
		yields := yieldsOf(text, runner)
		if own == 10 && others == 0 {
			return
		}
		if again > 0 && yields <= 1 && own-yields == 10 &&
			(others == 0 || others == 2 && met(text, runner)) {
			continue
		}
		t.Fatalf("thread %s made %d system calls in 200 runs and 10 waits, and there were %d "+
			"futexes and new threads:\n%s", runner, own, others, telling(text, runner))
	}
}

// telling are the lines of a log that show why: those of the runner, and those
// by which threads are made, woken and sent to sleep.
func telling(log []byte, runner string) (text string) {
	_, log, _ = bytes.Cut(log, []byte("\""+steadyFrom+"\""))
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, runner) || strings.Contains(line, "futex") ||
			strings.Contains(line, "clone") || strings.Contains(line, "sched_yield") {
			text += line
		}
	}
	return text
}

// met reports whether the only pair of futexes is of Go's monitor, which waits for the scheduler's
// lock, and of the runner, which releases it. They meet if the kernel deschedules the runner while
// it holds the lock: once in hours on an overloaded machine (GO.md).
func met(log []byte, runner string) bool {
	waits := regexp.MustCompile(`(?m)^(\d+) +sched_yield\(\) += 0\n` +
		`\d+ +futex\(\w+, FUTEX_WAIT_PRIVATE, 4294967295, NULL`)
	waited := waits.FindSubmatch(log)
	return waited != nil && string(waited[1]) != runner
}

// yieldsOf returns how often the runner called sched_yield during the runs. The runner calls it
// once, before it would wait with a futex, if the kernel deschedules Go's monitor while the monitor
// holds the scheduler's lock (GO.md).
func yieldsOf(log []byte, runner string) int {
	_, log, _ = bytes.Cut(log, []byte("\""+steadyFrom+"\""))
	log, _, _ = bytes.Cut(log, []byte("\""+steadyTo+"\""))
	return len(regexp.MustCompile(`(?m)^`+runner+` +sched_yield\(`).FindAll(log, -1))
}

func TestYieldsOfTheRunnerAreCounted(t *testing.T) {
	log := `7 write(1, "` + steadyFrom + `", 10) = 10
7 sched_yield( <unfinished ...>
8 sched_yield() = 0
7 <... sched_yield resumed>) = 0
7 write(1, "` + steadyTo + `", 8) = 8
7 sched_yield() = 0
`
	if yields := yieldsOf([]byte(log), "7"); yields != 1 {
		t.Errorf("%d calls are counted, want 1", yields)
	}
}

// asleep is a thread that has nothing to do until it is woken (m.park).
var asleep = regexp.MustCompile(`^\d+ +futex\(\w+, FUTEX_WAIT_PRIVATE, 0, NULL`)

var call = regexp.MustCompile(`^(\d+) +(?:<\.\.\. )?(\w+)`)

// between counts the system calls between the two marks: of the thread that
// made the marks, futexes and clones of any, and the rest. On a machine with
// too much to do, threads of before the runs come to lie down only within them.
func between(t *testing.T, log []byte) (runner string, own, taking, rest int) {
	t.Helper()
	_, log, begun := bytes.Cut(log, []byte("\""+steadyFrom+"\""))
	log, end, ended := bytes.Cut(log, []byte("\""+steadyTo+"\""))
	if !begun || !ended || len(end) == 0 {
		t.Fatal("the marks are not in the log")
	}
	lines := strings.Split(string(log), "\n")
	// The last line is what stood before the second mark: its thread and "write(1, ".
	runner, _, _ = strings.Cut(lines[len(lines)-1], " ")
	slept := map[string]bool{}
	for _, line := range lines[1 : len(lines)-1] {
		m := call.FindStringSubmatch(line)
		switch {
		case m == nil || strings.Contains(line, "resumed>") || strings.Contains(line, " --- "):
		// a wait goes on: a signal that is ignored interrupts one only where the process is traced
		case m[2] == "restart_syscall":
		case asleep.MatchString(line) && m[1] != runner && !slept[m[1]]:
			// it had work before the runs and lies down now; whoever wakes it is seen
			slept[m[1]] = true
			rest++
		case m[2] == "futex" || strings.HasPrefix(m[2], "clone"):
			taking++
		case m[1] == runner:
			own++
		default:
			rest++
		}
	}
	return runner, own, taking, rest
}

// TestSealedProcessesSurviveTheirFirstRuns: what a process still makes when it
// is sealed shows in its first runs, if it does.
func TestSealedProcessesSurviveTheirFirstRuns(t *testing.T) {
	needSeccomp(t)
	const processes = 40
	path := written(t, encoded(t, long))
	for i := range processes {
		if out, status := child(t, "steady", path, "2", "sealed"); status != 0 {
			t.Fatalf("process %d: exit %d, signal %v, %q", i, status.ExitStatus(), status.Signal(),
				out)
		}
	}
	t.Logf("evidence: %d sealed processes that lived (on %s)", processes, goruntime.GOARCH)
}

func TestFallbackOfTheLinknamesBuilds(t *testing.T) {
	vet := exec.Command("go", "vet", "-tags", "nolinkname", ".", "lightmetal/hal",
		"lightmetal/tools/lmrun/args")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
