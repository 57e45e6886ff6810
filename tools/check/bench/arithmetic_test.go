package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMedianIsTheMiddleValueOrTheMeanOfTwo(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{
		{[]float64{7}, 7}, {[]float64{3, 1}, 2}, {[]float64{3, 1, 20}, 3},
		{[]float64{9, 1, 4, 2}, 3}, {[]float64{5, 4, 3, 2, 1}, 3},
		{[]float64{1, 1, 1, 2, 9, 9}, 1.5},
		{[]float64{9, 8, 7, 6, 5, 4, 3, 2, 100}, 6},
	} {
		before := slices.Clone(c.list)
		if got := median(c.list); got != c.want || !slices.Equal(before, c.list) {
			t.Errorf("median of %v is %v, want %v", before, got, c.want)
		}
	}
	list := []float64{40, 10, 30, 20}
	for q, want := range map[float64]float64{0: 10, 0.25: 10, 0.26: 20, 0.5: 20, 0.75: 30, 0.76: 40,
		1: 40} {
		if got := quantile(list, q); got != want {
			t.Errorf("quantile %v of %v is %v, want %v", q, list, got, want)
		}
	}
}

// TestRatioIsTheMedianOfTheRoundsRatios has a round that is slow for both sides. It must not change
// the ratio.
func TestRatioIsTheMedianOfTheRoundsRatios(t *testing.T) {
	ours, c := []float64{2, 9, 40, 8, 3}, []float64{1, 3, 10, 4, 3}
	r := compareTimes("s", "w", "ns", 10, ours, c)
	// The ratios are 2, 3, 4, 2, 1. The ratio of the medians would be 8 to 3.
	if !slices.Equal(ratios(ours, c), []float64{2, 3, 4, 2, 1}) || *r.Ratio != 2 || *r.Ours != 80 ||
		*r.C != 30 || *r.Spread != 1 {
		t.Errorf("ours %v, C %v, ratio %v, spread %v, want 80, 30, 2, 1", *r.Ours, *r.C, *r.Ratio,
			*r.Spread)
	}
}

func TestGoalsAreMetUpToTheirLimit(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{row{}.atMost(1.5, 1.5, "<= 1.5"), "met"}, {row{}.atMost(1.501, 1.5, "<= 1.5"), "NOT MET"},
		{row{}.atMost(0, 1.5, ""), "met"},
		{row{}.atLeast(0.95, 0.95, ">= 0.95"), "met"},
		{row{}.atLeast(0.949, 0.95, ">= 0.95"), "NOT MET"}, {row{}.atLeast(2, 0.95, ""), "met"},
		{row{}, ""},
	} {
		if got := verdict(&c.row); got != c.want {
			t.Errorf("row %+v: verdict %q, want %q", c.row, got, c.want)
		}
	}
	var text strings.Builder
	b := bench{rows: []row{row{What: "a"}.atMost(1, 2, "<= 2"), row{What: "b"}.atMost(3, 2, "<= 2"),
		{What: "c"}, row{What: "d"}.atLeast(3, 2, ">= 2")}}
	b.printTable(&text, nil)
	if !strings.HasSuffix(text.String(), "\n2 of 3 goals met\n") ||
		strings.Count(text.String(), "NOT MET") != 1 {
		t.Errorf("the table has not one NOT MET and the end \"2 of 3 goals met\":\n%s", &text)
	}
}
