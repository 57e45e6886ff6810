package main

import (
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"lightmetal/tools/check/guest/scenario"
)

// doc.go describes how to add a scenario.
//
//go:embed scenarios/*.txt
var scenarioFiles embed.FS

// parseAll returns all scenarios, machines and images, in the order in which a guest reads them.
var parseAll = sync.OnceValues(func() (all scenario.File, err error) {
	paths, err := fs.Glob(scenarioFiles, "scenarios/*.txt")
	for _, path := range paths {
		text, readErr := scenarioFiles.ReadFile(path)
		f, parseErr := scenario.Parse(filepath.Base(path), string(text))
		err = errors.Join(err, readErr, parseErr)
		all.Scenarios = append(all.Scenarios, f.Scenarios...)
		all.Machines = append(all.Machines, f.Machines...)
		all.Images = append(all.Images, f.Images...)
	}
	return all, err
})

func allScenarios(t *testing.T) scenario.File {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// scenariosOn returns the scenarios for a kind of machine. If LM_GUEST_SCENARIO names a scenario,
// it returns only that one.
func scenariosOn(t *testing.T, kind string) []scenario.Scenario {
	t.Helper()
	only := os.Getenv("LM_GUEST_SCENARIO")
	all := slices.Clone(allScenarios(t).Scenarios)
	return slices.DeleteFunc(all, func(s scenario.Scenario) bool {
		return !slices.Contains(s.Machines, kind) || only != "" && only != s.Name
	})
}

// scenarioRun is a boot of a machine that runs scenarios.
type scenarioRun struct {
	*machine
	t       *testing.T
	backend string // pci, vfio or tt
	modules string // variable with the directory of the kernel's modules
	monitor *qemuMonitor
	// how the boot ends
	endsByWatchdog, serverDies bool
	scenarios                  []scenario.Scenario
	output                     map[string]string // text on the console, by scenario
	passed                     map[string]bool
	recorded                   map[region]int // number of compared accesses
	console                    string
	exit                       int
	err                        error
}

// bootScenarios boots the machine of a kind, which runs the scenarios for it.
func bootScenarios(t *testing.T, kind string) *scenarioRun {
	t.Helper()
	r := &scenarioRun{t: t, backend: "pci", modules: "LM_GUEST_MODULES",
		scenarios: scenariosOn(t, kind), recorded: map[region]int{}}
	if len(r.scenarios) == 0 {
		t.Skipf("no scenario for %s, or LM_GUEST_SCENARIO names another one", kind)
	}
	machines := allScenarios(t).Machines
	at := slices.IndexFunc(machines, func(m scenario.Scenario) bool { return m.Name == kind })
	r.machine, r.console, r.exit, r.err = runScenariosInside(t, func(m *machine) {
		r.machine = m
		m.stdout = io.MultiWriter(m.stdout, &requests{run: r})
		m.addScenarios(t)
		for _, step := range machines[at].Steps {
			requireStep(hostFiles{t: t, dir: m.dir}, step, setUpSteps, r)
			m.addNamedImages(t, step.Words)
		}
		for i := range r.scenarios {
			for _, step := range r.scenarios[i].Steps {
				m.addNamedImages(t, step.Words)
			}
		}
		m.args[2] = r.backend
		if only := os.Getenv("LM_GUEST_SCENARIO"); only != "" {
			m.args = append(m.args, only)
		}
	}, kind, "")
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

// splitConsole returns the part of the console that each scenario printed, and whether the
// scenario passed.
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
		s := &r.scenarios[i]
		t.Run(s.Name, func(t *testing.T) {
			if last := i == len(r.scenarios)-1; last && r.endsByWatchdog {
				r.requireResetByWatchdog(t, s.Name)
				return
			}
			if !r.passed[s.Name] {
				_, failure, _ := strings.Cut(r.output[s.Name], "FAILED ")
				t.Fatalf("%s\nits output:\n%s", failure, r.output[s.Name])
			}
			t.Log(r.output[s.Name])
			newHostRun(t, r, s.Name).runSteps(s.HostSteps())
		})
	}
	for traced, count := range r.recorded {
		if trace := r.qemuTrace(t, traced); len(trace) != count {
			t.Errorf("%s: %d accesses recorded; QEMU traced %d", traced.name, count, len(trace))
		}
	}
	if r.serverDies && r.serversErr != nil && strings.Contains(r.serversErr.Error(), "killed") {
		r.serversErr = nil
	} else if r.serverDies {
		t.Errorf("no server was killed: %v", r.serversErr)
	}
	failed := r.err != nil || r.exit != 0 && !t.Failed()
	if r.serversErr != nil || failed && !r.endsByWatchdog {
		t.Errorf("exit status %d, error %v, servers %v; the console:\n%s", r.exit, r.err,
			r.serversErr, r.console)
	}
}

// requireResetByWatchdog requires that the watchdog reset the machine while the scenario waited.
func (r *scenarioRun) requireResetByWatchdog(t *testing.T, scenario string) {
	t.Helper()
	events := r.monitor.events(t)
	if r.err == nil || !strings.HasSuffix(r.output[scenario], "waiting to be reset\n") ||
		!strings.Contains(events, `"event": "WATCHDOG", "data": {"action": "reset"}`) {
		t.Errorf("error %v, QEMU's events: %s; the console:\n%s", r.err, events, r.console)
	}
}

// TestScenarios runs the scenarios in scenarios/*.txt as subtests MACHINE/SCENARIO. The flag -run
// selects machines, but not the scenarios that a machine runs. LM_GUEST_SCENARIO=NAME selects one
// scenario. The scenarios on `host` boot machines themselves.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, m := range allScenarios(t).Machines {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := bootScenarios(t, m.Name)
			for n := 1; n < 10 && r.serverDies && r.err != nil && strings.Contains(r.err.Error(),
				"error_setv: Assertion"); n++ {
				r = bootScenarios(t, m.Name)
			}
			r.requireAllPassed(t)
		})
	}
	for _, s := range scenariosOn(t, "host") {
		t.Run("host/"+s.Name, func(t *testing.T) {
			t.Parallel()
			newHostRun(t, nil, s.Name).runSteps(s.HostSteps())
		})
	}
}

// TestScenariosRunOnMachinesThatExist also requires that the names of scenarios are unique, and
// that the steps of the host exist.
func TestScenariosRunOnMachinesThatExist(t *testing.T) {
	all := allScenarios(t)
	machines := []string{"host"}
	for _, m := range all.Machines {
		machines = append(machines, m.Name)
		requireKnownSteps(t, m.Steps, setUpSteps)
	}
	seen := map[string]bool{}
	for _, s := range all.Scenarios {
		if seen[s.Name] || !regexp.MustCompile(`^[A-Z]\w+$`).MatchString(s.Name) {
			t.Errorf("scenario %s: the name is not unique, or invalid", s.Name)
		}
		seen[s.Name] = true
		requireKnownSteps(t, s.HostSteps(), hostSteps)
		for _, kind := range s.Machines {
			if !slices.Contains(machines, kind) {
				t.Errorf("scenario %s: no machine %q", s.Name, kind)
			}
		}
	}
}

// requireKnownSteps requires that each step exists, with at least its required arguments.
func requireKnownSteps[R any](t *testing.T, steps []scenario.Step, known map[string]hostStep[R]) {
	t.Helper()
	for _, step := range steps {
		if s, ok := known[step.Words[0]]; !ok || len(step.Words)-1 < s.requiredCount() {
			t.Errorf("%s: %s: unknown, or want at least %d arguments: %s", step.Place,
				step.Words[0], s.requiredCount(), s.arguments)
		}
	}
}

// hostStep is a kind of step that runs on the host.
type hostStep[R any] struct {
	arguments string // for messages; those in brackets are optional
	run       func(r R, args []string) error
}

func (s hostStep[R]) requiredCount() int {
	required, _, _ := strings.Cut(s.arguments, "[")
	return len(strings.Fields(required))
}

// requireStep runs a step on the host.
func requireStep[R any](h hostFiles, step scenario.Step, known map[string]hostStep[R], r R) {
	h.t.Helper()
	if err := known[step.Words[0]].run(r, h.expand(step.Words[1:])); err != nil {
		h.t.Fatalf("%s: %s: %v", step.Place, strings.Join(step.Words, " "), err)
	}
}
