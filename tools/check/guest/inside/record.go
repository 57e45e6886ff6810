package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
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
	exit, err := runRecord(args, 4*time.Minute)
	if err == nil && exit != 0 {
		err = fmt.Errorf("exit status %d", exit)
	}
	return err
}

// recordAgain is like recordProgram for a program that may hang. After the limit, it ends the
// program and starts it again with twice the limit, because the machine may only have been slow.
func recordAgain(_ *guest, args []string) error {
	limit, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	for range 6 {
		exit, err := runRecord(args[1:], limit)
		if err != nil || exit == 0 {
			return err
		}
		limit *= 2
	}
	return errors.New("it never ended well")
}

// prepareDPDK creates the directories and the mount that testpmd requires.
func prepareDPDK(g *guest, _ []string) error {
	err := makeDirectories(g, []string{"/dev/hugepages", "/run", "/var/run"})
	return errors.Join(err, os.Chmod("/", 0o755),
		unix.Mount("hugetlbfs", "/dev/hugepages", "hugetlbfs", 0, ""))
}

// runRecord runs a program under lm record and prints the record. After a limit, it asks lm to end.
// If lm ends before it starts the program, it writes no record.
func runRecord(program []string, limit time.Duration) (exit int, err error) {
	const out = "/tmp/out.record"
	if !strings.HasPrefix(program[0], "--") { // without flags of lm
		program = append([]string{"--"}, program...)
	}
	if err := os.Remove(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	c, err := spawn("/lm", append([]string{"record", "-o", out}, program...)...)
	if err != nil {
		return 0, err
	}
	timer := time.AfterFunc(limit, func() { _ = c.Process.Signal(unix.SIGTERM) })
	_ = c.Wait()
	timer.Stop()
	exit = exitStatus(c.ProcessState)
	data, err := os.ReadFile(out)
	if exit != 0 && errors.Is(err, fs.ErrNotExist) {
		return exit, nil
	}
	if err != nil {
		return 0, err
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
