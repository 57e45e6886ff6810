package hal

import "time"

// spinMax is the longest wait, in nanoseconds, that is spent awake. The timer
// slack of a thread is 50 us (man 2 prctl, PR_SET_TIMERSLACK), so that a
// nanosleep of a few microseconds takes ten times as long.
const spinMax = 100_000

var opened = time.Now()

// now is a monotonic clock in nanoseconds. time.Since of a time that holds a
// monotonic reading asks the vDSO and makes no system call; unix.ClockGettime
// is a system call each time.
func now() int64 { return int64(time.Since(opened)) }

// sleep lets at least that many nanoseconds pass. A signal ends a pause early.
func sleep(nanoseconds int64) {
	end := now() + nanoseconds
	for left := nanoseconds; left > 0; left = end - now() {
		if left > spinMax {
			Pause(left)
		}
	}
}
