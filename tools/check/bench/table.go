package main

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"
)

// row is one line of the table. If it was not measured, only its name and its note are set.
type row struct {
	comparison
	ours, other float64 // medians
	otherName   string
	// The median of the rounds' ratios or differences, and the distance of their quartiles.
	result, spread float64
}

// header returns what was measured, where and when.
func (b *bench) header() string {
	const script = `echo "commit: $(git describe --always --dirty)"
echo "processor: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) online"
echo "system: $(uname -srm); C: $(gcc --version | head -1), -O2"
echo "load before: $(cut -d ' ' -f 1 /proc/loadavg)"`
	text, _ := exec.Command("sh", "-c", script).Output()
	return string(text) + fmt.Sprintf("measured: on processor %d, %d rounds, with %s\n", b.cpu,
		b.rounds, runtime.Version())
}

// printRowCount prints how many rows were measured, and which were not. The results of a single
// round say nothing about the goals.
func printRowCount(w io.Writer, rows []row) {
	measured := 0
	for i := range rows {
		if rows[i].ours > 0 {
			measured++
		} else {
			fmt.Fprintf(w, "%s: %s\n", rows[i].what, rows[i].note)
		}
	}
	fmt.Fprintf(w, "bench: %d of %d rows can be measured here\n", measured, len(rows))
}

func printTable(w io.Writer, header string, rows []row) {
	for line := range strings.Lines(header) {
		fmt.Fprint(w, "# ", line)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nwhat\tunit\tours\tother\tresult\tspread\tgoal\t\tother is\tnote")
	met, goals := 0, 0
	for i := range rows {
		r := &rows[i]
		if r.ours == 0 {
			fmt.Fprintf(t, "%s\t\t\t\t\t\t\t\t\t%s\n", r.what, r.note)
			continue
		}
		goals++
		verdict := "NOT MET"
		if r.goal.isMet(r.result) {
			met++
			verdict = "met"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.unit, format(r.ours),
			format(r.other), format(r.result), format(r.spread), r.goal, verdict, r.otherName,
			r.note)
	}
	t.Flush()
	fmt.Fprintf(w, "\n%d of %d goals met\n", met, goals)
}

func format(n float64) string {
	digits := 2
	switch {
	case n == 0:
		return "-"
	case n >= 1000:
		digits = 0
	case n >= 10:
		digits = 1
	}
	return fmt.Sprintf("%.*f", digits, n)
}
