package hal

import "testing"

func TestSleepTakesAtLeastTheGivenTime(t *testing.T) {
	d := &device{}
	for _, nanoseconds := range []int64{-1, 0, 1, 5_000, spinMaxNs, spinMaxNs + 1, 2_000_000} {
		start := d.Now()
		d.Sleep(nanoseconds)
		if passed := d.Now() - start; passed < nanoseconds {
			t.Errorf("Sleep(%d) took %d ns, want at least the argument", nanoseconds, passed)
		}
	}
}

func TestClockAndSleepDoNotAllocate(t *testing.T) {
	d := &device{}
	if n := testing.AllocsPerRun(10,
		func() { d.Sleep(d.Now() % 2); d.Sleep(spinMaxNs + 1) }); n != 0 {
		t.Errorf("Now and Sleep: %v allocations, want 0", n)
	}
}

func BenchmarkNow(b *testing.B) {
	for range b.N {
		(*device)(nil).Now()
	}
}
