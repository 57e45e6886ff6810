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

// addFaultFiles adds the images and programs that the scenarios in faults.txt use.
func (m *machine) addFaultFiles(t *testing.T) {
	t.Helper()
	m.addFile(t, "/lm", buildForGuest(t, "lightmetal/tools/lm"))
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

// bootWithWatchdog boots a machine with a watchdog, runs the scenarios of a kind of machine, and
// returns QEMU's events. It uses Debian's standard kernel, because the cloud kernel has no driver
// for this watchdog.
func bootWithWatchdog(t *testing.T, kind string) (r *scenarioRun, events string) {
	t.Helper()
	var monitor qemuMonitor
	r = bootScenarios(t, kind, "pci", func(m *machine) {
		m.kernel = fromEnv(t, "LM_GUEST_FULL_KERNEL")
		modules := fromEnv(t, "LM_GUEST_FULL_MODULES")
		for _, name := range []string{"watchdog.ko", "i6300esb.ko"} {
			if path := filepath.Join(modules, name); fileExists(path) {
				m.addFile(t, "/modules/"+name, path)
			}
		}
		m.extraArgs = append([]string{"-device", "i6300esb", "-action", "watchdog=reset"},
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

// qemuMonitor is a connection to QEMU's monitor, which reports events. It consists of a pipe to the
// monitor and one from it. They stay open in this process, so that no data in them are lost.
type qemuMonitor struct{ to, from *os.File }

// start creates the pipes in a directory, and returns QEMU's arguments for the monitor.
func (m *qemuMonitor) start(t *testing.T, dir string) (qemuArgs []string) {
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
	// The monitor reports events only after this command.
	if _, err := m.to.WriteString(`{"execute": "qmp_capabilities"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	return []string{"-chardev", "pipe,id=monitor,path=" + escapeCommas(path), "-mon",
		"chardev=monitor,mode=control"}
}

// events returns the text that the monitor has sent. QEMU must have ended.
func (m *qemuMonitor) events(t *testing.T) string {
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

// fileExists reports whether a path exists.
func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// watchdogReset matches QEMU's event of a watchdog that resets the machine.
var watchdogReset = regexp.MustCompile(`"event": "WATCHDOG", "data": \{"action": "reset"\}`)

// TestWatchdogResetsTheMachine requires that the watchdog resets the machine if a replay hangs,
// fails or is killed. It must not do so earlier: before that, frames run that together take longer
// than the timeout, and lmrun stops the watchdog after them.
func TestWatchdogResetsTheMachine(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"watchdog-hang", "watchdog-fail", "watchdog-kill"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r, events := bootWithWatchdog(t, kind)
			for _, earlier := range r.scenarios[:len(r.scenarios)-1] {
				if !r.passed[earlier.Name] {
					t.Errorf("%s did not pass", earlier.Name)
				}
			}
			last := r.scenarios[len(r.scenarios)-1].Name
			if !watchdogReset.MatchString(events) || r.err == nil || r.passed[last] ||
				!strings.HasSuffix(r.output[last], "waiting to be reset\n") {
				t.Errorf("%s: the watchdog did not reset the machine while it waited: error %v, "+
					"QEMU's events: %s; the console:\n%s", last, r.err, events, r.console)
			}
		})
	}
}
