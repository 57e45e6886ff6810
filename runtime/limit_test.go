package runtime_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
)

const safe = "safe:\n  write.4 m+0x40 0x5afe\n"

// limited runs a body under a limit and gives what it took of the device's time.
func limited(t *testing.T, limitUs int64, want hal.Code, body string) (took int64, safeRan bool) {
	t.Helper()
	r, device := on(t, "main:\n"+body+safe)
	r.Limit(limitUs * 1000)
	before := device.Now()
	result := run(t, r, want)
	took = device.Now() - before
	if want != hal.OK {
		if again := r.Run(0); again.Code != hal.Disabled {
			t.Errorf("after %v the next run ends with %v", want, again.Code)
		}
		if got := memory(t, device, 0x40, 2); got[0] != 0xfe || got[1] != 0x5a {
			t.Errorf("safe stored % x", got)
		}
	}
	return took, result.SafeRan
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
		took, safeRan := limited(t, 100, hal.FrameLate, body)
		if !safeRan {
			t.Errorf("%s: safe did not run", name)
		}
		// Stores are one command of the loop and noticed at the end.
		if most := int64(110_000); took > most && name != "stores alone" {
			t.Errorf("%s: the run took %d ns", name, took)
		}
	}
}

// TestLateRunMakesNoFurtherAccess, also where the policy of what was cut off would go
// on: that is for a condition that does not hold.
func TestLateRunMakesNoFurtherAccess(t *testing.T) {
	r, device := on(t, "main:\n  poll.4 m+0x0 == 0x1 within 1s every 10us else ignore\n  write.4 m+0x80 0x1\n"+safe)
	r.Limit(100_000)
	if result := run(t, r, hal.FrameLate); result.Command != 0 {
		t.Errorf("late at command %d", result.Command)
	}
	if got := memory(t, device, 0x80, 1); got[0] != 0 {
		t.Error("the store behind it was made")
	}
}

func TestLimitCountsForEachRunAlone(t *testing.T) {
	r, device := on(t, "main:\n  delay 90us\n"+safe)
	r.Limit(100_000)
	for range 100 {
		run(t, r, hal.OK)
	}
	if device.Now() < 9_000_000 {
		t.Errorf("100 runs took %d ns", device.Now())
	}
	r.Limit(50_000)
	run(t, r, hal.FrameLate)
}

func TestPollDeadlineWithinTheLimitIsThePollsOwn(t *testing.T) {
	limited(t, 1000, hal.DeadlinePassed, "  poll.4 m+0x0 == 0x1 within 100us every 10us\n")
	limited(t, 1000, hal.OK, "  poll.4 m+0x0 == 0x1 within 100us every 10us else ignore\n")
}

func TestLimitBeyondAllTimeIsNone(t *testing.T) {
	r, device := on(t, "main:\n  delay 90us\n"+safe)
	device.Sleep(1_000_000)
	r.Limit(math.MaxInt64)
	run(t, r, hal.OK)
}

func TestLimitThatIsExceededForWantOfMemoryIsADMAFault(t *testing.T) {
	const listing = ivshmem + "window h host size 4KiB\nmain:\n  poll.4 m+0x0 == 0x1 within 1s every 10us\n"
	for state, want := range map[hal.Code]hal.Code{hal.OK: hal.FrameLate, hal.DMAFault: hal.DMAFault} {
		device := master{Device: mock.New(&boards.Ivshmem), name: "ivshmem", told: new([]string), state: state}
		r, err := runtime.Load(view(t, listing), runtime.AnySlot, device)
		if err != nil {
			t.Fatal(err)
		}
		r.Limit(100_000)
		run(t, r, want)
		r.Close()
	}
}

func TestSafeHasNoLimit(t *testing.T) {
	r, device := on(t, "main:\n  delay 1s\nsafe:\n  delay 5ms\n  poll.4 m+0x0 == 0x1 within 5ms every 1ms else ignore\n  write.4 m+0x40 0x5afe\n")
	r.Limit(1000)
	if result := run(t, r, hal.FrameLate); result.Safe != hal.OK || device.Now() < 10_000_000 {
		t.Errorf("%+v after %d ns", result, device.Now())
	}
}

func TestDeviceThatIsGoneIsNotWaitedFor(t *testing.T) {
	for _, body := range []string{
		"poll.4 m+0x0 == 0x1 within 60s every 65ms", "flush.4 m+0x0", "write.4 m+0x0 0x1 mask 0x1",
		"expect.4 m+0x0 == 0xffffffff", "poll.4 m+0x0 == 0xffffffff within 60s",
	} {
		r, device := on(t, fmt.Sprintf("main:\n  %s\n  write.4 m+0x8 0x1\n", body))
		device.Inject(mock.Fault{Kind: mock.AllOnes, Operation: 1})
		at := int32(0)
		if body == "flush.4 m+0x0" {
			at++ // a fence is before the load
		}
		if result := run(t, r, hal.DeviceGone); result.Command != at || device.Now() > 1000 {
			t.Errorf("%s: %+v after %d ns", body, result, device.Now())
		}
	}
}

func TestDeviceThatGoesDuringAPollIsNotWaitedFor(t *testing.T) {
	for _, c := range [][2]string{{"0x0", "== 0x1"}, {"0x0", "& 0x1 == 0x1"}, {"0xffffffff", "== 0x1"}} { // all ones hold, or a register has them before
		r, device := on(t, "main:\n  write.4 m+0x0 "+c[0]+"\n  poll.4 m+0x0 "+c[1]+" within 60s every 1ms\n")
		device.Inject(mock.Fault{Kind: mock.AllOnes, Operation: 5})
		if run(t, r, hal.DeviceGone); device.Now() > 6_000_000 {
			t.Errorf("noticed after %d ns", device.Now())
		}
	}
}
