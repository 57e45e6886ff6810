package importer

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
)

// jobDevice starts a job by a store to 8, and sets bit 1 of its interrupt status 0x40 when the job
// is done. A store to 0x64 clears bits of the status. It has the registers of edu.
type jobDevice struct {
	status uint64
	left   int64 // nanoseconds
}

const jobNs = 900_000

func (d *jobDevice) Load(at mock.Place, _ uint8) (uint64, hal.Code) {
	if at.Address == 0x40 {
		return d.status, hal.OK
	}
	return 0, hal.OK
}

func (d *jobDevice) Store(at mock.Place, _ uint8, value uint64) hal.Code {
	switch at.Address {
	case 0x08:
		d.left = jobNs
	case 0x64:
		d.status &^= value
	}
	return hal.OK
}

func (d *jobDevice) Advance(ns int64) {
	if d.left > 0 {
		if d.left -= ns; d.left <= 0 {
			d.status |= 2
		}
	}
}

// jobTrace returns what a driver does that sleeps until an interrupt after it has started a job.
func jobTrace(jobs int) string {
	var list []string
	for i := range jobs {
		list = append(list, fmt.Sprintf("@%d.0 W 4 0x8 0x1", i+1),
			fmt.Sprintf("@%d.0009 R 4 0x40 0x2", i+1), "W 4 0x64 0x2", "R 4 0x4 0x0")
	}
	return mmiotrace(eduDevice, list...)
}

// runOnJobDevice returns the result of a replay on a fresh jobDevice.
func runOnJobDevice(t *testing.T, text string, o Options) (hal.Code, *Report) {
	t.Helper()
	image, report := mustImport(t, text, o)
	replay := loadOn(t, image, runtime.AnyTLBWindow, mock.NewWith(&boards.Edu, &jobDevice{}))
	return replay.Run(0).Code, report
}

// TestImageWithTheProposedWaitsReplaysOnADeviceThatNeedsTime: without them, the first load behind
// a job fails.
func TestImageWithTheProposedWaitsReplaysOnADeviceThatNeedsTime(t *testing.T) {
	o := Options{}
	code, report := runOnJobDevice(t, jobTrace(3), o)
	flag := regexp.MustCompile(`--wait (\S+),`).FindStringSubmatch(report.String())
	if code != hal.ExpectFailed || flag == nil {
		t.Fatalf("without a flag: %v, want %v and a proposal in:\n%s", code, hal.ExpectFailed,
			report)
	}
	o.Wait = []Range{mustRange(t, flag[1])}
	code, report = runOnJobDevice(t, jobTrace(3), o)
	if code != hal.OK || strings.Contains(report.String(), "--wait") {
		t.Errorf("with the proposed flag: %v, want %v and no proposal:\n%s", code, hal.OK, report)
	}
	wantSummary(t, report, "fold", "3 waits became 3 polls")
}

func TestLoadBehindAnInterruptWaits(t *testing.T) {
	lines := func(list ...string) string {
		return recordText(append([]string{"DEVICE 0 1234 11e8 a", "BAR 0 0 0 0 100000",
			"DEVICE 1 1234 11e9 b", "BAR 1 1 0 0 100"}, list...))
	}
	o := Options{From: FromRecord, Board: &boards.Edu, Device: "1234:11e8"}
	image, report := mustImport(t, lines("W 0 8 4 01000000", "CLK 5000", "IRQ 0 0", "CLK 5",
		"R 0 40 4 03000000", "R 0 40 4 03000000", "W 0 64 4 02000000", "IRQ 1 0",
		"R 0 40 4 01000000", "IRQ 0 0", "W 0 8 4 01000000", "R 0 40 4 01000000"), o)
	checkCommands(t, image, `
write bar0+0x8 w4 0x1
poll bar0+0x40 w4 0x2 mask 0x2 for 1000000 us
write bar0+0x64 w4 0x2
expect bar0+0x40 w4 0x1 mask 0xffffffff
write bar0+0x8 w4 0x1
expect bar0+0x40 w4 0x1 mask 0xffffffff
`)
	wantSummary(t, report, "fold", "1 wait became 1 poll")
	image, _ = mustImport(t, lines("R 0 40 4 01000000", "IRQ 0 0", "R 0 40 4 03000000",
		"W 0 64 4 02000000"), o)
	checkCommands(t, image, `
expect bar0+0x40 w4 0x1 mask 0xffffffff
poll bar0+0x40 w4 0x2 mask 0x2 for 1000000 us
write bar0+0x64 w4 0x2
`)
	summary, err := Summarize(strings.NewReader(lines("IRQ 0 0", "R 0 40 4 01000000")), o)
	if err != nil || !strings.Contains(summary.String(), "other: interrupts: 1\n") {
		t.Errorf("summary %v, error %v; want 1 interrupt", summary, err)
	}
}
