// Package reach tells which functions of the runner a run can come to.
package reach

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Calls are what a compiled function calls, by name.
type Calls struct {
	Names    []string
	Indirect bool // it also calls what is behind an interface
}

// seams are the functions that a run calls through interfaces, by what calls
// them so: package runtime knows devices, walks know ports, devices know lanes, and
// all of hal but walks knows the kernel. Deferred functions are called by Go itself.
var seams = map[string]*regexp.Regexp{
	"lightmetal/runtime": regexp.MustCompile(
		`^lightmetal/hal\.\(\*device\)\.(Alive|Now|Sleep|ProgramWindow|Diagnose)$|` +
			`^lightmetal/runtime\.\(\*Replay\)\.executeAndRecover\.deferwrap\d$`),
	"lightmetal/hal.(*Walk)": regexp.MustCompile(
		`^lightmetal/hal\.\(\*[a-z]\w*\)\.(Load|Store)$`),
	"lightmetal/hal": regexp.MustCompile(`^lightmetal/hal\.(pread|pwrite|ioctl|Read)$`),
	"lightmetal/hal.(*device)": regexp.MustCompile(
		`^lightmetal/hal\.\(\*ttBackend\)\.programWindow$`),
}

// Behind is what a function that calls through an interface may come to.
func Behind(caller string, functions map[string]*Calls) (names []string) {
	for from, pattern := range seams {
		walk := strings.HasPrefix(caller, "lightmetal/hal.(*Walk)")
		if !strings.HasPrefix(caller, from) || walk != strings.HasSuffix(from, "(*Walk)") {
			continue
		}
		for name := range functions {
			if pattern.MatchString(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// FromRun is what a run can come to: from Run, by calls, without Go's own
// runtime, which takes over where it is called.
func FromRun(functions map[string]*Calls) (names []string, err error) {
	names = []string{"lightmetal/runtime.(*Replay).Run"}
	for i := 0; i < len(names); i++ {
		f := functions[names[i]]
		if f == nil {
			return nil, fmt.Errorf("%s is not in the program", names[i])
		}
		if f.Indirect {
			f.Names = append(f.Names, Behind(names[i], functions)...)
		}
		for _, callee := range f.Names {
			if !strings.HasPrefix(callee, "runtime.") && !slices.Contains(names, callee) &&
				functions[callee] != nil {
				names = append(names, callee)
			}
		}
	}
	return names, nil
}
