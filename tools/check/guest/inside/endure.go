package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"
)

func init() {
	scenarios["endure"] = endure
	scenarios["abandoned"] = abandoned
}

// endure kills replays on a served device in the middle, again and again, and
// has frames go through rings past such kills: endure LANE IDS.
func endure(args []string) int {
	found, err := ready(args[0], args[1])
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	b := &bench{lane: args[0], edu: found[0]}
	random := rand.New(rand.NewPCG(3, 4))
	for range 4 {
		b.kill("twoop.lmb", b.edu, time.Duration(random.IntN(100))*time.Millisecond, "-loop",
			"forever")
	}
	b.again("four kills")
	if err := b.frames(); err != nil {
		b.fail("frames by rings: %v", err)
	}
	if b.failed {
		return 1
	}
	return 0
}

// frames gives lmrun 48 inputs and wants 48 outputs, in order, over kills. One
// that was handed on may come twice. lmrun is ahead by a ring of eight slots, so
// that the last kill leaves it inputs: who finds a ring that is closed and empty
// waits for its next writer.
func (b *bench) frames() error {
	const frames, killEvery, lastKill = 48, 8, 32
	const step = 1000
	var inputs [][]byte
	for i := range uint32(frames) {
		inputs = append(inputs, binary.LittleEndian.AppendUint32(nil, 100+i*step))
		inputs[i] = append(inputs[i], make([]byte, 1020)...)
	}
	if err := filledRing("/tmp/a", inputs); err != nil {
		return err
	}
	start := func() (*exec.Cmd, error) {
		return spawn("/lmrun", "-loop", "forever", "-seal", "-device", b.edu, "-input",
			"a=ring:/tmp/a", "-output", "d=ring:/tmp/results",
			"/images/twoop.lmb")
	}
	c, err := start()
	if err != nil {
		return err
	}
	out, err := openedRing("/tmp/results")
	if err != nil {
		return err
	}
	base, ok := out.take() // of frame 0: what b adds
	for seen, kill := 1, killEvery; seen < frames; {
		if seen == kill && kill <= lastKill {
			_ = c.Process.Kill()
			_ = c.Wait()
			if c, err = start(); err != nil {
				return err
			}
			kill += killEvery
		}
		var d uint32
		if d, ok = out.take(); !ok {
			return fmt.Errorf("after %d frames no more come", seen)
		}
		switch {
		case d == base+uint32(seen)*step:
			seen++
		case d != base+uint32(seen-1)*step:
			return fmt.Errorf("frame %d: %d beside a base of %d", seen, d, base)
		}
	}
	exit := finish(c)
	left, _ := os.ReadFile("/tmp/a")
	if got := binary.LittleEndian.Uint64(left[ringRead:]); exit != 0 || got != frames || !ok {
		return fmt.Errorf("lmrun ended with %d, %d inputs taken", exit, got)
	}
	fmt.Println("inside: frames by rings:", frames)
	return nil
}

// abandoned replays for ever and asks the host to end the server meanwhile:
// abandoned LANE IDS.
func abandoned(args []string) int {
	found, err := ready(args[0], args[1])
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	b := &bench{lane: args[0], edu: found[0]}
	c := b.sealed("twoop.lmb", b.edu, "-loop", "forever")
	if c == nil {
		return 1
	}
	fmt.Println("inside: end the server")
	got := finish(c)
	fmt.Println("inside: lmrun ended with", got)
	if got != 71 && got != 75 {
		return 1
	}
	return 0
}
