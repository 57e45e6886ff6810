package hal

// This file implements the clock of hardware devices. Mocks may use a virtual clock instead.

import "time"

// spinMaxNs is a limit in nanoseconds. For a wait up to this limit, Sleep reads the clock in a
// loop. It does not call nanosleep, because Linux may delay the end of each nanosleep by 50 us (the
// timer slack of a thread: man 2 prctl, PR_SET_TIMERSLACK).
const spinMaxNs = 100_000

// clockStart is the time at which this program started. At this time, Now returns 0.
var clockStart = time.Now()

// Now implements Device. It calls time.Since, which reads the monotonic clock in user space,
// through the vDSO. unix.ClockGettime would make a system call each time.
func (d *device) Now() (nanoseconds int64) { return int64(time.Since(clockStart)) }

// Sleep implements Device. It calls nanosleep for a wait longer than spinMaxNs, and reads the clock
// in a loop for a shorter wait.
func (d *device) Sleep(nanoseconds int64) {
	end := d.Now() + nanoseconds
	// A signal may end a nanosleep early. Therefore repeat the nanosleep until the requested time
	// is over.
	for left := nanoseconds; left > 0; left = end - d.Now() {
		if left > spinMaxNs {
			SleepRaw(left)
		}
	}
}
