package importer

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer/traces"
)

// The registers of a flushDevice, in those of edu.
const (
	flushID   = 0x38 // counts the flushes, from another number in each run
	jobFlush  = 0x3c // must have the number that flushID returned when the job was queued
	jobStart  = 0x08
	jobStatus = 0x40 // bit 1: a job is done
	jobClear  = 0x64 // clears bits of jobStatus
)

// flushDevice is a jobDevice whose jobs need a number from flushID. Like a GPU, it does not finish
// a job whose number it never returned, or has used twice.
type flushDevice struct {
	jobDevice
	count, number uint64
	open          []uint64 // returned, and not used by a job
}

func (d *flushDevice) Load(at mock.Place, width uint8) (uint64, hal.Code) {
	if at.Address == flushID {
		d.count += 1 + d.count%3
		d.open = append(d.open, d.count)
		return d.count, hal.OK
	}
	return d.jobDevice.Load(at, width)
}

func (d *flushDevice) Store(at mock.Place, width uint8, value uint64) hal.Code {
	switch {
	case at.Address == jobFlush:
		d.number = value
	case at.Address == jobStart && (len(d.open) == 0 || d.open[0] != d.number):
		return hal.OK
	case at.Address == jobStart:
		d.open = d.open[1:]
	}
	return d.jobDevice.Store(at, width, value)
}

// flushTrace returns what a driver does that queues jobs, and starts one when the one before is
// done. It sleeps until an interrupt. The recorder is on the device with a first number.
func flushTrace(t *testing.T, first uint64, queues ...int) string {
	t.Helper()
	d := &flushDevice{count: first}
	now, list := 1.0, []string{}
	access := func(op string, offset, value uint64) uint64 {
		d.Advance(1000)
		if op == "R" {
			value, _ = d.Load(mock.Place{Address: offset}, 4)
		} else {
			d.Store(mock.Place{Address: offset}, 4, value)
		}
		now += 1e-6
		list = append(list, fmt.Sprintf("@%.6f %s 4 %#x %#x", now, op, offset, value))
		return value
	}
	for _, jobs := range queues {
		var numbers []uint64
		for range jobs {
			numbers = append(numbers, access("R", flushID, 0))
			access("W", 0x20, 7)
		}
		for _, number := range numbers {
			access("R", 0x04, 0)
			access("W", jobFlush, number)
			access("W", jobStart, 1)
			now += jobNs * 1e-9
			d.Advance(jobNs)
			if status := access("R", jobStatus, 0); status != 2 {
				t.Fatalf("the recorded job has the status %d", status)
			}
			access("W", jobClear, 2)
		}
	}
	return mmiotrace(eduDevice, list...)
}

// proposedFlags sets the flags that a report proposes: --wait and --carry.
func proposedFlags(t *testing.T, o *Options, report *Report) (count int) {
	t.Helper()
	for _, flag := range regexp.MustCompile(`--(wait|carry) (\S+),`).FindAllStringSubmatch(
		report.String(), -1) {
		setFlags(t, o, []string{"--" + flag[1] + " " + flag[2]})
		count++
	}
	return count
}

// TestImageWithTheProposedFlagsReplaysOnADeviceWithOtherNumbers: each replay is on a device that
// counts from another number. With only one of the flags, replays fail.
func TestImageWithTheProposedFlagsReplaysOnADeviceWithOtherNumbers(t *testing.T) {
	for _, queues := range [][]int{{1, 1, 1}, {1, 3, 2}, {40}} {
		t.Run(fmt.Sprint(queues), func(t *testing.T) {
			text := flushTrace(t, 0x1000, queues...)
			run := func(o Options, first uint64) hal.Code {
				image, _ := mustImport(t, text, o)
				device := mock.NewWith(&boards.Edu, &flushDevice{count: first})
				return loadOn(t, image, runtime.AnyTLBWindow, device).Run(0).Code
			}
			_, report := mustImport(t, text, Options{})
			flags := Options{}
			if n := proposedFlags(t, &flags, report); n != 2 {
				t.Fatalf("%d flags are proposed, want 2:\n%s", n, report)
			}
			for first := uint64(0x1000); first < 0x2000; first += 0x555 {
				waits, carries := Options{Wait: flags.Wait}, Options{Carry: flags.Carry}
				if code := run(waits, first+1); code != hal.ExpectFailed {
					t.Errorf("with --wait, from %#x: %v, want %v", first+1, code, hal.ExpectFailed)
				}
				if code := run(carries, first); code != hal.ExpectFailed {
					t.Errorf("with --carry, from %#x: %v, want %v", first, code, hal.ExpectFailed)
				}
				if code := run(flags, first+1); code != hal.OK {
					t.Errorf("with both flags, from %#x: %v, want %v", first+1, code, hal.OK)
				}
			}
			_, report = mustImport(t, text, flags)
			if strings.Contains(report.String(), "--carry") {
				t.Errorf("with --carry, import proposes\n%s", report)
			}
			jobs := 0
			for _, n := range queues {
				jobs += n
			}
			if want := fmt.Sprintf("; %d waits; %d carried", jobs, jobs); !strings.HasSuffix(
				report.Verdict, want) {
				t.Errorf("the verdict is %q, want ... %q", report.Verdict, want)
			}
		})
	}
}

// timedPlayback answers as recorded, but at each store's time: loads of the register `late` return
// 0 until the recorded time since the store has passed, and loads of `varies` return other numbers,
// of which the stores to `carried` must have the right one.
type timedPlayback struct {
	accesses              []traces.Access
	next                  int // index of the next store
	ns                    int64
	late, varies, carried uint64
	answers               map[uint64][]traces.Access // by offset: loads before the next store
	numbers               map[uint64]uint64          // recorded numbers, by what was returned
	fault                 string
}

func (p *timedPlayback) Advance(ns int64) { p.ns += ns }

func (p *timedPlayback) begin(at int) {
	p.ns, p.answers = 0, map[uint64][]traces.Access{}
	start := p.accesses[max(at-1, 0)].Time
	for p.next = at; p.next < len(p.accesses); p.next++ {
		a := p.accesses[p.next]
		if a.Op == traces.OpStore {
			break
		}
		a.Time -= start
		p.answers[a.Offset] = append(p.answers[a.Offset], a)
	}
}

func (p *timedPlayback) Load(at mock.Place, _ uint8) (uint64, hal.Code) {
	list := p.answers[at.Address]
	switch {
	case len(list) == 0:
		p.fault = fmt.Sprintf("before line %d, there is no load of %#x", p.accesses[p.next].Line,
			at.Address)
		return 0, hal.Refused
	case at.Address == p.late && p.ns < list[0].Time:
		return 0, hal.OK
	case len(list) > 1:
		p.answers[at.Address] = list[1:]
	}
	if at.Address != p.varies {
		return list[0].Value, hal.OK
	}
	number := list[0].Value ^ uint64(rand.Uint32()&^0xffff)
	p.numbers[number] = list[0].Value
	return number, hal.OK
}

func (p *timedPlayback) Store(at mock.Place, _ uint8, value uint64) hal.Code {
	if at.Address == p.carried {
		if n, known := p.numbers[value]; known {
			value = n
		}
	}
	if p.next == len(p.accesses) || p.accesses[p.next].Offset != at.Address ||
		p.accesses[p.next].Value != value {
		p.fault = fmt.Sprintf("store of %#x to %#x", value, at.Address)
		return hal.Refused
	}
	p.begin(p.next + 1)
	return hal.OK
}

func (p *timedPlayback) Reason() string { return p.fault }

// TestImageReplaysOnAPlaybackWithTime: the same recording, on a device that only answers as
// recorded.
func TestImageReplaysOnAPlaybackWithTime(t *testing.T) {
	text := flushTrace(t, 0xfff000, 1, 2, 12)
	checkOnTimedPlayback(t, text, jobStatus, flushID, jobFlush)
}

func checkOnTimedPlayback(t *testing.T, text string, late, varies, carried uint64) {
	t.Helper()
	run := func(o Options) (hal.Code, string, *Report) {
		o.Board = &boards.Edu
		_, list, err := traces.Read(strings.NewReader(text), traces.Source{From: FromMmiotrace,
			Board: o.Board})
		if err != nil {
			t.Fatal(err)
		}
		image, report := mustImport(t, text, o)
		player := &timedPlayback{accesses: list, late: late, varies: varies, carried: carried,
			numbers: map[uint64]uint64{}}
		player.begin(0)
		device := mock.NewWith(o.Board, player)
		result := loadOn(t, image, runtime.AnyTLBWindow, device).Run(0)
		if result.Code == hal.OK && player.next < len(list) {
			t.Errorf("the replay ended before line %d", list[player.next].Line)
		}
		return result.Code, fmt.Sprintf("%+v, %s", result, device.Refusal()), report
	}
	code, _, report := run(Options{})
	if code != hal.ExpectFailed {
		t.Errorf("without flags: %v, want %v", code, hal.ExpectFailed)
	}
	flags := Options{}
	proposedFlags(t, &flags, report)
	if code, text, _ := run(flags); code != hal.OK {
		t.Errorf("with the proposed flags: %s", text)
	}
}
