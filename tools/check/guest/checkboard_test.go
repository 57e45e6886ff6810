package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// boardReport has those fields of the output of `lm check-board --json` that the test checks.
type boardReport struct {
	Exit    int
	Board   string
	Machine string
	Kernel  string
	Missing int
	Devices []struct{ Address, Board string }
	Checks  []struct{ Check, State, Found, Next string }
}

// stateOf returns the state and the finding of a check.
func (r *boardReport) stateOf(check string) (state, found string) {
	for _, c := range r.Checks {
		if c.Check == check {
			return c.State, c.Found
		}
	}
	return "", ""
}

// missingChecks returns the names of the checks with the state "missing".
func (r *boardReport) missingChecks() (names []string) {
	for _, c := range r.Checks {
		if c.State == "missing" {
			names = append(names, c.Check)
		}
	}
	return names
}

// boardReports returns the three reports on the console, by their names.
func boardReports(t *testing.T, console string) map[string]*boardReport {
	t.Helper()
	reports := map[string]*boardReport{}
	for line := range strings.Lines(console) {
		rest, ok := strings.CutPrefix(line, "report ")
		if !ok {
			continue
		}
		name, text, _ := strings.Cut(rest, " ")
		r := new(boardReport)
		if err := json.Unmarshal([]byte(text), r); err != nil {
			t.Fatalf("report %s: %v: %s", name, err, text)
		}
		reports[name] = r
	}
	if len(reports) != 3 {
		t.Fatalf("%d reports on the console, want 3:\n%s", len(reports), console)
	}
	return reports
}

// checkReports checks the reports of `lm check-board` in a guest: without an image, and for an
// image before and after the machine was made ready for it.
func checkReports(t *testing.T, r *scenarioRun) {
	t.Helper()
	backend := "pci"
	if r.machineType == iommuMachine {
		backend = "vfio"
	}
	reports := boardReports(t, r.output["JudgesAMachineAsWhatItIs"])
	checkPlainReport(t, reports["plain"])
	if r := reports["plain"]; r.Exit != 0 || r.Missing != 0 {
		t.Errorf("report plain: exit status %d, missing %v, want 0, none", r.Exit,
			r.missingChecks())
	}
	edu := "edu " + reports["plain"].Devices[0].Address
	if r := reports["before"]; backend == "vfio" &&
		(r.Exit != 69 || !slices.Contains(r.missingChecks(), edu+" IOMMU")) {
		t.Errorf("report before (vfio-pci is not bound): exit status %d, missing %v; want 69, %s",
			r.Exit, r.missingChecks(), edu+" IOMMU")
	}
	after := reports["after"]
	if after.Exit != 0 {
		t.Errorf("report after: exit status %d, missing %v, want 0, none", after.Exit,
			after.missingChecks())
	}
	for check, want := range map[string]string{
		"device 0, edu (1234:11e8) BARs": "as large",
		"coherence":                      "see the data in the processor's caches",
		"huge pages":                     "free huge pages of 2 MiB: 8",
		edu + " driver":                  backend + ":",
		edu + " IOMMU": map[string]string{"pci": "no IOMMU",
			"vfio": "through the driver vfio-pci"}[backend],
	} {
		if state, found := after.stateOf(check); state != "ok" || !strings.Contains(found, want) {
			t.Errorf("report after: %s is %s %q, want ok %q", check, state, found, want)
		}
	}
}

// checkPlainReport checks the report without an image.
func checkPlainReport(t *testing.T, r *boardReport) {
	t.Helper()
	var devices []string
	for _, d := range r.Devices {
		devices = append(devices, d.Board)
	}
	if r.Board != "qemu-virt" || r.Machine != "linux,dummy-virt" || r.Kernel == "" ||
		strings.Join(devices, " ") != "edu ivshmem nvme" {
		t.Fatalf("report plain: board %q, machine %q, kernel %q, devices %v; want qemu-virt, "+
			"linux,dummy-virt, a version, [edu ivshmem nvme]", r.Board, r.Machine, r.Kernel,
			devices)
	}
	for check, want := range map[string]string{
		"architecture": "aarch64", "page size": "4096 bytes", "user": "uid 0 with CAP_SYS_ADMIN",
		"seccomp":                                 "filters",
		"edu " + r.Devices[0].Address + " BAR 0":  "1 MiB at 0x1",
		"nvme " + r.Devices[2].Address + " BAR 0": "16 KiB at 0x80",
		"edu " + r.Devices[0].Address + " link":   "no PCIe link",
	} {
		if state, found := r.stateOf(check); state != "ok" || !strings.Contains(found, want) {
			t.Errorf("report plain: %s is %s %q, want ok %q", check, state, found, want)
		}
	}
}
