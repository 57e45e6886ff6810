package main

import (
	"cmp"
	"fmt"
	"strings"

	"lightmetal/boards/hosts"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"

	"github.com/spf13/cobra"
)

// checkBoardFlags are the flags of lm check-board as they are typed.
type checkBoardFlags struct {
	image, root, kernelConfig string
	list, collect             bool
}

func checkBoardCommand() *cobra.Command {
	var f checkBoardFlags
	c := newCommand("check-board [BOARD]", argumentCount(0, 1, "one board"),
		func(args []string) { f.run(strings.Join(args, "")) })
	flags := c.Flags()
	flags.StringVar(&f.image, "image", "",
		"also check whether the machine or board fits this image")
	flags.StringVar(&f.root, "root", "",
		"check the files in this directory, copied from a target, instead of this machine")
	flags.StringVar(&f.kernelConfig, "kernel-config", "",
		"file with the kernel's configuration (default: /proc/config.gz, or /boot/config-RELEASE)")
	flags.BoolVar(&f.list, "list", false, "print a table of the known boards")
	flags.BoolVar(&f.collect, "collect", false,
		"print a script that copies a target's files for --root")
	defineJSONFlag(c, "print the report as JSON, also on failure")
	return c
}

// state says whether a finding prevents a replay.
type state string

const (
	fine       state = "ok"
	warning    state = "warning"
	notChecked state = "not checked" // the check of a device could not be made
	missing    state = "missing"
)

// finding is one line of the report.
type finding struct {
	Check string `json:"check"` // name of the check; stable
	State state  `json:"state"`
	Found string `json:"found"`
	Why   string `json:"why,omitempty"`  // why the finding matters
	Next  string `json:"next,omitempty"` // what the user can do
}

// boardReport is what check-board --json prints; its fields are stable.
type boardReport struct {
	Exit    int    `json:"exit"`
	Code    string `json:"code"`
	Board   string `json:"board"`            // a name of --list; empty: not recognised
	Machine string `json:"machine"`          // name that the machine reports
	Kernel  string `json:"kernel,omitempty"` // release of the kernel
	Image   string `json:"image,omitempty"`
	identity
	Missing    int           `json:"missing"`
	NotChecked int           `json:"not_checked"`
	Warnings   int           `json:"warnings"`
	Devices    []foundDevice `json:"devices"` // of the image, or of known boards
	Facts      []factInfo    `json:"facts,omitempty"`
	Checks     []finding     `json:"checks"`
	host       *hosts.Host   // nil: not recognised
}

type foundDevice struct {
	Address string `json:"address"`
	Board   string `json:"board"`
	Vendor  string `json:"vendor"`
	Device  string `json:"device"`
}

// addFinding appends a finding. why and next are for findings that are not ok.
func (r *boardReport) addFinding(s state, check, found, why, next string) {
	switch s {
	case fine:
		why, next = "", ""
	case missing:
		r.Missing++
	case notChecked:
		r.NotChecked++
	case warning:
		r.Warnings++
	}
	r.Checks = append(r.Checks, finding{check, s, found, why, next})
}

// verdict is a row of the table of a check: what the check finds if the row applies.
type verdict struct {
	applies   bool
	state     state
	found     string
	why, next string
}

// fineIf returns a verdict about which the user need not do anything.
func fineIf(applies bool, found string) verdict {
	return verdict{applies: applies, state: fine, found: found}
}

// judge appends the finding of a check: the first verdict of the table that applies. It appends
// nothing if no verdict applies.
func (r *boardReport) judge(check string, table []verdict) {
	for _, v := range table {
		if v.applies {
			r.addFinding(v.state, check, v.found, v.why, v.next)
			return
		}
	}
}

func (f *checkBoardFlags) run(board string) {
	switch {
	case f.collect:
		fmt.Fprint(stdout, collectScript)
		return
	case f.list:
		listHosts()
		return
	}
	report := &boardReport{Image: f.image, Devices: []foundDevice{}, Checks: []finding{}}
	if board != "" {
		if report.host = hosts.ByName(board); report.host == nil {
			failUsage("there is no board %q; use one of: %s", board, hostNames())
		}
	}
	var view *fbs.View
	if f.image != "" {
		_, view = openVerified(f.image)
		report.identity = identify(view)
	}
	f.fillReport(report, board, imageRequirements(view))
	report.print()
}

// fillReport fills in a report. If a board is named and no machine is given, the report is only
// about the data of that board.
func (f *checkBoardFlags) fillReport(report *boardReport, board string, need *requirements) {
	config := readKernelConfig(f.kernelConfig)
	if board != "" && f.root == "" {
		report.checkKnownBoard(config, need)
		return
	}
	report.checkMachine(readMachine(f.root, config, report.host), need)
}

// print prints the report, as text or as JSON. It fails if something is missing or not checked.
func (r *boardReport) print() {
	code := hal.OK
	if r.Missing+r.NotChecked > 0 {
		code = hal.NoDevice
	}
	if r.host != nil {
		r.Board = r.host.Name
	}
	r.Exit, r.Code = code.ExitStatus(), code.Error()
	printResult(stdout, r)
	if code != hal.OK {
		fail.On(printedError{code})
	}
}

// String implements fmt.Stringer: it returns the text that lm check-board prints.
func (r *boardReport) String() string {
	var b strings.Builder
	title := "not recognised"
	if r.host != nil {
		title = r.host.Title + " (" + r.host.Name + ")"
	}
	printLine(&b, "board    %s", title)
	if r.Machine != "" {
		printLine(&b, "machine  %s, Linux %s", r.Machine, cmp.Or(r.Kernel, "of unknown release"))
	}
	for i := range r.Facts {
		r.Facts[i].print(&b)
	}
	for _, f := range r.Checks {
		printLine(&b, "%-8s %s: %s", f.State, f.Check, f.Found)
		for _, line := range [...]struct{ name, text string }{{"why", f.Why}, {"next", f.Next}} {
			if line.text != "" {
				printLine(&b, "%9s%-5s %s", "", line.name, line.text)
			}
		}
	}
	printLine(&b, "missing: %d, not checked: %d, warnings: %d", r.Missing, r.NotChecked, r.Warnings)
	return b.String()
}

func hostNames() string {
	return english.Join(hosts.All(), ", ", func(h *hosts.Host) string { return h.Name })
}
