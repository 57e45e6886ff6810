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

// soakLoad is an image for a soak test, which has a sequence for each frame, an input and an
// output.
type soakLoad struct {
	image, input, output, device string
	flags                        []string
	size                         uint64            // of the input and of the output, in bytes
	makeExpected                 func(data []byte) // replaces an input by the expected output
	// bits of the command register whose clearing makes the device fail
	bitsToClear    byte
	exitAfterFault int // exit status of lmrun after that failure
}

// soakLoads are the loads by name. With the backend pci, a kill does not stop the cores of a
// Wormhole; its sequence safe does. The program in the capture twoop computes max(a + b - 100, 0),
// with the b in /soak/b.
var soakLoads = map[string]soakLoad{
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

// soakRun is the state of a soak test.
type soakRun struct {
	soakLoad
	name                    string // name of the device for lmrun
	in, out                 ring
	runner                  *exec.Cmd
	printed                 *bytes.Buffer
	runnerEnded             chan struct{} // closed when runner has ended
	sent, received          uint32
	kills, faults, repeated int
	// runs that were interrupted, each of which may have written its last output before
	mayRepeat                int
	expected, repeatExpected []byte
}

// soak sends frames through rings: soak LOAD FRAMES EVERY. After each EVERY frames, it kills lmrun
// or makes its device fail, in turn, and starts lmrun again. It compares every byte of every output
// with the expected output, in order. After an interruption, one output may come twice; none may be
// missing.
func soak(_ *guest, args []string) error {
	frames, _ := strconv.Atoi(args[1]) // the arguments come from a test, and are valid
	every, _ := strconv.Atoi(args[2])
	s := &soakRun{soakLoad: soakLoads[args[0]]}
	began := time.Now()
	err := s.prepare()
	for next := uint32(every); err == nil && s.received < uint32(frames); {
		err = s.exchangeFrame(uint32(frames))
		if err == nil && s.received >= next && s.received < uint32(frames) {
			err = s.interrupt(uint32(frames))
			next += uint32(every)
		}
	}
	if err == nil {
		err = s.finish(uint32(frames))
	}
	fmt.Printf("inside: %s: %d frames of %d bytes, %d kills, %d faults of the device, %d frames "+
		"twice, %v\n", args[0], s.received, s.size, s.kills, s.faults, s.repeated,
		time.Since(began).Round(time.Millisecond))
	if err != nil {
		return fmt.Errorf("%w: %s", err, s.printed)
	}
	return nil
}

func (s *soakRun) prepare() error {
	found, err := addressesByID(deviceIDs[s.device])
	if err != nil {
		return err
	}
	s.name = "pci:" + found[len(found)-1]
	const slots = 8
	empty := makeRing(int(s.size), slots).mem
	for _, path := range []string{"/tmp/in", "/tmp/out"} {
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			return err
		}
	}
	if s.in, err = openRing("/tmp/in"); err == nil {
		s.out, err = openRing("/tmp/out")
	}
	if err == nil {
		s.expected = s.frame(0)
		s.makeExpected(s.expected)
		err = s.startRunner()
	}
	return err
}

// frame returns the n-th input. No two are equal.
func (s *soakRun) frame(n uint32) []byte {
	data := make([]byte, s.size)
	for i := 0; i < len(data); i += 4 {
		binary.LittleEndian.PutUint32(data[i:], (n+uint32(i/4)*40503)%1_000_000_007)
	}
	return data
}

func (s *soakRun) startRunner() error {
	s.printed, s.runnerEnded = new(bytes.Buffer), make(chan struct{})
	s.runner = exec.Command("/lmrun", append(s.flags, "-loop", "forever", "-seal", "-device",
		s.name, "-input", s.input+"=ring:/tmp/in", "-output", s.output+"=ring:/tmp/out",
		"/images/"+s.image)...)
	s.runner.Stdout, s.runner.Stderr = s.printed, s.printed
	if err := s.runner.Start(); err != nil {
		return err
	}
	go func(c *exec.Cmd, ended chan struct{}) {
		_ = c.Wait()
		close(ended)
	}(s.runner, s.runnerEnded)
	return nil
}

// feed writes inputs while the ring has room.
func (s *soakRun) feed(frames uint32) {
	hasRoom := func() bool {
		waiting := *s.in.word(ringWritten) - atomic.LoadUint64(s.in.word(ringRead))
		return waiting < *s.in.word(ringSlots)
	}
	for ; s.sent < frames && hasRoom(); s.sent++ {
		copy(s.in.slot(uint64(s.sent)), s.frame(s.sent))
		atomic.StoreUint64(s.in.word(ringWritten), uint64(s.sent)+1)
	}
}

// exchangeFrame writes inputs, and checks the next output.
func (s *soakRun) exchangeFrame(frames uint32) error {
	s.feed(frames)
	taken := *s.out.word(ringRead)
	for limit := time.Now().Add(runLimit); atomic.LoadUint64(s.out.word(ringWritten)) == taken; {
		select {
		case <-s.runnerEnded:
			return fmt.Errorf("lmrun ended by itself with %d after %d frames",
				exitStatus(s.runner.ProcessState), s.received)
		case <-time.After(50 * time.Microsecond):
		}
		if time.Now().After(limit) {
			return fmt.Errorf("after %d frames no more come", s.received)
		}
	}
	defer atomic.StoreUint64(s.out.word(ringRead), taken+1)
	return s.checkOutput(s.out.slot(taken))
}

// checkOutput compares an output with the expected frame. After an interruption, it may also be the
// previous one.
func (s *soakRun) checkOutput(got []byte) error {
	switch {
	case bytes.Equal(got, s.expected):
		s.repeatExpected = s.expected
		s.received++
		s.expected = s.frame(s.received)
		s.makeExpected(s.expected)
	case s.mayRepeat > 0 && bytes.Equal(got, s.repeatExpected):
		s.mayRepeat--
		s.repeated++
	default:
		return fmt.Errorf("frame %d begins with % x, want % x", s.received, got[:16],
			s.expected[:16])
	}
	return nil
}

// interrupt kills lmrun, or makes its device fail, in turn, and starts lmrun again.
func (s *soakRun) interrupt(frames uint32) error {
	kill := s.kills <= s.faults
	if kill {
		s.kills++
		_ = s.runner.Process.Kill()
	} else {
		s.faults++
		if _, err := changeCommandRegister(pciAddress(s.name), s.bitsToClear, 0); err != nil {
			return err
		}
	}
	// lmrun may wait for inputs, or for room. It gets both until it detects the failure.
	for limit := time.After(runLimit); ; {
		select {
		case <-s.runnerEnded:
			s.mayRepeat++
			if got := exitStatus(s.runner.ProcessState); kill && got != 128+int(unix.SIGKILL) ||
				!kill && (got != s.exitAfterFault ||
					!strings.Contains(s.printed.String(), "sequence safe ran: ")) {
				return fmt.Errorf("interrupted after %d frames, killed %v: lmrun ended with %d",
					s.received, kill, got)
			}
			return s.startRunner()
		case <-limit:
			return fmt.Errorf("interrupted after %d frames, killed %v: lmrun goes on", s.received,
				kill)
		case <-time.After(time.Millisecond):
			s.feed(frames)
			if taken := *s.out.word(ringRead); !kill &&
				atomic.LoadUint64(s.out.word(ringWritten)) != taken {
				if err := s.checkOutput(s.out.slot(taken)); err != nil {
					return err
				}
				atomic.StoreUint64(s.out.word(ringRead), taken+1)
			}
		}
	}
}

// finish closes the inputs. lmrun must then end with status 0, and have read all inputs.
func (s *soakRun) finish(frames uint32) error {
	*s.in.word(ringClosed) |= 1
	select {
	case <-s.runnerEnded:
	case <-time.After(runLimit):
		_ = s.runner.Process.Kill()
	}
	<-s.runnerEnded
	if got, read := exitStatus(s.runner.ProcessState), *s.in.word(ringRead); got != 0 ||
		read != uint64(frames) || s.received != frames {
		return fmt.Errorf("lmrun ended with %d, %d inputs taken, %d frames came", got, read,
			s.received)
	}
	return nil
}
