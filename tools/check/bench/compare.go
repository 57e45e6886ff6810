package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"lightmetal/tools/image/fail"
)

// sampler measures a quantity once. Its number is in the unit of a row.
type sampler func() float64

// comparison describes a row of the table: how our number is measured, with what it is compared,
// and its goal.
type comparison struct {
	what, unit string
	ours       sampler
	others     []alternative // only the best one is compared with ours
	goal       goal
	rounds     int // 0: those of the effort
	note       string
}

// alternative is a number with which ours can be compared.
type alternative struct {
	name   string
	sample sampler
}

// goal is a limit of a row's result. The zero value is no goal.
type goal struct {
	result resultKind
	limit  float64
}

// resultKind says what the result of a row is, and whether a limit is the most or the least.
type resultKind int

const (
	ownNumber    resultKind = iota // ours, at most
	ratioAtMost                    // ours divided by the other, of times
	ratioAtLeast                   // ours divided by the other, of speeds
	excessAtMost                   // ours minus the other
)

// compare measures our side and all alternatives in turn, and adds the row.
func (b *bench) compare(c comparison) {
	samplers := []func() float64{c.ours}
	for _, other := range c.others {
		samplers = append(samplers, other.sample)
	}
	samples := alternate(cmp.Or(c.rounds, b.effort.rounds), samplers...)
	b.addRow(c, samples[0], samples[1:]...)
}

// addRow adds the row of a comparison. The samples are by round.
func (b *bench) addRow(c comparison, ours []float64, others ...[]float64) {
	r := row{What: c.what, Unit: c.unit, Ours: pointerTo(median(ours)), Note: c.note}
	result := *r.Ours
	if len(others) > 0 {
		best := bestOf(others, c.goal.result == ratioAtLeast)
		r.Other, r.OtherName = pointerTo(median(others[best])), c.others[best].name
		if c.goal.result != ownNumber {
			result = r.setResult(c.goal.result, combine(c.goal.result, ours, others[best]))
		}
	}
	for _, n := range []*float64{r.Ours, r.Other} {
		if n != nil && (!(*n > 0) || math.IsInf(*n, 0)) {
			fail.On(fmt.Errorf("%s: measured %v %s, want a positive number", r.What, *n, r.Unit))
		}
	}
	if c.goal != (goal{}) {
		r.Goal, r.Met = c.goal.String(), pointerTo(c.goal.isMet(result))
	}
	b.rows = append(b.rows, r)
}

// setResult sets the result, which is the median of the rounds' results, and its spread.
func (r *row) setResult(kind resultKind, byRound []float64) (result float64) {
	result = median(byRound)
	if kind == excessAtMost {
		r.Excess = &result
	} else {
		r.Ratio = &result
	}
	if len(byRound) > 1 {
		r.Spread = pointerTo(quantile(byRound, 0.75) - quantile(byRound, 0.25))
	}
	return result
}

// addUnmeasured adds a row that cannot be measured on this machine.
func (b *bench) addUnmeasured(what, reason string) {
	b.rows = append(b.rows, row{What: what, Note: "not measured: " + reason})
}

func (g goal) isMet(result float64) bool {
	if g.result == ratioAtLeast {
		return result >= g.limit
	}
	return result <= g.limit
}

func (g goal) String() string {
	switch g.result {
	case ratioAtMost:
		return fmt.Sprintf("<= %g x", g.limit)
	case ratioAtLeast:
		return fmt.Sprintf(">= %g x", g.limit)
	case excessAtMost:
		return fmt.Sprintf("<= +%g", g.limit)
	}
	return fmt.Sprintf("<= %.4g", g.limit)
}

// alternate calls all functions in turn, rounds times. Every other round has the reverse order. It
// returns the results by function and round.
func alternate[T any](rounds int, functions ...func() T) [][]T {
	results := make([][]T, len(functions))
	for round := range rounds {
		for n := range functions {
			i := n
			if round%2 == 1 {
				i = len(functions) - 1 - n
			}
			results[i] = append(results[i], functions[i]())
		}
	}
	return results
}

// combine returns the ratio or the difference of each round. What slows down one round slows down
// both sides, so the median of these varies less than the ratio or the difference of two medians.
func combine(kind resultKind, ours, other []float64) []float64 {
	results := make([]float64, len(ours))
	for i := range results {
		if kind == excessAtMost {
			results[i] = ours[i] - other[i]
		} else {
			results[i] = ours[i] / other[i]
		}
	}
	return results
}

// bestOf returns the index of the samples with the least median, or with the greatest.
func bestOf(samples [][]float64, greatest bool) (best int) {
	for i := range samples {
		this, soFar := median(samples[i]), median(samples[best])
		if greatest && this > soFar || !greatest && this < soFar {
			best = i
		}
	}
	return best
}

// quantile returns the smallest element of the list such that at least the share q of all elements
// is not above it.
func quantile(list []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func median(list []float64) float64 {
	return (quantile(list, 0.5) + quantile(list, 0.5+0.5/float64(len(list)))) / 2
}

func pointerTo[T any](value T) *T { return &value }
