package main

import "testing"

func TestFirmwareInCDrivesItsDevicesFrameByFrame(t *testing.T) {
	t.Parallel()
	h := newHostRun(t, nil, "")
	if err := h.bootFirmware(h.expand([]string{"0", "firmware: edu frame 12: 12! = 479001600\n",
		"/edu.lmb=$root/testdata/images/edu-factorial.lmb",
		"/twoop.lmb=$root/testdata/images/wh.twoop.lmb"})); err != nil {
		t.Fatal(err)
	}
	if err := h.requirePrinted([]string{"firmware: edu: 1000 frames right\n",
		"firmware: twoop frame 9: right, sum "}); err != nil {
		t.Error(err)
	}
	// QEMU's trace must confirm what the firmware printed: each frame stores its number, then
	// loads only the status register, and then loads the result.
	frame, computing := 0, false
	for _, a := range h.boot.qemuTrace(t, edu) {
		switch {
		case a.store && a.offset == 8 && !computing:
			if a.value != uint64(frame%13) {
				t.Fatalf("frame %d stores the number %d, want %d", frame, a.value, frame%13)
			}
			computing = true
		case !a.store && a.offset == 8 && computing:
			frame, computing = frame+1, false
		case !a.store && a.offset == 0x20 && computing:
		default:
			t.Fatalf("frame %d: unexpected access %+v", frame, a)
		}
	}
	if frame != 1000 || computing {
		t.Errorf("QEMU traced %d frames, want 1000", frame)
	}
}
