package hal

// The clock of devices that are hardware.

import "time"

// spinMaxNs is the longest sleep that is spent awake. The timer slack of a thread is 50 us (man 2
// prctl, PR_SET_TIMERSLACK), so that a nanosleep of a few microseconds takes ten times as long.
const spinMaxNs = 100_000

var clockStart = time.Now()

// Now implements Device. time.Since of a time with a monotonic reading asks the vDSO and makes no
// system call; unix.ClockGettime is a system call each time.
func (d *device) Now() int64 { return int64(time.Since(clockStart)) }

// Sleep implements Device. A signal ends a system call early, but not the sleep.
func (d *device) Sleep(nanoseconds int64) {
	end := d.Now() + nanoseconds
	for left := nanoseconds; left > 0; left = end - d.Now() {
		if left > spinMaxNs {
			SleepRaw(left)
		}
	}
}
