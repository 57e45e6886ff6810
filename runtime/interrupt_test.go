package runtime_test

import (
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
)

// interruptingDevice is a mock that sends interrupts at these times of its clock, in ns. With the
// interrupt at doneAt, it sets the register that the image polls.
type interruptingDevice struct {
	*mock.Device
	interrupts []int64
	doneAt     int64
	waits      int
}

func (d *interruptingDevice) AwaitInterrupt(nanoseconds int64) bool {
	d.waits++
	end := d.Now() + nanoseconds
	if len(d.interrupts) == 0 || d.interrupts[0] >= end {
		d.Sleep(nanoseconds)
		return false
	}
	d.Sleep(max(0, d.interrupts[0]-d.Now()))
	d.interrupts = d.interrupts[1:]
	d.finish()
	return true
}

func (d *interruptingDevice) Sleep(nanoseconds int64) {
	d.Device.Sleep(nanoseconds)
	d.finish()
}

func (d *interruptingDevice) finish() {
	if d.Now() >= d.doneAt {
		window := fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Size: 8}
		a, _ := d.Device.Map(window)
		a.Port.Store(0, 4, 1)
	}
}

// TestInterruptEndsThePauseOfAPoll, and nothing else: a lost interrupt costs at most the interval,
// an interrupt of another event costs a load, and no wait ends later or fails sooner.
func TestInterruptEndsThePauseOfAPoll(t *testing.T) {
	const ms, never = 1_000_000, 1 << 62
	spurious := make([]int64, 10_000)
	for i := range spurious {
		spurious[i] = int64(i) * 10_000
	}
	for name, test := range map[string]struct {
		interrupts []int64
		doneAt     int64
		vectors    string
		body       string
		took       int64
		code       hal.Code
	}{
		"an interrupt": {[]int64{20 * ms}, 20 * ms, " msix 1",
			"poll.4 m+0x0 == 0x1 within 1s every 65ms", 20 * ms, hal.OK},
		"an interrupt before the wait": {[]int64{-1, 20 * ms}, 20 * ms, " msix 1",
			"poll.4 m+0x0 == 0x1 within 1s every 65ms", 20 * ms, hal.OK},
		"a lost interrupt": {nil, 20 * ms, " msix 1",
			"poll.4 m+0x0 == 0x1 within 1s every 65ms", 65 * ms, hal.OK},
		"no vectors": {[]int64{20 * ms}, 20 * ms, "",
			"poll.4 m+0x0 == 0x1 within 1s every 65ms", 65 * ms, hal.OK},
		"10,000 spurious interrupts": {spurious, 70 * ms, " msix 1",
			"poll.4 m+0x0 == 0x1 within 1s every 65ms", 70 * ms, hal.OK},
		"spurious interrupts until the deadline": {spurious, never, " msix 1",
			"poll.4 m+0x0 == 0x1 within 80ms every 65ms", 80 * ms, hal.DeadlinePassed},
		"a delay": {[]int64{20 * ms}, 20 * ms, " msix 1", "delay 90ms", 90 * ms, hal.OK},
	} {
		t.Run(name, func(t *testing.T) {
			source := "lightmetal 1\ndevice ivshmem 1af4:1110 bar2 0x100000" + test.vectors +
				"\nwindow m bar2 offset 0x0 size 0x100000\nmain:\n  " + test.body + "\n"
			d := &interruptingDevice{Device: mock.New(&boards.Ivshmem),
				interrupts: test.interrupts, doneAt: test.doneAt}
			r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, d)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			run(t, r, test.code)
			if took := d.Now(); took < test.took || took >= test.took+ms {
				t.Errorf("the run took %d ns, want %d", took, test.took)
			}
			if d.waits > len(test.interrupts)+20 {
				t.Errorf("%d waits with %d interrupts", d.waits, len(test.interrupts))
			}
		})
	}
}
