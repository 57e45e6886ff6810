package hal

import "time"

// For at most this time, Sleep reads the clock in a loop: Linux may end a nanosleep 50 us late
// (timer slack: man 2 prctl, PR_SET_TIMERSLACK).
const spinMaxNs = 100_000

var clockStart = time.Now()

// Now implements Device, through the vDSO. unix.ClockGettime would make a system call.
func (d *device) Now() (nanoseconds int64) { return int64(time.Since(clockStart)) }

// Sleep implements Device.
func (d *device) Sleep(nanoseconds int64) {
	end := d.Now() + nanoseconds
	// A signal may end a nanosleep early.
	for left := nanoseconds; left > 0; left = end - d.Now() {
		if left > spinMaxNs {
			SleepRaw(left)
		}
	}
}
