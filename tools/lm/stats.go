package main

import (
	"fmt"
	"slices"

	"lightmetal/tools/image/lmb"
)

// statistics are the times of the runs after the warm-up, for lm replay --stats.
type statistics struct {
	WarmUp int `json:"warm_up"` // number of warm-up runs, which are not counted
	// times by the first device's clock, which is virtual on a mock or simulator
	Device       timeSpread `json:"device"`
	Wall         timeSpread `json:"wall"` // times by this machine's clock
	device, wall []int64    // time of each run, in nanoseconds
}

// timeSpread summarizes the times of all counted runs.
type timeSpread struct {
	MinNs    int64 `json:"min_ns"`
	MedianNs int64 `json:"median_ns"`
	P99Ns    int64 `json:"p99_ns"`
	MaxNs    int64 `json:"max_ns"`
}

func (s *statistics) addRun(device, wall int64) {
	s.device, s.wall = append(s.device, device), append(s.wall, wall)
}

func (s *statistics) summarize() {
	s.Device, s.Wall = newTimeSpread(s.device), newTimeSpread(s.wall)
}

// newTimeSpread returns the minimum, the lower median, the least time that 99 of 100 runs do not
// exceed, and the maximum.
func newTimeSpread(times []int64) timeSpread {
	slices.Sort(times)
	n := len(times)
	if n == 0 {
		return timeSpread{}
	}
	return timeSpread{times[0], times[(n-1)/2], times[(n*99+99)/100-1], times[n-1]}
}

// text formats the table of times; clock names the first device's clock.
func (s *statistics) text(clock string) string {
	text := fmt.Sprintf("%-8s%12s%12s%12s%12s   after %d warm-up runs\n", "", "min", "median",
		"p99",
		"max", s.WarmUp)
	for _, row := range []struct {
		name string
		timeSpread
	}{{clock, s.Device}, {"wall", s.Wall}} {
		text += fmt.Sprintf("%-8s%12s%12s%12s%12s\n", row.name,
			lmb.TimeText(row.MinNs), lmb.TimeText(row.MedianNs), lmb.TimeText(row.P99Ns),
			lmb.TimeText(row.MaxNs))
	}
	return text
}
