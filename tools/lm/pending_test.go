package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// signalledVariable is an environment variable. If it is set, the test program opens the output
// that it names, and waits for signals.
const signalledVariable = "LM_TEST_SIGNALLED"

// TestSignalRemovesTheTemporaryFile covers the first signal; for a replay, which handles the first
// itself, the second.
func TestSignalRemovesTheTemporaryFile(t *testing.T) {
	for _, s := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		for _, mode := range []string{"alone", "supervised"} {
			t.Run(s.String()+" "+mode, func(t *testing.T) {
				folder := t.TempDir()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				c := exec.CommandContext(ctx, os.Args[0], mode)
				c.Env = append(os.Environ(), signalledVariable+"="+filepath.Join(folder, "x.lms"))
				stdin, err := c.StdinPipe()
				stdout, err2 := c.StdoutPipe()
				if err := errors.Join(err, err2, c.Start()); err != nil {
					t.Fatal(err)
				}
				defer stdin.Close()
				if _, err := stdout.Read(make([]byte, 1)); err != nil { // the output is open
					t.Fatal(err)
				}
				part, _ := filepath.Glob(filepath.Join(folder, ".x.lms.*.part"))
				_ = c.Process.Signal(s)
				if mode == "supervised" { // it writes when it has handled the signal
					if _, err := stdout.Read(make([]byte, 1)); err != nil {
						t.Errorf("the first signal ended a replay: %v", err)
					}
					_ = c.Process.Signal(s)
				}
				_ = c.Wait()
				status := c.ProcessState.Sys().(syscall.WaitStatus)
				left, _ := os.ReadDir(folder)
				if len(part) != 1 || !status.Signaled() || status.Signal() != s || len(left) > 0 {
					t.Errorf("%v, with %v before, left %v; want the end by the signal and no file",
						c.ProcessState, part, left)
				}
			})
		}
	}
}

// waitForSignal is the child of TestSignalRemovesTheTemporaryFile.
func waitForSignal(path string) {
	if _, err := openOutput(path, 0o666); err != nil {
		panic(err)
	}
	if os.Args[1] == "supervised" {
		pending.handleNext(func(unix.Signal) { _, _ = os.Stdout.Write([]byte{0}) })
	}
	_, _ = os.Stdout.Write([]byte{0})
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(1)
}
