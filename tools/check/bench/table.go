package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// row is one line of the table. Numbers that are nil are absent.
type row struct {
	Section string   `json:"section"`
	What    string   `json:"what"`
	Unit    string   `json:"unit,omitempty"` // of Ours and C
	Ours    *float64 `json:"ours,omitempty"`
	C       *float64 `json:"c,omitempty"`
	// median of the rounds' ratios, not ratio of the medians
	Ratio  *float64 `json:"ratio,omitempty"`
	Spread *float64 `json:"spread,omitempty"` // of the ratio, between its quartiles
	Goal   string   `json:"goal,omitempty"`
	Met    *bool    `json:"met,omitempty"`
	Note   string   `json:"note,omitempty"`
}

func pointerTo(n float64) *float64 { return &n }

// medianDifference returns the median of the rounds' differences.
func medianDifference(one, other []float64) float64 {
	list := make([]float64, len(one))
	for i := range list {
		list[i] = one[i] - other[i]
	}
	return median(list)
}

// compareTimes returns a row of two measurements. Lower is better.
func compareTimes(section, what, unit string, scale float64, ours, c []float64) row {
	all := ratios(ours, c)
	return row{
		Section: section, What: what, Unit: unit,
		Ours: pointerTo(median(ours) * scale), C: pointerTo(median(c) * scale),
		Ratio: pointerTo(median(all)), Spread: pointerTo(quantile(all, 0.75) - quantile(all, 0.25)),
	}
}

// atMost and atLeast set a goal for n, and record whether n meets it.
func (r row) atMost(n, most float64, goal string) row {
	met := n <= most
	r.Goal, r.Met = goal, &met
	return r
}

func (r row) atLeast(n, least float64, goal string) row {
	met := n >= least
	r.Goal, r.Met = goal, &met
	return r
}

func formatNumber(n *float64) string {
	switch {
	case n == nil:
		return "-"
	case *n != 0 && *n < 10 && *n > -10:
		return fmt.Sprintf("%.2f", *n)
	case *n < 1000 && *n > -1000:
		return fmt.Sprintf("%.1f", *n)
	}
	return fmt.Sprintf("%.0f", *n)
}

func verdict(r *row) string {
	switch {
	case r.Met == nil:
		return ""
	case *r.Met:
		return "met"
	}
	return "NOT MET"
}

// printRows writes the rows as one aligned table, with a title before each section.
func printRows(w io.Writer, rows []row) {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	section := ""
	fmt.Fprintln(t, "what\tunit\tours\tC\tratio\tspread\tgoal\t\tnote")
	for i := range rows {
		r := &rows[i]
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(t, "%s\t\t\t\t\t\t\t\t\n", strings.ToUpper(section))
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.What, r.Unit,
			formatNumber(r.Ours),
			formatNumber(r.C), formatNumber(r.Ratio), formatNumber(r.Spread), r.Goal,
			verdict(r), r.Note)
	}
	t.Flush()
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

func printJSON(w io.Writer, header []string, rows []row) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(map[string]any{"head": header, "rows": rows})
}
