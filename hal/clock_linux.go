package hal

// The clock of real devices; mocks may use another clock.

import "time"

// spinMaxNs is the longest wait, in nanoseconds, in which Sleep reads the clock in a loop instead
// of calling nanosleep. A nanosleep of a few microseconds takes about ten times as long, because
// the timer slack of a thread is 50 us (man 2 prctl, PR_SET_TIMERSLACK).
const spinMaxNs = 100_000

// clockStart is the time at which Now returned 0.
var clockStart = time.Now()

// Now implements Device. It uses time.Since, which reads the monotonic clock in user space (vDSO).
// unix.ClockGettime would make a system call each time.
func (d *device) Now() int64 { return int64(time.Since(clockStart)) }

// Sleep implements Device. A signal may end a nanosleep early; the loop then sleeps for the rest.
func (d *device) Sleep(nanoseconds int64) {
	end := d.Now() + nanoseconds
	for left := nanoseconds; left > 0; left = end - d.Now() {
		if left > spinMaxNs {
			SleepRaw(left)
		}
	}
}
