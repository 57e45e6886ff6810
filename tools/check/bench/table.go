package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// row is one line of the table. Numbers are absent where they are nil.
type row struct {
	Section string   `json:"section"`
	What    string   `json:"what"`
	Unit    string   `json:"unit,omitempty"` // of Ours and C
	Ours    *float64 `json:"ours,omitempty"`
	C       *float64 `json:"c,omitempty"`
	// median of the rounds' ratios, not the ratio of the medians
	Ratio  *float64 `json:"ratio,omitempty"`
	Spread *float64 `json:"spread,omitempty"` // of the ratio, between its quartiles
	Goal   string   `json:"goal,omitempty"`
	Met    *bool    `json:"met,omitempty"`
	Note   string   `json:"note,omitempty"`
}

func value(n float64) *float64 { return &n }

// longer is how much longer one measurement takes than another.
func longer(one, other []float64) float64 {
	list := make([]float64, len(one))
	for i := range list {
		list[i] = one[i] - other[i]
	}
	return median(list)
}

// versus is a row of two measurements; lower is better for both.
func versus(section, what, unit string, scale float64, ours, c []float64) row {
	all := ratios(ours, c)
	return row{
		Section: section, What: what, Unit: unit,
		Ours: value(median(ours) * scale), C: value(median(c) * scale),
		Ratio: value(median(all)), Spread: value(quantile(all, 0.75) - quantile(all, 0.25)),
	}
}

// atMost and atLeast give the row a goal for a number of its own.
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

func text(n *float64) string {
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

// print writes the rows as one aligned table, a title in front of each section.
func print(w io.Writer, rows []row) {
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
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.What, r.Unit, text(r.Ours),
			text(r.C), text(r.Ratio), text(r.Spread), r.Goal,
			verdict(r), r.Note)
	}
	t.Flush()
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

func printJSON(w io.Writer, head []string, rows []row) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(map[string]any{"head": head, "rows": rows})
}
