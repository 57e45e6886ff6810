package main

import (
	"bytes"
	"embed"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/check/guest/scenario"
)

// scenarioFiles has the files of all scenarios. doc.go describes how to add a scenario.
//
//go:embed scenarios/*.txt
var scenarioFiles embed.FS

// allScenarios returns all scenarios, in the order in which a guest reads them.
func allScenarios(t *testing.T) (list []scenario.Scenario) {
	t.Helper()
	paths, err := fs.Glob(scenarioFiles, "scenarios/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := scenarioFiles.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := scenario.Parse(strings.TrimPrefix(path, "scenarios/"), string(text))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, parsed...)
	}
	return list
}

// scenariosOn returns the scenarios for a kind of machine. If LM_GUEST_SCENARIO names a scenario,
// it returns only that one.
func scenariosOn(t *testing.T, kind string) []scenario.Scenario {
	t.Helper()
	only := os.Getenv("LM_GUEST_SCENARIO")
	return slices.DeleteFunc(allScenarios(t), func(s scenario.Scenario) bool {
		return !slices.Contains(s.Machines, kind) || only != "" && only != s.Name
	})
}

// scenarioRun is a finished boot of a machine that ran scenarios.
type scenarioRun struct {
	*machine
	scenarios []scenario.Scenario
	output    map[string]string // text on the console, by scenario
	passed    map[string]bool
	console   string
	exit      int
	err       error
}

// bootScenarios boots a kind of machine, which runs the scenarios for it.
func bootScenarios(t *testing.T, kind, backend string, setUp func(*machine)) *scenarioRun {
	t.Helper()
	r := &scenarioRun{scenarios: scenariosOn(t, kind)}
	if len(r.scenarios) == 0 {
		t.Skipf("no scenario for %s, or LM_GUEST_SCENARIO names another one", kind)
	}
	r.machine, r.console, r.exit, r.err = runScenariosInside(t, func(m *machine) {
		m.addScenarios(t)
		setUp(m)
		if only := os.Getenv("LM_GUEST_SCENARIO"); only != "" {
			m.args = append(m.args, only)
		}
	}, kind, backend)
	r.output, r.passed = splitConsole(r.console)
	return r
}

// addScenarios adds the files of all scenarios to the guest.
func (m *machine) addScenarios(t *testing.T) {
	t.Helper()
	paths, err := fs.Glob(scenarioFiles, "scenarios/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if m.files["/"+path], err = scenarioFiles.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
}

// splitConsole returns the part of the console that each scenario printed, and whether the scenario
// passed.
func splitConsole(console string) (output map[string]string, passed map[string]bool) {
	output, passed = map[string]string{}, map[string]bool{}
	name := ""
	for line := range strings.Lines(console) {
		if next, ok := strings.CutPrefix(line, "scenario "); ok {
			name = strings.TrimSpace(next)
		}
		passed[name] = passed[name] || strings.HasPrefix(line, "passed after ")
		output[name] += line
	}
	return output, passed
}

// requireAllPassed runs a subtest for each scenario, which fails if the scenario did not pass. The
// test also fails if the machine or a server failed.
func (r *scenarioRun) requireAllPassed(t *testing.T) {
	t.Helper()
	for i := range r.scenarios {
		name := r.scenarios[i].Name
		t.Run(name, func(t *testing.T) {
			if r.passed[name] {
				t.Log(r.output[name])
				return
			}
			_, failure, _ := strings.Cut(r.output[name], "FAILED ")
			t.Errorf("%s\nits output:\n%s", failure, r.output[name])
		})
	}
	if r.serversErr != nil {
		t.Error(r.serversErr)
	}
	if r.err != nil || r.exit != 0 && !t.Failed() {
		t.Errorf("exit status %d, error %v; the console:\n%s", r.exit, r.err, r.console)
	}
}

// kinds are the kinds of machines on which scenarios run, in one boot each. Machines that do not
// end by switching off are booted by other tests.
var kinds = []struct {
	name, backend string
	setUp         func(*testing.T, *machine)
	check         func(*testing.T, *scenarioRun) // checks results on the host; may be nil
}{
	// The kinds that take longest are first.
	{"chips", "pci", setUpPlayback, nil},
	{"chips-iommu", "vfio", setUpChipsBehindIOMMU, nil},
	{"plain", "pci", func(t *testing.T, m *machine) {
		m.processors = 2 // PID 1, which kills lmrun and changes devices, runs in parallel to lmrun
		m.addDMAImages(t)
		m.addFaultFiles(t)
		m.addModules(t, "LM_GUEST_MODULES")
	}, checkDMA},
	{"iommu", "vfio", func(t *testing.T, m *machine) {
		backends[1].setUp(t, m)
		m.processors = 2
		m.addDMAImages(t)
		m.addFile(t, "/lm", buildForGuest(t, "lightmetal/tools/lm"))
	}, checkDMA},
	{"traced", "pci", setUpTraced, checkEduTrace},
	{"traced-iommu", "vfio", func(t *testing.T, m *machine) {
		backends[1].setUp(t, m)
		m.addDMAImages(t)
		m.enableTrace()
	}, checkBusMasterTraces},
	{"chips-traced", "pci", setUpTracedChips, checkChipTraces},
	{"mocks", "pci", setUpMocks, checkMocks},
	{"ladder", "pci", setUpHangingDevices, nil},
	{"ladder-iommu", "vfio", func(t *testing.T, m *machine) {
		servedBackends[1].setUp(t, m)
		setUpHangingDevices(t, m)
	}, nil},
}

// TestScenarios runs the scenarios in scenarios/*.txt as subtests KIND/SCENARIO. The flag -run
// selects kinds, but not the scenarios that a machine runs. LM_GUEST_SCENARIO=NAME selects one
// scenario.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r := bootScenarios(t, kind.name, kind.backend, func(m *machine) { kind.setUp(t, m) })
			r.requireAllPassed(t)
			if kind.check != nil && r.err == nil && os.Getenv("LM_GUEST_SCENARIO") == "" {
				kind.check(t, r)
			}
		})
	}
}

// TestScenariosRunOnMachinesThatExist also requires that the names of scenarios are unique.
func TestScenariosRunOnMachinesThatExist(t *testing.T) {
	var sources bytes.Buffer // text of all tests, which have the names of the kinds of machines
	paths, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path.Name(), "_test.go") {
			text, err := os.ReadFile(path.Name())
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(text)
		}
	}
	seen := map[string]bool{}
	for _, s := range allScenarios(t) {
		if seen[s.Name] || !regexp.MustCompile(`^[A-Z]\w+$`).MatchString(s.Name) {
			t.Errorf("scenario %s: the name is not unique, or invalid", s.Name)
		}
		seen[s.Name] = true
		for _, kind := range s.Machines {
			if !strings.Contains(sources.String(), `"`+kind+`"`) {
				t.Errorf("scenario %s: no test boots a machine %q", s.Name, kind)
			}
		}
	}
}
