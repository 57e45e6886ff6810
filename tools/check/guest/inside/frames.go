package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

func init() { steps["frames-by-pipes"] = step{"COUNT", framesByPipes} }

// framesByPipes starts lmrun from a configuration, sends it numbers through a pipe, and compares
// the factorials from another pipe with its own. At the end of the numbers, lmrun must end with
// status 0.
func framesByPipes(_ *guest, args []string) error {
	const config = "image /images/factorial.lmb\nsequence compute\nloop forever\nseal\n" +
		"deadline 10s\ninput n=/tmp/in\noutput result=/tmp/out\n"
	frames, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for _, path := range []string{"/tmp/in", "/tmp/out"} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/frames.conf", []byte(config), 0o600); err != nil {
		return err
	}
	c, err := spawn("/lminit", "-config", "/frames.conf")
	if err != nil {
		return err
	}
	in, err := os.OpenFile("/tmp/in", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	out, err := os.Open("/tmp/out")
	if err != nil {
		return err
	}
	for i := range uint32(frames) {
		n, want := i%20, uint32(1)
		for k := uint32(2); k <= n; k++ {
			want *= k
		}
		var data [4]byte
		binary.LittleEndian.PutUint32(data[:], n)
		if _, err := in.Write(data[:]); err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
		if _, err := io.ReadFull(out, data[:]); err != nil {
			return fmt.Errorf("frame %d: %w", i, err)
		}
		if got := binary.LittleEndian.Uint32(data[:]); got != want {
			return fmt.Errorf("frame %d: %d! is %d, got %d", i, n, want, got)
		}
	}
	in.Close()
	if exit := waitExit(c); exit != 0 {
		return fmt.Errorf("lmrun ended with %d", exit)
	}
	return nil
}
