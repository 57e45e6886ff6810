package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	steps["record"] = step{"[FLAG... --] PROGRAM [ARGUMENT...]", recordProgram}
	steps["record-again"] = step{"LIMIT [FLAG... --] PROGRAM [ARGUMENT...]", recordAgain}
	steps["prepare-dpdk"] = step{"", prepareDPDK}
}

// recordProgram runs a program under lm record and prints the record. Flags of lm end with --.
func recordProgram(_ *guest, args []string) error {
	exit, err := record(args, 4*time.Minute)
	if err == nil && exit != 0 {
		err = fmt.Errorf("exit status %d", exit)
	}
	return err
}

// recordAgain is recordProgram of a program that may hang: after the limit it is ended, and
// started again with twice the limit, since the machine may only have been slow.
func recordAgain(_ *guest, args []string) error {
	limit, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	for range 6 {
		exit, err := record(args[1:], limit)
		if err != nil || exit == 0 {
			return err
		}
		limit *= 2
	}
	return errors.New("it never ended well")
}

// prepareDPDK makes what testpmd requires of a machine.
func prepareDPDK(g *guest, _ []string) error {
	err := folders(g, []string{"/dev/hugepages", "/run", "/var/run"})
	return errors.Join(err, os.Chmod("/", 0o755),
		unix.Mount("hugetlbfs", "/dev/hugepages", "hugetlbfs", 0, ""))
}

// record runs a program under lm record, which is asked to end after a limit, and prints the
// record, unless the program was ended before it mapped the device.
func record(program []string, limit time.Duration) (exit int, err error) {
	const out = "/tmp/out.record"
	if !strings.HasPrefix(program[0], "--") { // else flags of lm come first
		program = append([]string{"--"}, program...)
	}
	c, err := spawn("/lm", append([]string{"record", "-o", out}, program...)...)
	if err != nil {
		return 0, err
	}
	late := time.AfterFunc(limit, func() { _ = c.Process.Signal(unix.SIGTERM) })
	_ = c.Wait()
	late.Stop()
	data, err := os.ReadFile(out)
	if err != nil {
		return 0, err
	}
	exit = status(c.ProcessState)
	if exit != 0 && !bytes.Contains(data, []byte("\nDEVICE ")) {
		return exit, nil
	}
	text := base64.StdEncoding.EncodeToString(data)
	for len(text) > 0 {
		n := min(len(text), 120)
		fmt.Println("record:", text[:n])
		text = text[n:]
	}
	fmt.Println("record: end")
	return exit, nil
}
