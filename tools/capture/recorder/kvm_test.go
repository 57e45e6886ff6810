//go:build linux && (amd64 || arm64)

package recorder

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// kvmVariable is the environment variable of a recorder that takes another file for KVM.
const kvmVariable = "LM_RECORDER_KVM"

// TestFlagsThatStopAGuestOfKVMAreRejected: the card of the program stands for KVM.
func TestFlagsThatStopAGuestOfKVMAreRejected(t *testing.T) {
	program := compileProgram(t, "testdata/sleeps.c", "-O2")
	for flag, o := range map[string]Options{"--protect all": {Protect: ProtectAll},
		"--watch": {Watch: []Range{{0, ^uint64(0)}}}} {
		path := createCard(t)
		c, _ := recorderCommand(t, []string{kvmVariable + "=" + path}, o, path, program)
		r := runCommand(t, c, path)
		if r.exit != 128+int(unix.SIGKILL) || !strings.Contains(r.messages, "memory of "+flag) ||
			!strings.Contains(r.messages, "stopped: "+flag) || r.card[0] != 0 {
			t.Errorf("%s: exit status %d, messages %s; want that the program is ended at once, "+
				"and the reason", flag, r.exit, r.messages)
		}
	}
}

// TestMemoryOfAProgramWithKVMIsNotProtected: without KVM, the same memory in huge pages is.
func TestMemoryOfAProgramWithKVMIsNotProtected(t *testing.T) {
	reserveHugePages(t)
	r := recordCrowdedWith(t, []string{kvmVariable + "=/memfd:crowded (deleted)"}, Options{}, true)
	const event = "uses KVM, so lm does not protect its memory"
	if list := r.eventLines(); len(list) != 2 || !strings.Contains(list[0], event) ||
		!strings.Contains(list[1], "because the program "+event) {
		t.Errorf("events %q, want two that contain %q", list, event)
	}
	if strings.Contains(r.messages, "uses KVM (") {
		t.Errorf("the recorder rejects default flags: %s", r.messages)
	}
}

func TestKernelThatDoesNotTrackWritesIsReportedWhenKVMIsOpened(t *testing.T) {
	program, path := compileProgram(t, "testdata/sleeps.c", "-O2"), createCard(t)
	c, out := recorderCommand(t, []string{kvmVariable + "=" + path, requestVariable + "=0x3b6e"},
		Options{IgnoreTracking: true}, path, program)
	r := runCommand(t, c, path)
	r.readRecord(out)
	const remedy = "to prevent this, record on such a kernel"
	if list := r.eventLines(); len(list) != 2 || !strings.Contains(list[1], remedy) {
		t.Errorf("events %q, want a second one that contains %q", list, remedy)
	}
}

// TestWhatNoReplayMissesIsNotReported: a reset before the first access, and io_uring again.
func TestWhatNoReplayMissesIsNotReported(t *testing.T) {
	r, self, text := newTestRecording(t, Options{})
	r.reportedOnce = map[string]bool{}
	r.vfioFDs = []vfioFD{{self.process, 1000, "0000:00:01.0"}}
	reset := &call{number: unix.SYS_IOCTL, arguments: [6]uint64{1000}}
	for _, r.accesses = range []uint64{0, 1} {
		r.reportReset(self, reset, 0)
		r.reportBypass(self, &call{number: unix.SYS_IO_URING_SETUP})
	}
	got := text()
	if !strings.HasPrefix(got, "LMRECORD 2\nNOTE process ") ||
		strings.Count(got, "EVENT ") != 2 || strings.Count(got, "uses io_uring") != 1 ||
		strings.Count(got, "resets device 0000:00:01.0: a replay does not repeat") != 1 {
		t.Errorf("want a NOTE line and two EVENT lines:\n%s", got)
	}
}
