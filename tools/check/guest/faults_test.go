package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// withImage puts the image of a listing into the guest.
func withImage(t *testing.T, source string) func(*machine) {
	t.Helper()
	return func(m *machine) {
		listing := filepath.Join(t.TempDir(), "image.lms")
		if err := os.WriteFile(listing, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		image, _ := made(t, "asm", listing)
		m.add(t, "/image.lmb", image)
	}
}

func TestGuestFileCutShortWhileItIsMappedIsAnInputOutputError(t *testing.T) {
	t.Parallel()
	_, console := inside(t, withImage(t, `lightmetal 1
target ivshmem 1af4:1110 bar2 1MiB
window m bar2 offset 0x0 size 1MiB
main:
  write.4 m+0x0 0x1
  poll.4 m+0x0 == 0x2 within 600s every 1ms
  copy.8 m+0x1000 <- pattern 0x5 size 65536
safe:
  write.4 m+0x4 0x5afe
`), "truncate")
	const says = "input/output error: main, command 2: copy.8 w0+0x1000: the image file was cut " +
		"short"
	if !strings.Contains(console, says) || !strings.Contains(console, "sequence safe: done") {
		t.Error(console)
	}
}

func TestGuestMemoryDecodingOffIsADeviceThatIsGone(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, console := inside(t, withImage(t, `lightmetal 1
target edu 1234:11e8 bar0 1MiB
window r bar0 offset 0x0 size 1MiB
main:
  write.4 r+0x4 0x1
  poll.4 r+0x20 & 0x80 == 0x80 within 600s every 1ms
safe:
  write.4 r+0x4 0x2
again:
  expect.4 r+0x0 == 0x010000ed
`), "decoding-off")
	if !strings.Contains(console, "device gone: command 1") || time.Since(began) > 10*time.Minute {
		t.Error(console)
	}
}

func TestGuestBusErrorOfADeviceIsABusFault(t *testing.T) {
	t.Parallel()
	inside(t, withImage(t, `lightmetal 1
target unknown ffee:ffee bar0 1MiB
rule all bar0 widths 1 4
window r bar0 offset 0x0 size 1MiB
main:
  expect.4 r+0x0 == 0x010000ed
narrow-load:
  expect.1 r+0x0 == 0xed
narrow-store:
  write.1 r+0x4 0x1
safe:
  expect.4 r+0x0 == 0x010000ed
`), "narrow")
}

func TestGuestKillsASealedProcessThatWouldTakeSomething(t *testing.T) {
	t.Parallel()
	inside(t, withImage(t, `lightmetal 1
target edu 1234:11e8 bar0 1MiB
window r bar0 offset 0x0 size 1MiB
main:
  expect.4 r+0x0 == 0x010000ed
`), "break-seal")
}

// watched boots Debian's standard kernel, which unlike the cloud kernel has a
// driver for the watchdog that QEMU models, and gives what that did.
func watched(t *testing.T, args ...string) (events, console string, wasReset bool) {
	t.Helper()
	var monitor monitor
	_, console, exit, err := insideRun(t, func(m *machine) {
		m.kernel = tool(t, "LM_GUEST_FULL_KERNEL")
		modules := tool(t, "LM_GUEST_FULL_MODULES")
		for _, name := range []string{"watchdog.ko", "i6300esb.ko"} {
			if path := filepath.Join(modules, name); fileExists(path) {
				m.add(t, "/modules/"+name, path)
			}
		}
		m.extra = append([]string{"-device", "i6300esb", "-action", "watchdog=reset"},
			monitor.start(t, m.dir)...)
		withImage(t, `lightmetal 1
target edu 1234:11e8 bar0 1MiB
window r bar0 offset 0x0 size 1MiB
hang:
  poll.4 r+0x0 == 0x1 within 600s every 10ms
frame:
  write.4 r+0x4 0x1
  delay 500ms
fail:
  expect.4 r+0x0 == 0x1
`)(m)
	}, "watchdog", args...)
	if err == nil && exit != 0 {
		t.Fatalf("exit status %d; the console says:\n%s", exit, console)
	}
	return monitor.events(t), console, err != nil
}

// monitor is QEMU's, which tells of events: pipes to it and from it, held open
// here so that nothing in them is lost.
type monitor struct{ to, from *os.File }

func (m *monitor) start(t *testing.T, dir string) (qemuArgs []string) {
	t.Helper()
	path := filepath.Join(dir, "monitor")
	pipe := func(name string) *os.File {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	m.to, m.from = pipe(path+".in"), pipe(path+".out")
	// It tells nothing to who has not greeted it.
	if _, err := m.to.WriteString(`{"execute": "qmp_capabilities"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	return []string{"-chardev", "pipe,id=monitor,path=" + escape(path), "-mon",
		"chardev=monitor,mode=control"}
}

// events is all that it told, once QEMU has ended.
func (m *monitor) events(t *testing.T) string {
	t.Helper()
	const end = "end of events\n"
	if _, err := m.from.WriteString(end); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for chunk := make([]byte, 4096); !bytes.HasSuffix(text, []byte(end)); {
		n, err := m.from.Read(chunk)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, chunk[:n]...)
	}
	return string(text)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var bitten = regexp.MustCompile(`"event": "WATCHDOG", "data": \{"action": "reset"\}`)

func TestGuestWatchdogResetsTheMachineWhenAReplayHangsOrFailsOrDies(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"hang"}, {"fail"}, {"kill"}} {
		events, console, wasReset := watched(t, args...)
		if !bitten.MatchString(events) || !wasReset ||
			!strings.Contains(console, "inside: waiting to be reset") ||
			strings.Contains(console, "still here") {
			t.Errorf("%v: QEMU's events: %s; the console says:\n%s", args, events, console)
		}
	}
}

func TestGuestWatchdogIsFedWhileFramesCompleteAndStoppedAtTheEnd(t *testing.T) {
	t.Parallel()
	events, console, wasReset := watched(t, "frames")
	if !strings.Contains(events, `"event": "SHUTDOWN"`) || strings.Contains(events, "WATCHDOG") ||
		wasReset {
		t.Errorf("QEMU's events: %s; the console says:\n%s", events, console)
	}
}
