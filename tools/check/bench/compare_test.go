package main

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/image/fail"
)

func TestMedianIsTheMiddleValueOrTheMeanOfTwo(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{
		{[]float64{7}, 7}, {[]float64{3, 1}, 2}, {[]float64{3, 1, 20}, 3},
		{[]float64{9, 1, 4, 2}, 3}, {[]float64{1, 1, 1, 2, 9, 9}, 1.5},
		{[]float64{9, 8, 7, 6, 5, 4, 3, 2, 100}, 6},
	} {
		before := slices.Clone(c.list)
		if got := median(c.list); got != c.want || !slices.Equal(before, c.list) {
			t.Errorf("median of %v is %v, want %v", before, got, c.want)
		}
	}
}

func TestQuantileIsTheSmallestSufficientElement(t *testing.T) {
	list := []float64{50, 10, 40, 20, 30}
	for q, want := range map[float64]float64{0: 10, 0.2: 10, 0.21: 20, 0.5: 30, 0.8: 40, 0.99: 50,
		1: 50} {
		if got := quantile(list, q); got != want {
			t.Errorf("quantile %v of %v is %v, want %v", q, list, got, want)
		}
	}
}

// TestResultIsTheMedianOfTheRoundsResults has rounds that are slow for both sides. They must not
// change the result.
func TestResultIsTheMedianOfTheRoundsResults(t *testing.T) {
	ours, c := []float64{20, 90, 400, 80, 30}, []float64{10, 30, 100, 40, 30}
	slower := []float64{15, 60, 90, 50, 50} // has the greatest median
	for _, test := range []struct {
		goal      goal
		met       bool
		result    float64
		otherName string
		other     float64
		spread    string
	}{
		// The ratios are 2, 3, 4, 2, 1. The ratio of the medians would be 8 to 3.
		{goal{ratioAtMost, 2}, true, 2, "C", 30, "1.00"},
		{goal{ratioAtMost, 1.99}, false, 2, "C", 30, "1.00"},
		{goal{ratioAtLeast, 1.5}, true, 1.5, "D", 50, "0.27"},
		{goal{ratioAtLeast, 1.51}, false, 1.5, "D", 50, "0.27"},
		// The differences are 10, 60, 300, 40, 0. The difference of the medians would be 50.
		{goal{excessAtMost, 40}, true, 40, "C", 30, "50.0"},
		{goal{excessAtMost, 39}, false, 40, "C", 30, "50.0"},
		{goal{ownNumber, 80}, true, 80, "C", 30, "60.0"},
		{goal{ownNumber, 79}, false, 80, "C", 30, "60.0"},
	} {
		b := bench{}
		others := []alternative{{name: "C"}, {name: "D"}}
		b.addRow(comparison{what: "w", goal: test.goal, others: others},
			[][]float64{ours, c, slower})
		r := &b.rows[0]
		if r.ours != 80 || r.other != test.other || r.otherName != test.otherName {
			t.Errorf("goal %v: ours %v, other %v by %s, want 80 and %v by %s", test.goal, r.ours,
				r.other, r.otherName, test.other, test.otherName)
		}
		if r.goal.isMet(r.result) != test.met || r.result != test.result ||
			format(r.spread) != test.spread {
			t.Errorf("goal %v: result %v, spread %v; want %v, %s, met: %v", test.goal, r.result,
				r.spread, test.result, test.spread, test.met)
		}
	}
}

// TestRowsWithoutAPositiveNumberAreErrors: ./build.sh test relies on it to see that each row can be
// measured.
func TestRowsWithoutAPositiveNumberAreErrors(t *testing.T) {
	for _, n := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		for _, sides := range [][2]float64{{1, n}, {n, 1}} {
			b := bench{}
			err := fail.Try(func() {
				others := []alternative{{name: "C"}}
				b.addRow(comparison{what: "w", others: others}, [][]float64{sides[:1], sides[1:]})
			})
			if err == nil || len(b.rows) != 0 {
				t.Errorf("ours %v, other %v: no error", sides[0], sides[1])
			}
		}
	}
}

func TestAlternatingRoundsHaveTheReverseOrder(t *testing.T) {
	order := ""
	appendName := func(name string) func() string {
		return func() string { order += name; return name }
	}
	results := alternate(3, appendName("a"), appendName("b"), appendName("c"))
	if order != "abccbaabc" || strings.Join(results[1], "") != "bbb" || len(results) != 3 {
		t.Errorf("order %s, results %v; want abccbaabc, and three of each", order, results)
	}
}

func TestTableCountsGoalsAndRows(t *testing.T) {
	b := bench{}
	for i, limit := range []float64{2, 1, 3} {
		b.addRow(comparison{what: string(rune('a' + i)), goal: goal{ownNumber, limit}},
			[][]float64{{2}})
	}
	b.addUnmeasured("e", "no permission")
	var table, count bytes.Buffer
	printTable(&table, "commit: x\n", b.rows)
	printRowCount(&count, b.rows)
	if text := table.String(); !strings.HasSuffix(text, "\n2 of 3 goals met\n") ||
		!strings.HasPrefix(text, "# commit: x\n") || strings.Count(text, "NOT MET") != 1 {
		t.Errorf("the table has not one NOT MET and the end \"2 of 3 goals met\":\n%s", text)
	}
	want := "e: not measured: no permission\nbench: 3 of 4 rows can be measured here\n"
	if count.String() != want {
		t.Errorf("count of rows:\n%s\nwant\n%s", &count, want)
	}
}
