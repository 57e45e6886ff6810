package importer

import (
	"fmt"
	"strings"
	"testing"
)

// series makes points of numbers that repetitions use in order, one string for each repetition.
func series(repetitions ...string) []ringPoint {
	points := make([]ringPoint, len(strings.Fields(repetitions[0])))
	for k, text := range repetitions {
		for i, field := range strings.Fields(text) {
			value := uint64(0)
			fmt.Sscanf(field, "%v", &value)
			points[i].values = append(points[i].values, value)
			points[i].lines = append(points[i].lines, 10*k+i+1)
		}
	}
	return points
}

// TestRingsAreFoundInNumbers has numbers of three repetitions or more, and the ring, its limits and
// its parity, or the reason why there is none.
func TestRingsAreFoundInNumbers(t *testing.T) {
	for _, test := range []struct {
		what   string
		points []ringPoint
		want   string
	}{
		{"no wrap", series("16 32", "48 64", "80 96"), "16..112 first 16 steps [16 16] false"},
		{"a wrap between repetitions", series("1", "2", "3", "0", "1"),
			"0..4 first 1 steps [1] true"},
		{"a wrap inside one", series("0 8", "16 24", "32 0", "8 16"),
			"0..40 first 0 steps [8 8] true"},
		{"an entry that does not fit", series("0 48", "80 128", "160 0", "32 80"),
			"0..208 first 0 steps [48 32] true"},
		{"ends that would differ later", series("0 5 7", "11 16 0", "4 9 11"),
			"0..18 first 0 steps [5 2 4] false"},
		{"a lap in the top bit",
			series("0x1", "0x2", "0x80000000", "0x80000001", "0x80000002", "0"),
			"0..3 first 1 steps [1] true parity 0x80000000"},
		{"a lap in the lowest bit", series("2", "4", "1", "3", "5", "0"),
			"0..6 first 2 steps [2] true parity 0x1"},
		{"no constant step", series("1", "2", "4", "5"),
			"the numbers rise by 0x1 and by 0x2 (line 21)"},
		{"two starts", series("1", "2", "0", "1", "2", "1"), "it starts again at 0x0 and at 0x1"},
		{"falling", series("3", "2", "1"), "the number in line 1 never rises to the next one"},
		{"a wrap that is too early", series("0", "1", "2", "0", "1", "0"),
			"it starts again at 0x0 although the next entry would fit"},
	} {
		t.Run(test.what, func(t *testing.T) {
			r, reason := fitRing(test.points)
			got := reason
			if reason == "" {
				got = fmt.Sprintf("%d..%d first %d steps %d %v", r.begin, r.end, r.first, r.steps,
					r.isCertain())
				if r.parity != 0 {
					got += fmt.Sprintf(" parity %#x", r.parity)
				}
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
