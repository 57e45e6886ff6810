package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func init() { steps["soak"] = step{"LOAD FRAMES EVERY", soak} }

// load is what is soaked: an image with a frame's sequence, an input and an output.
type load struct {
	image, input, output, device string
	flags                        []string
	size                         uint64            // of both, in bytes
	want                         func(data []byte) // makes of an input what is to come out
	// of the command register, which is a fault of the device's
	clear byte
	exit  int // that this ends in
}

// loads by name. By sysfs a kill leaves the cores of a Wormhole going, which safe ends. The program
// of the capture of twoop computes max(a + b - 100, 0), with the b of /soak/b.
var loads = map[string]load{
	"nvme": {"nvme.lmb", "blocks", "result", "nvme",
		[]string{"-before", "init", "-sequence", "frame", "-after", "stop"}, 32 << 10,
		func([]byte) {}, 4, 69},
	"wormhole": {"twoop.lmb", "a", "d", "wormhole", []string{"-before", "safe"}, 1024,
		func(data []byte) {
			b, _ := os.ReadFile("/soak/b")
			for i := 0; i < len(b); i += 4 {
				sum := int32(binary.LittleEndian.Uint32(data[i:])) + int32(
					binary.LittleEndian.Uint32(b[i:])) - 100
				binary.LittleEndian.PutUint32(data[i:], uint32(max(sum, 0)))
			}
		}, 2, 71},
}

// soaking is a soak that goes on.
type soaking struct {
	load
	name                    string // of the device, for lmrun
	in, out                 ring
	runner                  *exec.Cmd
	said                    *bytes.Buffer
	ended                   chan struct{} // closed when runner has ended
	sent, got               uint32
	kills, faults, repeated int
	// runs that were cut off, each of which may have handed on its results
	mayRepeat                int
	expected, repeatExpected []byte
}

// soak has frames go through rings: soak LOAD FRAMES EVERY. After every so many, lmrun is
// killed or its device made to fail, in turn, and started again. What comes out is held against
// what went in, every byte of every frame in order: one may come twice after it was cut off, and
// none may be missing.
func soak(_ *guest, args []string) error {
	frames, _ := strconv.Atoi(args[1]) // a test's own
	every, _ := strconv.Atoi(args[2])
	s := &soaking{load: loads[args[0]]}
	began := time.Now()
	err := s.begin()
	for next := uint32(every); err == nil && s.got < uint32(frames); {
		err = s.step(uint32(frames))
		if err == nil && s.got >= next && s.got < uint32(frames) {
			err = s.interrupt(uint32(frames))
			next += uint32(every)
		}
	}
	if err == nil {
		err = s.end(uint32(frames))
	}
	fmt.Printf("inside: %s: %d frames of %d bytes, %d kills, %d faults of the device, %d frames "+
		"twice, %v\n", args[0], s.got, s.size, s.kills, s.faults, s.repeated,
		time.Since(began).Round(time.Millisecond))
	if err != nil {
		return fmt.Errorf("%w: %s", err, s.said)
	}
	return nil
}

func (s *soaking) begin() error {
	found, err := addresses(idsOf[s.device])
	if err != nil {
		return err
	}
	s.name = "pci:" + found[len(found)-1]
	const slots = 8
	ring := make([]byte, ringFirst+slots*s.size)
	binary.LittleEndian.PutUint64(ring[ringSize:], s.size)
	binary.LittleEndian.PutUint64(ring[ringSlots:], slots)
	copy(ring, "LMRING1")
	for _, path := range []string{"/tmp/in", "/tmp/out"} {
		if err := os.WriteFile(path, ring, 0o600); err != nil {
			return err
		}
	}
	if s.in, err = openedRing("/tmp/in"); err == nil {
		s.out, err = openedRing("/tmp/out")
	}
	if err == nil {
		s.expected = s.frame(0)
		s.want(s.expected)
		err = s.start()
	}
	return err
}

// frame is the input of that number: no two are alike.
func (s *soaking) frame(n uint32) []byte {
	data := make([]byte, s.size)
	for i := 0; i < len(data); i += 4 {
		binary.LittleEndian.PutUint32(data[i:], (n+uint32(i/4)*40503)%1_000_000_007)
	}
	return data
}

func (s *soaking) start() error {
	s.said, s.ended = new(bytes.Buffer), make(chan struct{})
	s.runner = exec.Command("/lmrun", append(s.flags, "-loop", "forever", "-seal", "-device",
		s.name, "-input", s.input+"=ring:/tmp/in", "-output", s.output+"=ring:/tmp/out",
		"/images/"+s.image)...)
	s.runner.Stdout, s.runner.Stderr = s.said, s.said
	if err := s.runner.Start(); err != nil {
		return err
	}
	go func(c *exec.Cmd, ended chan struct{}) {
		_ = c.Wait()
		close(ended)
	}(s.runner, s.ended)
	return nil
}

// feed puts inputs where there is room.
func (s *soaking) feed(frames uint32) {
	hasRoom := func() bool {
		waiting := *s.in.word(ringWritten) - atomic.LoadUint64(s.in.word(ringRead))
		return waiting < *s.in.word(ringSlots)
	}
	for ; s.sent < frames && hasRoom(); s.sent++ {
		copy(s.in.slot(uint64(s.sent)), s.frame(s.sent))
		atomic.StoreUint64(s.in.word(ringWritten), uint64(s.sent)+1)
	}
}

// step feeds, and takes the next output.
func (s *soaking) step(frames uint32) error {
	s.feed(frames)
	taken := *s.out.word(ringRead)
	for limit := time.Now().Add(runLimit); atomic.LoadUint64(s.out.word(ringWritten)) == taken; {
		select {
		case <-s.ended:
			return fmt.Errorf("lmrun ended by itself with %d after %d frames",
				status(s.runner.ProcessState), s.got)
		case <-time.After(50 * time.Microsecond):
		}
		if time.Now().After(limit) {
			return fmt.Errorf("after %d frames no more come", s.got)
		}
	}
	defer atomic.StoreUint64(s.out.word(ringRead), taken+1)
	return s.hold(s.out.slot(taken))
}

// hold holds an output against the frame that is due, or the one before it.
func (s *soaking) hold(got []byte) error {
	switch {
	case bytes.Equal(got, s.expected):
		s.repeatExpected = s.expected
		s.got++
		s.expected = s.frame(s.got)
		s.want(s.expected)
	case s.mayRepeat > 0 && bytes.Equal(got, s.repeatExpected):
		s.mayRepeat--
		s.repeated++
	default:
		return fmt.Errorf("frame %d begins with % x, want % x", s.got, got[:16], s.expected[:16])
	}
	return nil
}

// interrupt kills lmrun, or has its device fail, in turn, and starts it again.
func (s *soaking) interrupt(frames uint32) error {
	kill := s.kills <= s.faults
	if kill {
		s.kills++
		_ = s.runner.Process.Kill()
	} else {
		s.faults++
		if _, err := changeCommand(bare(s.name), s.clear, 0); err != nil {
			return err
		}
	}
	// It may wait for inputs, or for room: it goes on meanwhile, to where it notices.
	for limit := time.After(runLimit); ; {
		select {
		case <-s.ended:
			s.mayRepeat++
			if got := status(s.runner.ProcessState); kill && got != 128+int(unix.SIGKILL) ||
				!kill && (got != s.exit || !strings.Contains(s.said.String(), "sequence safe: ")) {
				return fmt.Errorf("interrupted after %d frames, killed %v: lmrun ended with %d",
					s.got, kill, got)
			}
			return s.start()
		case <-limit:
			return fmt.Errorf("interrupted after %d frames, killed %v: lmrun goes on", s.got, kill)
		case <-time.After(time.Millisecond):
			s.feed(frames)
			if taken := *s.out.word(ringRead); !kill &&
				atomic.LoadUint64(s.out.word(ringWritten)) != taken {
				if err := s.hold(s.out.slot(taken)); err != nil {
					return err
				}
				atomic.StoreUint64(s.out.word(ringRead), taken+1)
			}
		}
	}
}

// end closes the inputs and wants lmrun to end in order, with nothing left.
func (s *soaking) end(frames uint32) error {
	*s.in.word(ringClosed) |= 1
	select {
	case <-s.ended:
	case <-time.After(runLimit):
		_ = s.runner.Process.Kill()
	}
	<-s.ended
	if got, read := status(s.runner.ProcessState), *s.in.word(ringRead); got != 0 ||
		read != uint64(frames) || s.got != frames {
		return fmt.Errorf("lmrun ended with %d, %d inputs taken, %d frames came", got, read, s.got)
	}
	return nil
}
