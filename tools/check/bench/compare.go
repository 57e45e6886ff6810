package main

import (
	"fmt"
	"math"
	"slices"

	"lightmetal/tools/image/fail"
)

// sampler measures a quantity once. Its number is in the unit of a row.
type sampler = func() float64

// comparison describes a row of the table: how our number is measured, with what it is compared,
// and its goal.
type comparison struct {
	what, unit string
	ours       sampler
	others     []alternative // only the best one is compared with ours
	goal       goal
	note       string
}

// alternative is a number with which ours can be compared.
type alternative struct {
	name   string
	sample sampler
}

// goal is a limit of a row's result.
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
	samplers := []sampler{c.ours}
	for _, other := range c.others {
		samplers = append(samplers, other.sample)
	}
	b.addRow(c, alternate(b.rounds, samplers...))
}

// addRow adds the row of a comparison. The samples are by side, ours first, and by round. What
// slows down one round slows down both sides, so the median of the rounds' ratios or differences
// varies less than the ratio or the difference of two medians.
func (b *bench) addRow(c comparison, samples [][]float64) {
	r := row{comparison: c, ours: median(samples[0])}
	byRound, best := slices.Clone(samples[0]), 0
	for i := range c.others {
		if n := median(samples[i+1]); i == 0 || (n > r.other) == (c.goal.result == ratioAtLeast) {
			r.other, best = n, i
		}
	}
	if len(c.others) > 0 {
		r.otherName = c.others[best].name
		checkPositive(c, r.other)
	}
	checkPositive(c, r.ours)
	for i := range byRound {
		switch c.goal.result {
		case ratioAtMost, ratioAtLeast:
			byRound[i] /= samples[best+1][i]
		case excessAtMost:
			byRound[i] -= samples[best+1][i]
		}
	}
	r.result = median(byRound)
	r.spread = quantile(byRound, 0.75) - quantile(byRound, 0.25)
	b.rows = append(b.rows, r)
}

// addUnmeasured adds a row that cannot be measured on this machine.
func (b *bench) addUnmeasured(what, reason string) {
	b.rows = append(b.rows, row{comparison: comparison{what: what,
		note: "not measured: " + reason}})
}

// checkPositive fails if a row has a number that cannot be a measurement.
func checkPositive(c comparison, n float64) {
	if !(n > 0) || math.IsInf(n, 0) {
		fail.On(fmt.Errorf("%s: measured %v %s, want a positive number", c.what, n, c.unit))
	}
}

func (g goal) isMet(result float64) bool {
	if g.result == ratioAtLeast {
		return result >= g.limit
	}
	return result <= g.limit
}

func (g goal) String() string {
	return fmt.Sprintf([]string{"<= %.4g", "<= %g x", ">= %g x", "<= +%g"}[g.result], g.limit)
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

// quantile returns the smallest element of the list such that at least the share q of all elements
// is not above it.
func quantile(list []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func median(list []float64) float64 {
	return (quantile(list, 0.5) + quantile(list, 0.5+0.5/float64(len(list)))) / 2
}
