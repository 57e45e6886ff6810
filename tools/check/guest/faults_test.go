package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// addFaults puts in what the scenarios of faults.txt replay.
func (m *machine) addFaults(t *testing.T) {
	t.Helper()
	m.add(t, "/lm", static(t, "lightmetal/tools/lm"))
	m.addListing(t, "edu-factorial", "")
	m.files["/images/factorial.lmb"] = m.files["/images/edu-factorial.lmb"]
	m.files["/endless.conf"] = []byte("image /images/factorial.lmb\nloop forever\n")
	m.addImage(t, "cut-short", `lightmetal 1
device ivshmem 1af4:1110 bar2 1MiB
window m bar2 offset 0x0 size 1MiB
main:
  write.4 m+0x80000 0x1
  poll.4 m+0x80000 == 0x2 within 600s every 1ms
  copy.8 m+0x81000 <- pattern 0x5 size 65536
safe:
  write.4 m+0x80004 0x5afe
`)
	m.addImage(t, "polls", `lightmetal 1
device edu 1234:11e8 bar0 1MiB
window r bar0 offset 0x0 size 1MiB
main:
  write.4 r+0x4 0x1
  poll.4 r+0x20 & 0x80 == 0x80 within 600s every 1ms
safe:
  write.4 r+0x4 0x2
again:
  expect.4 r+0x0 == 0x010000ed
`)
	m.addImage(t, "narrow", `lightmetal 1
device unknown ffee:ffee bar0 1MiB
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
`)
}

// watched boots Debian's standard kernel, which unlike the cloud kernel has a
// driver for the watchdog that QEMU models, and gives the events of that.
func watched(t *testing.T, kind string) (r *scenarioRun, events string) {
	t.Helper()
	var monitor monitor
	r = boots(t, kind, "pci", func(m *machine) {
		m.kernel = tool(t, "LM_GUEST_FULL_KERNEL")
		modules := tool(t, "LM_GUEST_FULL_MODULES")
		for _, name := range []string{"watchdog.ko", "i6300esb.ko"} {
			if path := filepath.Join(modules, name); fileExists(path) {
				m.add(t, "/modules/"+name, path)
			}
		}
		m.extra = append([]string{"-device", "i6300esb", "-action", "watchdog=reset"},
			monitor.start(t, m.dir)...)
		m.addImage(t, "watched", `lightmetal 1
device edu 1234:11e8 bar0 1MiB
window r bar0 offset 0x0 size 1MiB
hang:
  poll.4 r+0x0 == 0x1 within 600s every 10ms
frame:
  write.4 r+0x4 0x1
  delay 500ms
fail:
  expect.4 r+0x0 == 0x1
`)
	})
	return r, monitor.events(t)
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

// TestWatchdogResetsTheMachine when a replay hangs, fails or is killed, and not before: frames
// that take longer than its timeout in all complete first, and it is stopped after them.
func TestWatchdogResetsTheMachine(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"watchdog-hang", "watchdog-fail", "watchdog-kill"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r, events := watched(t, kind)
			for _, s := range r.scenarios[:len(r.scenarios)-1] {
				if !r.passed[s.Name] {
					t.Errorf("%s did not pass", s.Name)
				}
			}
			last := r.scenarios[len(r.scenarios)-1].Name
			if !bitten.MatchString(events) || r.err == nil || r.passed[last] ||
				!strings.HasSuffix(r.said[last], "waiting to be reset\n") {
				t.Errorf("%s: QEMU's events: %s; the console says:\n%s", last, events, r.console)
			}
		})
	}
}
