package importer

import (
	"fmt"
	"regexp"
	"slices"
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

// TestImageWithTheProposedWaitsReplaysOnADeviceThatNeedsTime: without them, the first load after
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

// TestLoadBehindAPauseWaits: without it, the first load after a job of 5 ms fails on a device of
// which lm knows no register.
func TestLoadBehindAPauseWaits(t *testing.T) {
	unknown := &boards.Board{Name: "generic", BarSizes: [6]uint64{0x20000},
		Rules: []boards.AccessRule{{Last: 0x1ffff, Widths: 4, Name: "registers"}}}
	o := Options{From: FromRecord, Board: unknown, BarSizesAreLimits: true}
	text := func(pause string, between ...string) string {
		return recordText(slices.Concat([]string{"DEVICE 0 8086 10d3 a", "BAR 0 0 0 0 20000",
			"W 0 20 4 80000000", "W 0 8 4 05000000", "CLK " + pause}, between, []string{
			"R 0 24 4 03000000", "R 0 24 4 03000000", "W 0 64 4 01000000", "R 0 8 4 78000000"}))
	}
	const awaited = `write bar0+0x20 w4 0x80
write bar0+0x8 w4 0x5
poll bar0+0x24 w4 0x3 mask 0xffffffff for 1000000 us
expect bar0+0x24 w4 0x3 mask 0xffffffff
write bar0+0x64 w4 0x1
expect bar0+0x8 w4 0x78 mask 0xffffffff
`
	at := strings.Replace(awaited, "poll bar0+0x24 w4 0x3 mask 0xffffffff for 1000000 us",
		"expect bar0+0x24 w4 0x3 mask 0xffffffff", 1)
	for pause, want := range map[string]string{"5000000": awaited, "1000000": awaited,
		"999999":     at,
		"4000000000": strings.Replace(awaited, "1000000 us", "10000000 us", 1)} {
		image, report := mustImport(t, text(pause), o)
		checkCommands(t, image, want)
		if want != at {
			wantSummary(t, report, "pauses", "1 load behind pauses became 1 poll")
		}
		// The program did something else meanwhile, so the pause of 4 s is named, too.
		got := strings.Contains(report.String(), "--keep-pauses")
		if got != (pause == "4000000000") {
			t.Errorf("pause of %s ns: names the pause: %v", pause, got)
		}
	}
	o.Without = []string{"fold"}
	image, _ := mustImport(t, text("5000000"), o)
	checkCommands(t, image, at)
	o.Without = nil
	// Pauses that are usual are no waits, and those of more than 1,000 loads would wait an hour.
	var usual, many []string
	for range 6 {
		usual = append(usual, "CLK 2000000", "R 0 10 4 00000000")
	}
	for range 1001 {
		many = append(many, "CLK 5000000", "R 0 10 4 00000000", "W 0 8 4 05000000",
			"W 0 8 4 05000000", "W 0 8 4 05000000")
	}
	for _, before := range [][]string{usual, many} {
		image, report := mustImport(t, text("5000000", before...), o)
		if list := imageText(image); strings.Contains(list, "poll") {
			t.Errorf("polls behind usual pauses:\n%.2000s", list)
		} else if len(before) > 12 && !strings.Contains(report.String(), "use --wait bar0+0x10") {
			t.Errorf("no proposal:\n%s", report)
		}
	}
	image, report := mustImport(t, text("5000000", many[5:]...), o)
	if n := strings.Count(imageText(image), "poll"); n != 1000 ||
		strings.Contains(report.String(), "use --wait") {
		t.Errorf("%d polls, want 1,000, and no proposal:\n%s", n, report)
	}
}

// TestPollOfADeviceWithVectorsMaySleep: an interrupt ends the pause of a poll from 1 ms on.
func TestPollOfADeviceWithVectorsMaySleep(t *testing.T) {
	o := Options{From: FromRecord, Board: &boards.Edu}
	list := func(vectors string) string {
		return importedListing(t, withMSIX(vectors, "MEM 10000 1000", "W 0 8 4 01000000",
			"CLK 5000000", "R 0 90 4 03000000", "W 0 84 4 01000000", "IRQ 0 0",
			"R 0 90 4 02000000", "W 0 84 4 02000000", "IRQ 0 0", "HW 10000 8 4141414141414141",
			"W 0 84 4 03000000", "HW 10000 8 4242424242424242", "W 0 84 4 03000000",
			"R 0 20 4 80000000", "R 0 20 4 80000000", "CLK 5000000", "R 0 20 4 00000000"), o)
	}
	const want = `write.4 bar0+0x8 0x1
poll.4 bar0+0x90 == 0x3 within 1s every 1ms
write.4 bar0+0x84 0x1
poll.4 bar0+0x90 & 0x2 == 0x2 within 1s every 1ms
write.4 bar0+0x84 0x2
poll.4 host0+0x4 == 0x41414141 within 1s every 1ms
fence
expect.8 host0+0x0 == 0x4141414141414141
write.4 bar0+0x84 0x3
poll.4 host0+0x4 == 0x42424242 within 1s
fence
expect.8 host0+0x0 == 0x4242424242424242
write.4 bar0+0x84 0x3
poll.4 bar0+0x20 & 0x1 == 0x0 within 1s
`
	if got := list("CW 0 52 2 0280"); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at the end\n%s", got, want)
	}
	other := strings.ReplaceAll(want, " every 1ms", "")
	if got := list("CW 0 52 2 0200"); !strings.HasSuffix(got, other) {
		t.Errorf("without vectors: got\n%s\nwant at the end\n%s", got, other)
	}
}
