package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// TestFileThatIsNotAWatchdogIsRejected also checks that the file is not changed, and that lmrun
// does not wait for the reader of a pipe.
func TestFileThatIsNotAWatchdogIsRejected(t *testing.T) {
	plain, pipe, read := filepath.Join(t.TempDir(), "plain"), makeFIFO(t), makeFIFO(t)
	_ = os.WriteFile(plain, []byte("text"), 0o600)
	reader, err := os.OpenFile(read, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for text, code := range map[string]hal.Code{
		plain: hal.NoDevice, plain + "=10": hal.NoDevice, plain + "=": hal.Usage,
		plain + "=0": hal.Usage,
		plain + "=x": hal.Usage, plain + "=65536": hal.Usage, "/nowhere/watchdog": hal.NoFile,
		pipe: hal.NoDevice, pipe + "=10": hal.NoDevice, read: hal.NoDevice,
		"/dev/null": hal.NoDevice,
	} {
		t.Run(text, func(t *testing.T) {
			w, err := parseWatchdog(text)
			if err == nil {
				err = w.start()
			}
			if err == nil || hal.CodeOf(err) != code {
				t.Errorf("watchdog %s: %v, want %v", text, err, code)
			}
			if code != hal.Usage && w.fd != -1 {
				t.Errorf("watchdog %s: descriptor %d stays open", text, w.fd)
			}
		})
	}
	if data, _ := os.ReadFile(plain); string(data) != "text" {
		t.Errorf("the file contains %q, want %q", data, "text")
	}
	if n, _ := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCINQ); n != 0 {
		t.Errorf("%d bytes were written into the pipe, want none", n)
	}
	if w, err := parseWatchdog(""); err != nil || w.start() != nil || w.fd != -1 {
		t.Errorf("without a watchdog: %+v, %v; want no error and no descriptor", w, err)
	}
}

// TestWatchdogIsFedEveryQuarterOfItsTimeout uses a pipe instead of a watchdog.
func TestWatchdogIsFedEveryQuarterOfItsTimeout(t *testing.T) {
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	w := watchdog{fd: ends[1], feedIntervalNs: 1000}
	for now := int64(1000); now <= 10_000; now += 100 {
		w.feed(now)
	}
	w.stop()
	syscall.Close(ends[1])
	data := make([]byte, 100)
	if n, _ := syscall.Read(ends[0], data); string(data[:n]) != strings.Repeat("\x00", 10)+"V" {
		t.Errorf("the watchdog received %q, want 10 zeros and V", data[:n])
	}
}
