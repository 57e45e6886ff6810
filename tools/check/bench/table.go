package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"

	"lightmetal/tools/lmrun/files"
)

// row is one line of the table. Numbers that are nil are absent.
type row struct {
	What      string   `json:"what"`
	Unit      string   `json:"unit,omitempty"` // of Ours, Other and Excess
	Ours      *float64 `json:"ours,omitempty"`
	Other     *float64 `json:"other,omitempty"`
	OtherName string   `json:"other_name,omitempty"`

	// The median of the rounds' ratios, or of their differences. For these, the ratio or the
	// difference of the medians can differ.
	Ratio  *float64 `json:"ratio,omitempty"`
	Excess *float64 `json:"excess,omitempty"`

	Spread *float64 `json:"spread,omitempty"` // of Ratio or Excess, between its quartiles
	Goal   string   `json:"goal,omitempty"`
	Met    *bool    `json:"met,omitempty"`
	Note   string   `json:"note,omitempty"`
}

// header returns lines that describe what was measured, where and when.
func (b *bench) header() []string {
	return []string{
		"commit: " + commandOutput("git", "describe", "--always", "--dirty"),
		"processor: " + processorName() + fmt.Sprintf(", %d online, measured on number %d",
			runtime.NumCPU(), b.cpu),
		"system: " + commandOutput("uname", "-srm"),
		"go: " + runtime.Version() + "; C: " +
			strings.SplitN(commandOutput("gcc", "--version"), "\n", 2)[0] + ", -O2",
		fmt.Sprintf("mode: %s, %d rounds, load before %s", b.effort.name, b.effort.rounds,
			loadAverage()),
	}
}

func commandOutput(name string, arguments ...string) string {
	text, err := exec.Command(name, arguments...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

func processorName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, name, found := strings.Cut(line, ":"); found &&
			strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(name)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	word, _, _ := strings.Cut(string(text), " ")
	return word
}

// writeReport prints the rows, as JSON or as a table, and writes the table to a file too if
// tablePath is not empty.
func (b *bench) writeReport(header []string, asJSON bool, tablePath string) error {
	var table bytes.Buffer
	printTable(&table, header, b.rows)
	out := bufio.NewWriter(os.Stdout)
	if asJSON {
		printJSON(out, header, b.rows)
	} else {
		out.Write(table.Bytes())
	}
	if err := out.Flush(); err != nil || tablePath == "" {
		return err
	}
	return files.Write(tablePath, table.Bytes(), 0o666, files.OpenToReplace)
}

// printRowCount prints how many rows were measured, and which were not. The results of a single
// round say nothing about the goals.
func printRowCount(w io.Writer, rows []row) {
	measured := 0
	for i := range rows {
		if rows[i].Ours != nil {
			measured++
		} else {
			fmt.Fprintf(w, "%s: %s\n", rows[i].What, rows[i].Note)
		}
	}
	fmt.Fprintf(w, "bench: %d of %d rows can be measured here\n", measured, len(rows))
}

func printTable(w io.Writer, header []string, rows []row) {
	for _, line := range header {
		fmt.Fprintln(w, "#", line)
	}
	fmt.Fprintln(w)
	printRows(w, rows)
	met, goals := 0, 0
	for i := range rows {
		if rows[i].Met != nil {
			goals++
			if *rows[i].Met {
				met++
			}
		}
	}
	fmt.Fprintf(w, "\n%d of %d goals met\n", met, goals)
}

// printRows writes the rows as one aligned table.
func printRows(w io.Writer, rows []row) {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tunit\tours\tother\tresult\tspread\tgoal\t\tother is\tnote")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.What, r.Unit,
			formatNumber(r.Ours), formatNumber(r.Other), formatResult(r), formatNumber(r.Spread),
			r.Goal, verdict(r), r.OtherName, r.Note)
	}
	t.Flush()
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
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

// formatResult returns the ratio, such as "1.02 x", or the difference, such as "+0.67".
func formatResult(r *row) string {
	switch {
	case r.Ratio != nil:
		return formatNumber(r.Ratio) + " x"
	case r.Excess != nil && *r.Excess >= 0:
		return "+" + formatNumber(r.Excess)
	}
	return formatNumber(r.Excess)
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

func printJSON(w io.Writer, header []string, rows []row) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // goals contain < and >
	e.SetIndent("", " ")
	return e.Encode(map[string]any{"head": header, "rows": rows})
}
