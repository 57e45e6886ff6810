package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A processor is stuck if so many looks in a row, each after a pause, find it asleep at the same
// place with the same interrupts pending.
const stuckLooks = 6

// errStuck is the end of a machine with a stuck processor. QEMU 7.2 emulates SVM with a defect:
// seldom, a processor that has left a guest keeps its global interrupt flag at 0, accepts no
// interrupt, and sleeps for ever.
var errStuck = errors.New("an emulated processor sleeps while an interrupt is pending")

// In the answers of QEMU's monitor.
var (
	sleepPattern   = regexp.MustCompile(`RIP=(\w+) RFL=(\w+) .* HLT=1`)
	pendingPattern = regexp.MustCompile(`(?m)^IRR\s+(\d.*?)\s*$`)
)

// sleepState says where a processor sleeps, and with which interrupts pending. It is empty if the
// processor does not sleep, accepts no interrupts, or has none.
func sleepState(registers, apic string) string {
	r, i := sleepPattern.FindStringSubmatch(registers), pendingPattern.FindStringSubmatch(apic)
	if r == nil || i == nil {
		return ""
	}
	const enabled = 1 << 9
	if flags, _ := strconv.ParseUint(r[2], 16, 64); flags&enabled == 0 {
		return ""
	}
	return "at " + r[1] + " with " + i[1]
}

// waitUntilStuck returns errStuck when a processor is stuck, and nil if the machine ended before.
func (m *qemuMonitor) waitUntilStuck(ctx context.Context, processors int,
	pause time.Duration) error {
	lines := bufio.NewScanner(m.from) // ends when the test closes the pipe
	lines.Buffer(nil, 1<<20)
	ask := func(command string, processor int) (answer string) {
		_, _ = fmt.Fprintf(m.to, `{"execute": "human-monitor-command", "arguments": `+
			`{"command-line": "%s", "cpu-index": %d}}`+"\n", command, processor)
		for lines.Scan() {
			var reply struct{ Return string }
			if json.Unmarshal(lines.Bytes(), &reply) == nil && reply.Return != "" {
				return reply.Return
			}
		}
		return ""
	}
	states, counts := make([]string, processors), make([]int, processors)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		for n := range processors {
			state := sleepState(ask("info registers", n), ask("info lapic", n))
			if state == "" || state != states[n] {
				counts[n] = 0
			}
			if counts[n]++; state != "" && counts[n] == stuckLooks {
				return fmt.Errorf("%w: processor %d %s", errStuck, n, state)
			}
			states[n] = state
		}
	}
}

const (
	asleep  = "CPU#0\r\nRIP=ffffffff81d0fa3f RFL=00000202 [-------] CPL=0 II=0 SMM=0 HLT=1"
	awake   = "CPU#0\r\nRIP=ffffffff811c5cc5 RFL=00000202 [-------] CPL=0 II=0 SMM=0 HLT=0"
	pending = "ISR\t (none)\r\nIRR\t 236 251 \r\n\r\nAPR 0x00"
)

func TestSleepingProcessorsAreRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, registers, apic, want string }{
		{"stuck", asleep, pending, "at ffffffff81d0fa3f with 236 251"},
		{"nothing pending", asleep, "ISR\t (none)\r\nIRR\t (none)\r\n", ""},
		{"awake", awake, pending, ""},
		{"interrupts off", "RIP=1 RFL=00000002 [-------] CPL=0 HLT=1", pending, ""},
	} {
		if got := sleepState(test.registers, test.apic); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestStuckProcessorIsFound(t *testing.T) {
	t.Parallel()
	fromTest, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, toTest, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	go func() { // processor 0 takes its interrupts, processor 1 wakes up once
		defer toTest.Close()
		for requests := json.NewDecoder(fromTest); ; {
			var request struct {
				Arguments struct {
					Command   string `json:"command-line"`
					Processor int    `json:"cpu-index"`
				}
			}
			if requests.Decode(&request) != nil {
				return
			}
			answer := asleep
			if request.Arguments.Command == "info lapic" {
				if answer = pending; request.Arguments.Processor == 0 {
					answer = "IRR\t (none)"
				}
			} else if request.Arguments.Processor == 1 {
				if looks++; looks == stuckLooks {
					answer = awake
				}
			}
			_ = json.NewEncoder(toTest).Encode(map[string]string{"return": answer})
		}
	}()
	m := &qemuMonitor{to: to, from: from}
	got := m.waitUntilStuck(t.Context(), 2, time.Millisecond)
	to.Close()
	for range 2 { // wait for the end of the other side
		_, _ = from.Read(make([]byte, 1))
	}
	if !errors.Is(got, errStuck) || !strings.Contains(got.Error(), "processor 1") ||
		looks != 2*stuckLooks {
		t.Errorf("%v after %d looks, want processor 1 after %d", got, looks, 2*stuckLooks)
	}
}
