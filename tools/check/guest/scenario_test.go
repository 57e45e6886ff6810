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

// scenarioFiles are all scenarios; doc.go says how to add one.
//
//go:embed scenarios/*.txt
var scenarioFiles embed.FS

// allScenarios reads them, in the order in which a guest does.
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
		more, err := scenario.Parse(strings.TrimPrefix(path, "scenarios/"), string(text))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, more...)
	}
	return list
}

// scenariosOn returns the scenarios for a kind of machine. LM_GUEST_SCENARIO chooses one of all.
func scenariosOn(t *testing.T, kind string) []scenario.Scenario {
	t.Helper()
	only := os.Getenv("LM_GUEST_SCENARIO")
	return slices.DeleteFunc(allScenarios(t), func(s scenario.Scenario) bool {
		return !slices.Contains(s.Machines, kind) || only != "" && only != s.Name
	})
}

// scenarioRun is a boot that ran scenarios.
type scenarioRun struct {
	*machine
	scenarios []scenario.Scenario
	said      map[string]string // by scenario, without the end
	passed    map[string]bool
	console   string
	exit      int
	err       error
}

// boots boots a kind of machine, which runs its scenarios.
func boots(t *testing.T, kind, backend string, setUp func(*machine)) *scenarioRun {
	t.Helper()
	r := &scenarioRun{scenarios: scenariosOn(t, kind)}
	if len(r.scenarios) == 0 {
		t.Skipf("no scenario on %s, or not the one that LM_GUEST_SCENARIO names", kind)
	}
	r.machine, r.console, r.exit, r.err = insideScenarios(t, func(m *machine) {
		m.addScenarios(t)
		setUp(m)
		if only := os.Getenv("LM_GUEST_SCENARIO"); only != "" {
			m.args = append(m.args, only)
		}
	}, kind, backend)
	r.said, r.passed = sections(r.console)
	return r
}

// addScenarios puts all scenarios into the guest.
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

// sections cuts a console into what each scenario said, and reads how it ended.
func sections(console string) (said map[string]string, passed map[string]bool) {
	said, passed = map[string]string{}, map[string]bool{}
	name := ""
	for line := range strings.Lines(console) {
		if next, ok := strings.CutPrefix(line, "scenario "); ok {
			name = strings.TrimSpace(next)
		}
		passed[name] = passed[name] || strings.HasPrefix(line, "passed after ")
		said[name] += line
	}
	return said, passed
}

// allPassed is a test for each scenario: that it passed. It fails too if the machine or a server
// did not end well.
func (r *scenarioRun) allPassed(t *testing.T) {
	t.Helper()
	for i := range r.scenarios {
		name := r.scenarios[i].Name
		t.Run(name, func(t *testing.T) {
			if r.passed[name] {
				t.Log(r.said[name])
				return
			}
			_, failure, _ := strings.Cut(r.said[name], "FAILED ")
			t.Errorf("%s\nit said:\n%s", failure, r.said[name])
		})
	}
	if r.served != nil {
		t.Error(r.served)
	}
	if r.err != nil || r.exit != 0 && !t.Failed() {
		t.Errorf("exit %d, %v; the console:\n%s", r.exit, r.err, r.console)
	}
}

// kinds are the machines on which scenarios run, one boot each. Other tests boot those that end
// otherwise than by switching off.
var kinds = []struct {
	name, backend string
	setUp         func(*testing.T, *machine)
	check         func(*testing.T, *scenarioRun) // may be nil
}{
	// Those that take longest come first.
	{"chips", "pci", setUpPlayback, nil},
	{"chips-iommu", "vfio", setUpChipsBehindIOMMU, nil},
	{"plain", "pci", func(t *testing.T, m *machine) {
		m.processors = 2 // what kills, and what changes devices, runs beside lmrun
		m.addDMA(t)
		m.addFaults(t)
	}, checkDMA},
	{"iommu", "vfio", func(t *testing.T, m *machine) {
		lanes[1].setUp(t, m)
		m.processors = 2
		m.addDMA(t)
		m.add(t, "/lm", static(t, "lightmetal/tools/lm"))
	}, checkDMA},
	{"traced", "pci", addTraced, followEdu},
	{"traced-iommu", "vfio", func(t *testing.T, m *machine) {
		lanes[1].setUp(t, m)
		m.addDMA(t)
		m.traceIt()
	}, followMasters},
	{"chips-traced", "pci", setUpTracedChips, followChips},
	{"mocks", "pci", setUpMocks, checkMocks},
	{"ladder", "pci", setUpLadder, nil},
	{"ladder-iommu", "vfio", func(t *testing.T, m *machine) {
		onServed[1].setUp(t, m)
		setUpLadder(t, m)
	}, nil},
}

// TestScenarios runs scenarios/*.txt: TestScenarios/KIND/SCENARIO. The machines boot whatever -run
// says of scenarios; LM_GUEST_SCENARIO=NAME boots those of one.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r := boots(t, kind.name, kind.backend, func(m *machine) { kind.setUp(t, m) })
			r.allPassed(t)
			if kind.check != nil && r.err == nil && os.Getenv("LM_GUEST_SCENARIO") == "" {
				kind.check(t, r)
			}
		})
	}
}

// TestScenariosRunOnMachinesThatExist, and have names of their own.
func TestScenariosRunOnMachinesThatExist(t *testing.T) {
	var sources bytes.Buffer // of tests, which name the machines that they boot
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
			t.Errorf("scenario %s: the name is there twice, or is no name", s.Name)
		}
		seen[s.Name] = true
		for _, kind := range s.Machines {
			if !strings.Contains(sources.String(), `"`+kind+`"`) {
				t.Errorf("scenario %s: no test boots a machine %q", s.Name, kind)
			}
		}
	}
}
