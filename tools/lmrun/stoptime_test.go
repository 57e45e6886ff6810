package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb/lmbtest"
	"lightmetal/tools/lmrun/args"
)

// stopDevice is a mock whose accesses and queries take what they are charged. The signal to stop
// arrives at stopNs by its clock.
type stopDevice struct {
	*mock.Device
	stopNs, stoppedNs int64
}

// endAt ends an access or a sleep that began at a time and takes some nanoseconds.
func (d *stopDevice) endAt(began, nanoseconds int64) {
	d.Device.Sleep(began + nanoseconds - d.Device.Now())
	if d.stoppedNs == 0 && d.Device.Now() >= d.stopNs {
		d.stoppedNs = d.stopNs
		if began > d.stopNs {
			d.stoppedNs = began
		}
		stopRequested.Store(1)
	}
}

func (d *stopDevice) Sleep(nanoseconds int64) { d.endAt(d.Now(), nanoseconds) }

func (d *stopDevice) Alive() bool {
	d.endAt(d.Now(), 10_000)
	return d.Device.Alive()
}

func (d *stopDevice) Diagnose() hal.Code {
	d.endAt(d.Now(), 10_000)
	return d.Device.Diagnose()
}

func (*stopDevice) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (*stopDevice) SetBusMaster(bool) error                          { return nil }

func (d *stopDevice) Map(w fbs.Window) (hal.Aperture, error) {
	a, err := d.Device.Map(w)
	return hal.NewAperture(&stopPort{d, a.Port}, a.Size, a.TLBWindow), err
}

// stopPort is a window of a stopDevice.
type stopPort struct {
	device *stopDevice
	hal.Port
}

func (p *stopPort) Load(offset uint64, width uint8) (uint64, hal.Code) {
	began := p.device.Now()
	value, code := p.Port.Load(offset, width)
	p.device.endAt(began, 1000)
	return value, code
}

func (p *stopPort) Store(offset uint64, width uint8, value uint64) hal.Code {
	began := p.device.Now()
	code := p.Port.Store(offset, width, value)
	p.device.endAt(began, 1000)
	return code
}

// randomCommands returns the commands of a sequence. Some of them take longer than a work budget,
// or than the time that a run has after a signal.
func randomCommands(random *rand.Rand) (text string) {
	for range random.IntN(10) {
		width, size := 1<<random.IntN(4), 8*(1+random.IntN(2000))
		text += strings.Repeat([]string{
			fmt.Sprintf("  copy.%d m+0x0 <- i[0:%d]\n", width, size),
			fmt.Sprintf("  copy.%d o[0:%d] <- m+0x0\n", width, size),
			fmt.Sprintf("  copy.%d m+0x1 <- i[3:%d] bulk\n", width, size),
			fmt.Sprintf("  fill.%d m+0x0 <- 0x0 size %d\n", width, size),
			fmt.Sprintf("  write.%d m+0x0 0x1 mask 0x1\n", width),
			fmt.Sprintf("  expect.%d m+0x0 == 0x77 else ignore\n", width),
			fmt.Sprintf("  poll.4 m+0x0 == 0x77 within %dus else ignore\n", 1+random.IntN(50_000)),
			fmt.Sprintf("  delay %dms\n", 1+random.IntN(4000)),
			"  call callee\n",
		}[random.IntN(9)], 1+random.IntN(3))
	}
	if random.IntN(4) == 0 {
		text += "  expect.4 m+0x0 == 0x77\n"
	}
	return text
}

// TestReportedStopTimeIsNeverExceeded stops lmrun at random moments of random images.
func TestReportedStopTimeIsNeverExceeded(t *testing.T) {
	defer stopRequested.Store(0)
	stopped, images := 0, effort.Cases(50, 200, 1000)
	for seed := range uint64(images) {
		random := rand.New(rand.NewPCG(seed, seed))
		source := "lightmetal 1\ntarget ivshmem 1af4:1110 bar2 0x100000\n" +
			"window m bar2 offset 0x0 size 0x100000\nwindow h host size 4KiB\n" +
			"tensor i input uint8[16000]\ntensor o output uint8[16000]\n"
		for _, name := range []string{"main", "before", "after", "safe"} {
			source += name + ":\n  delay 1ms\n" + randomCommands(random)
		}
		source += "callee:\n  fill.1 m+0x0 <- 0x0 size 5000\n  delay 1s\n" +
			"others:\n  copy.8 o[:] <- m+0x0\n  copy.8 m+0x0 <- i[:]\n"
		line := []string{"-loop", "forever", "-before", "before", "-after", "after", "-deadline",
			"30ms"}[:[]int{2, 4, 6, 8}[random.IntN(4)]]
		o, err := args.Parse(append(line, "x.lmb"))
		if err != nil {
			t.Fatal(err)
		}
		view := lmbtest.View(t, lmbtest.File(t, source))
		device := &stopDevice{mock.New(&boards.Ivshmem),
			random.Int64N(1 << (20 + random.IntN(14))), 0}
		r, err := runtime.Load(view, runtime.AnyTLBWindow, device)
		if err != nil {
			t.Fatal(err)
		}
		clear(r.Input(0))
		stopRequested.Store(0)
		f, err := planRuns(view, o)
		if err == nil {
			f.setReplay(r, device)
			err = f.openFiles()
		}
		if err != nil {
			t.Fatal(err)
		}
		end := f.runAndCommit(o.RunCount)
		if device.stoppedNs != 0 {
			stopped++
		}
		took := (device.Now() - device.stoppedNs) / 1000
		if most := int64(f.maxStopTimeUs(view)); device.stoppedNs != 0 && took > most {
			t.Errorf("seed %d, %v: ended %d us after the signal, reported %d; %+v", seed, line,
				took, most, end)
		}
		r.Close()
	}
	if stopped < images/2 {
		t.Errorf("%d of %d runs were stopped, want more than half", stopped, images)
	}
}
