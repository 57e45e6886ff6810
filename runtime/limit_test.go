package runtime_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/check/effort"
)

const safeListing = "safe:\n  write.4 m+0x40 0x5afe\n"

// runWithLimit runs a sequence with a limit, checks the code, and that a failed run executes safe
// and disables the replay. It returns the time that the run took by the clock of the device.
func runWithLimit(t *testing.T, limitUs int64, want hal.Code, body string) (tookNs int64,
	safeRan bool) {
	t.Helper()
	r, device := loadOnMock(t, "main:\n"+body+safeListing)
	r.SetLimit(limitUs * 1000)
	before := device.Now()
	result := run(t, r, want)
	tookNs = device.Now() - before
	if want != hal.OK {
		if again := r.Run(0); again.Code != hal.Disabled {
			t.Errorf("after %v the next run ends with %v, want %v", want, again.Code, hal.Disabled)
		}
		if got := readMemory(t, device, 0x40, 2); got[0] != 0xfe || got[1] != 0x5a {
			t.Errorf("safe stored % x, want fe 5a", got)
		}
	}
	return tookNs, result.SafeRan
}

func TestRunThatExceedsItsLimitFailsAfterSafe(t *testing.T) {
	const busy = "  write.4 m+0x0 0x1\n  expect.4 m+0x0 == 0x1\n"
	for name, body := range map[string]string{
		"a poll":                      "  poll.4 m+0x0 == 0x1 within 1s every 10us\n",
		"a poll without interval":     "  poll.4 m+0x0 == 0x1 within 1s\n",
		"a poll that may fail":        "  poll.4 m+0x0 == 0x1 within 1s every 10us else ignore\n",
		"a poll with a long interval": "  poll.4 m+0x0 == 0x1 within 1s every 65ms\n",
		"a delay":                     "  delay 1s\n",
		"delays":                      strings.Repeat("  delay 30us\n", 1000),
		"short commands":              strings.Repeat(busy, 20_000),
		"stores alone":                strings.Repeat("  write.4 m+0x0 0x1\n", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			took, safeRan := runWithLimit(t, 100, hal.FrameLate, body)
			if !safeRan {
				t.Errorf("%s: safe did not run", name)
			}
			// A work budget allows 450 commands, which take 45 us by the clock of the mock.
			if most := int64(146_000); took > most {
				t.Errorf("%s: the run took %d ns, want at most %d", name, took, most)
			}
		})
	}
}

func TestLimitAppliesToEachRunSeparately(t *testing.T) {
	r, device := loadOnMock(t, "main:\n  delay 90us\n"+safeListing)
	r.SetLimit(100_000)
	for range 100 {
		run(t, r, hal.OK)
	}
	if device.Now() < 9_000_000 {
		t.Errorf("100 runs took %d ns, want at least 9 ms", device.Now())
	}
	r.SetLimit(50_000)
	run(t, r, hal.FrameLate)
}

func TestPollDeadlineWithinTheLimitIsThePollsOwn(t *testing.T) {
	runWithLimit(t, 1000, hal.DeadlinePassed, "  poll.4 m+0x0 == 0x1 within 100us every 10us\n")
	runWithLimit(t, 1000, hal.OK, "  poll.4 m+0x0 == 0x1 within 100us every 10us else ignore\n")
}

func TestLargestLimitDoesNotOverflow(t *testing.T) {
	r, device := loadOnMock(t, "main:\n  delay 90us\n"+safeListing)
	device.Sleep(1_000_000)
	r.SetLimit(math.MaxInt64)
	run(t, r, hal.OK)
}

func TestDMAFaultThatDelaysARunIsReportedInsteadOfTheLimit(t *testing.T) {
	const listing = ivshmemHead +
		"window h host size 4KiB\nmain:\n  poll.4 m+0x0 == 0x1 within 1s every 10us\n"
	for state, want := range map[hal.Code]hal.Code{hal.OK: hal.FrameLate,
		hal.DMAFault: hal.DMAFault} {
		t.Run(state.Error(), func(t *testing.T) {
			device := busMaster{
				Device: mock.New(&boards.Ivshmem), name: "ivshmem",
				calls: new([]string), state: state,
			}
			r, err := runtime.Load(view(t, listing), runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			r.SetLimit(100_000)
			run(t, r, want)
			r.Close()
		})
	}
}

func TestSafeHasNoLimit(t *testing.T) {
	r, device := loadOnMock(t, "main:\n  delay 1s\nsafe:\n  delay 5ms\n"+
		"  poll.4 m+0x0 == 0x1 within 5ms every 1ms else ignore\n  write.4 m+0x40 0x5afe\n")
	r.SetLimit(1000)
	if result := run(t, r, hal.FrameLate); result.SafeSequenceCode != hal.OK ||
		device.Now() < 10_000_000 {
		t.Errorf("run ends with %+v after %d ns, want a successful safe of at least 10 ms", result,
			device.Now())
	}
}

// minuteClockDevice is a mock whose clock advances a minute each time it is read.
type minuteClockDevice struct {
	*mock.Device
	readings *int64
}

func (d minuteClockDevice) Now() int64 {
	*d.readings++
	return *d.readings * 60e9
}

// TestRunWithoutALimitEndsByTheClock: a run ends after an hour by the clock, also if its commands
// are cheap and in called sequences.
func TestRunWithoutALimitEndsByTheClock(t *testing.T) {
	effort.SkipShort(t)
	for name, body := range map[string]string{
		"fences":             strings.Repeat("  fence\n", 400_000),
		"calls of one fence": strings.Repeat("  call one\n", 400_000) + "one:\n  fence\n",
		"calls of many fences": strings.Repeat("  call many\n", 200) + "many:\n" +
			strings.Repeat("  fence\n", 4000),
		"calls of nothing": strings.Repeat("  call none\n", 400_000) + "none:\n",
		"ignored polls":    strings.Repeat("  poll.4 m+0x0 == 0x1 within 1us else ignore\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			device := minuteClockDevice{mock.New(&boards.Ivshmem), new(int64)}
			source := ivshmemHead + "main:\n" + body + safeListing
			r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			result := run(t, r, hal.FrameLate)
			if !result.SafeRan || *device.readings > 70 {
				t.Errorf("%s: run ends with %+v after %d minutes, want safe within 70 minutes",
					name, result, *device.readings)
			}
			r.Close()
		})
	}
}

// TestTimeLimitOfTheImageEndsARun, also if SetLimit set a longer limit.
func TestTimeLimitOfTheImageEndsARun(t *testing.T) {
	v := view(t, ivshmemHead+"main:\n  delay 9s\n"+safeListing)
	v.TimeLimitUs = 10e6
	for _, limit := range []int64{0, 60e9} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			device := minuteClockDevice{mock.New(&boards.Ivshmem), new(int64)}
			r, err := runtime.Load(v, runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			r.SetLimit(limit)
			run(t, r, hal.FrameLate)
			r.Close()
		})
	}
}

// stopRequestDevice is a mock that sets the stop flag during the first sleep that ends at or after
// stopAt.
type stopRequestDevice struct {
	*mock.Device
	stopAt int64 // by the clock of the device, in ns
	flag   *atomic.Uint32
}

func (d stopRequestDevice) Sleep(nanoseconds int64) {
	if d.Device.Sleep(nanoseconds); d.Device.Now() >= d.stopAt {
		d.flag.Store(1)
	}
}

func TestRequestToStopEndsARunAfterTheGrace(t *testing.T) {
	const s = 1_000_000_000
	delays := strings.Repeat("  delay 10s\n", 300)
	for name, test := range map[string]struct {
		body  string
		limit int64 // in ns, 0 for none
		code  hal.Code
		took  int64 // with safe, in ns; up to half a second more is accepted
	}{
		"a frame that ends in time": {"  delay 5s\n  delay 5s\n", 0, hal.OK, 10 * s},
		"delays":                    {delays, 0, hal.FrameLate, 12*s + s},
		"delays of a called sequence": {strings.Repeat("  call waits\n", 300) +
			"waits:\n  delay 10s\n", 0,
			hal.FrameLate, 12*s + s},
		"a poll": {"  poll.4 m+0x0 == 0x1 within 3000s\n", 0, hal.FrameLate, 12*s + s},
		"polls that are ignored": {strings.Repeat("  poll.4 m+0x0 == 0x1 within 10s every 65ms "+
			"else ignore\n", 90), 0,
			hal.FrameLate, 12*s + s},
		"a run with a limit": {delays, 40 * s, hal.FrameLate, 40*s + s},
	} {
		t.Run(name, func(t *testing.T) {
			device := stopRequestDevice{mock.New(&boards.Ivshmem), 2 * s, new(atomic.Uint32)}
			source := ivshmemHead + "main:\n" + test.body + "safe:\n  delay 1s\n"
			r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			r.SetStopFlag(device.flag)
			r.SetLimit(test.limit)
			result := run(t, r, test.code)
			late := test.code == hal.FrameLate
			if took := device.Now(); result.SafeRan != late || took < test.took ||
				took > test.took+s/2 {
				t.Errorf("%s: run ends with %+v after %d ns, want it after %d ns, with safe: %v",
					name, result, took, test.took, late)
			}
			r.Close()
		})
	}
}

// TestRequestToStopDoesNotShortenSafe, whether safe runs after a failure or Run is called with it.
func TestRequestToStopDoesNotShortenSafe(t *testing.T) {
	for name, test := range map[string]struct {
		first string // listing before the delays of safe
		want  runtime.Result
	}{
		"after a failure": {"main:\n  expect.4 m+0x0 == 0x1\nsafe:\n", runtime.Result{
			Code: hal.ExpectFailed, SafeSequenceCode: hal.OK, SafeRan: true, Want: 1,
			Mask: 1<<32 - 1}},
		"called itself": {"safe:\n", runtime.Result{Code: hal.OK}},
	} {
		t.Run(name, func(t *testing.T) {
			r, device := loadOnMock(t, test.first+strings.Repeat("  delay 10s\n", 30))
			flag := new(atomic.Uint32)
			flag.Store(1)
			r.SetStopFlag(flag)
			if result := r.Run(0); result != test.want || device.Now() < 300e9 {
				t.Errorf("run ends with %+v after %d ns, want %+v after at least 300 s", result,
					device.Now(), test.want)
			}
		})
	}
}

// TestClockIsReadInCallsOfShortSequences: a limit is noticed after 450 commands, also if each
// called sequence is shorter.
func TestClockIsReadInCallsOfShortSequences(t *testing.T) {
	for _, callee := range []int{0, 1, 256, 257, 100, 255, 1000}[:effort.Cases(4, 7, 7)] {
		t.Run(fmt.Sprintf("calls of %d stores", callee), func(t *testing.T) {
			r, device := loadOnMock(t, "main:\n"+strings.Repeat("  call some\n", 1000)+"some:\n"+
				strings.Repeat("  write.4 m+0x0 0x1\n", callee)+safeListing)
			executed := 0
			r.SetObserver(func(int) { executed++ })
			if r.Run(0).Code != hal.OK || executed != 1000*(callee+2)+1 {
				t.Fatalf("%d commands executed, want %d, without a failure", executed,
					1000*(callee+2)+1)
			}
			r.SetObserver(nil)
			before := device.Now()
			r.SetLimit(1)
			result := r.Run(0)
			if took := (device.Now() - before) / 100; callee > 0 &&
				(result.Code != hal.FrameLate || took > 450) {
				t.Errorf("run ends with %v after %d stores, want %v after at most 450",
					result.Code, took, hal.FrameLate)
			}
		})
	}
}

// TestObserverIsCalledBeforeEachCommand, also in called sequences and in safe.
func TestObserverIsCalledBeforeEachCommand(t *testing.T) {
	r, _ := loadOnMock(t, "main:\n  write.4 m+0x0 0x1\n  call sub\n"+
		"  expect.4 m+0x0 == 0x2\n  fence\n"+
		"sub:\n  fence\n  fence\nsafe:\n  write.4 m+0x0 0x5\n")
	var got []int
	r.SetObserver(func(command int) { got = append(got, command) })
	run(t, r, hal.ExpectFailed)
	if want := []int{0, 1, 5, 6, 7, 2, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("observer called for commands %v, want %v", got, want)
	}
}
