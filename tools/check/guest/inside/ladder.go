package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	steps["recovers"] = step{"DEVICE COUNT STEPS LADDER IMAGE", checkRecovery}
}

// ladderResult is the output of each frame of the image: 12!.
const ladderResult = 479001600

// recovery is what happened between a failure and the next good frame.
type recovery struct {
	steps []string // as lminit prints them
	took  time.Duration
}

// checkRecovery runs lminit with a device that hangs again and again, until it has recovered COUNT
// times. Each time lminit must have taken exactly STEPS, such as "restart, reset function". LADDER
// is the value of `on-failure`. It prints the times from failures to the next good frame.
func checkRecovery(_ *guest, args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	config := "on-failure " + args[3] + "\nimage " + args[4] + "\ndevice " + args[0] +
		"\nbefore init\nsequence frame\nloop forever\noutput result=-\n"
	if strings.HasPrefix(args[0], "vfio:") {
		config = "bind vfio-pci " + pciAddress(args[0]) + "\n" + config
	}
	if err := os.WriteFile("/tmp/ladder.conf", []byte(config), 0o644); err != nil {
		return err
	}
	c := exec.Command("/lminit", "-config", "/tmp/ladder.conf")
	l := &recoveryLog{want: strings.Split(args[2], ", ")}
	if err := l.runUntilRecovered(c, count); err != nil {
		return fmt.Errorf("%w; it said:\n%s", err, l.output.String())
	}
	l.report(args[0], args[2])
	return nil
}

// recoveryLog records the recoveries in the output of lminit.
type recoveryLog struct {
	want       []string
	output     bytes.Buffer
	recoveries []recovery
}

// event is a line that lminit or lmrun printed, or a frame if the line is empty.
type event struct {
	at   time.Time
	line string
	err  error // end of the output, or a wrong frame
}

// runUntilRecovered runs lminit until it has recovered count times.
func (l *recoveryLog) runUntilRecovered(c *exec.Cmd, count int) error {
	// Frames and lines come through one pipe, which keeps their order.
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer from.Close()
	c.Stdout, c.Stderr = to, to
	err = c.Start()
	to.Close()
	if err != nil {
		return err
	}
	events := make(chan event)
	done := make(chan struct{})
	go sendEvents(bufio.NewReader(from), events, done)
	err = l.follow(events, count)
	close(done)
	_ = c.Process.Signal(unix.SIGTERM)
	// The device may have failed once more before the signal.
	if exit := waitExit(c); err == nil && !slices.Contains([]int{0, 71, 75, 76}, exit) {
		err = fmt.Errorf("lminit ended with %d", exit)
	}
	return err
}

// sendEvents sends the events that it reads, until an error or until done is closed. After that it
// discards further output, so that lminit is not blocked until it ends.
func sendEvents(from *bufio.Reader, events chan<- event, done <-chan struct{}) {
	for {
		e := readEvent(from)
		select {
		case events <- e:
		case <-done:
			e.err = io.EOF
		}
		if e.err != nil {
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

// readEvent reads a frame or a line. A line begins with a letter, and a frame does not.
func readEvent(from *bufio.Reader) (e event) {
	var first []byte
	if first, e.err = from.Peek(1); e.err != nil {
		return e
	}
	if first[0] >= 'a' && first[0] <= 'z' {
		e.line, e.err = from.ReadString('\n')
		e.line = strings.TrimSuffix(e.line, "\n")
	} else {
		var frame [4]byte
		_, e.err = io.ReadFull(from, frame[:])
		if got := binary.LittleEndian.Uint32(frame[:]); e.err == nil && got != ladderResult {
			e.err = fmt.Errorf("a frame is %d, want %d", got, ladderResult)
		}
	}
	e.at = time.Now()
	return e
}

// follow reads events, and returns after count recoveries.
func (l *recoveryLog) follow(events <-chan event, count int) error {
	var failed time.Time
	var now recovery
	limit := time.After(runLimit * time.Duration(1+count/20))
	for len(l.recoveries) < count {
		var e event
		select {
		case e = <-events:
		case <-limit:
			return errors.New("no good frame any more")
		}
		l.output.WriteString(e.line + "\n")
		switch taken, isStep := recoveryStep(e.line); {
		case e.err != nil:
			return e.err
		case isStep:
			now.steps = append(now.steps, taken)
		case e.line != "":
			if failed.IsZero() && strings.HasPrefix(e.line, "lmrun: ") {
				failed = e.at
			}
		case !failed.IsZero() && len(now.steps) > 0:
			if !slices.Equal(now.steps, l.want) {
				return fmt.Errorf("recovery %d took the steps %q, want %q", len(l.recoveries),
					now.steps, l.want)
			}
			now.took = e.at.Sub(failed)
			l.recoveries = append(l.recoveries, now)
			failed, now = time.Time{}, recovery{}
		}
		if l.output.Len() > 1<<16 {
			l.output.Reset()
		}
	}
	return nil
}

// recoveryStep returns the step that a line of lminit names.
func recoveryStep(line string) (step string, ok bool) {
	text, isInit := strings.CutPrefix(line, "lminit: ")
	text, _, isStep := strings.Cut(text, " after exit status ")
	if text == "restarting" {
		return "restart", isInit && isStep
	}
	text, _, _ = strings.Cut(text, " of ")
	return text, isInit && isStep
}

// report prints the median and the longest of the times.
func (l *recoveryLog) report(device, steps string) {
	times := make([]time.Duration, len(l.recoveries))
	for i := range times {
		times[i] = l.recoveries[i].took
	}
	slices.Sort(times)
	fmt.Printf("inside: %s recovered %d times by %s: p50 %v, maximum %v\n", device, len(times),
		steps, times[len(times)/2].Round(time.Millisecond),
		times[len(times)-1].Round(time.Millisecond))
}
