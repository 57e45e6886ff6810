package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
)

func init() {
	steps["frames-over-kills"] = step{"DEVICE IMAGE", framesOverKills}
}

// framesOverKills sends 48 inputs to lmrun, kills it several times, and expects 48 outputs in
// order. A frame that was written before a kill may come twice. lmrun reads ahead by at most the
// eight slots of the output ring, so that inputs are left after the last kill. Without inputs, an
// lmrun that finds its ring closed and empty would wait for another writer.
func framesOverKills(_ *guest, args []string) error {
	const frames, killEvery, lastKill = 48, 8, 32
	const step = 1000
	var inputs [][]byte
	for i := range uint32(frames) {
		inputs = append(inputs, binary.LittleEndian.AppendUint32(nil, 100+i*step))
		inputs[i] = append(inputs[i], make([]byte, 1020)...)
	}
	if err := writeFullRing("/tmp/a", inputs); err != nil {
		return err
	}
	start := func() (*exec.Cmd, error) {
		return spawn("/lmrun", "-loop", "forever", "-seal", "-device", args[0], "-input",
			"a=ring:/tmp/a", "-output", "d=ring:/tmp/results",
			args[1])
	}
	c, err := start()
	if err != nil {
		return err
	}
	out, err := openRing("/tmp/results")
	if err != nil {
		return err
	}
	base, ok := out.takeNumber() // output of frame 0, which contains b
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
		if d, ok = out.takeNumber(); !ok {
			return fmt.Errorf("after %d frames no more come", seen)
		}
		switch {
		case d == base+uint32(seen)*step:
			seen++
		case d != base+uint32(seen-1)*step:
			return fmt.Errorf("frame %d: %d beside a base of %d", seen, d, base)
		}
	}
	exit := waitExit(c)
	left, _ := os.ReadFile("/tmp/a")
	if got := binary.LittleEndian.Uint64(left[ringRead:]); exit != 0 || got != frames || !ok {
		return fmt.Errorf("lmrun ended with %d, %d inputs taken", exit, got)
	}
	fmt.Println("inside: frames by rings:", frames)
	return nil
}
