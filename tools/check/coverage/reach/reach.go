// Package reach determines which functions of the runner a run can call, directly or indirectly.
package reach

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Calls are the calls in a compiled function.
type Calls struct {
	Names    []string
	Indirect bool // the function also calls through an interface
}

// interfaceCalls are the functions that a run calls through interfaces, by the start of the
// caller's name: package runtime calls devices, walks call ports, devices call backends, and all of
// hal except walks calls the kernel. Go itself calls deferred functions.
var interfaceCalls = map[string]*regexp.Regexp{
	"lightmetal/runtime": regexp.MustCompile(
		`^lightmetal/hal\.\(\*device\)\.(Alive|Now|Sleep|ProgramWindow|Diagnose|SetBusMaster)$|` +
			`^lightmetal/hal\.\(\*device\)\.AwaitInterrupt$|` +
			`^lightmetal/runtime\.\(\*Replay\)\.executeAndRecover\.deferwrap\d$`),
	"lightmetal/hal.(*Walk)": regexp.MustCompile(`^lightmetal/hal\.\(\*[a-z]\w*\)\.(Load|Store)$`),
	"lightmetal/hal":         regexp.MustCompile(`^lightmetal/hal\.(pread|pwrite|ioctl|Read)$`),
	"lightmetal/hal.(*device)": regexp.MustCompile(
		`^lightmetal/hal\.\(\*ttBackend\)\.programWindow$`),
}

// Implementations returns the functions that a caller may reach through an interface.
func Implementations(caller string, functions map[string]*Calls) (names []string) {
	for from, pattern := range interfaceCalls {
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

// FromRun returns all functions that Run may call, directly or indirectly, without those of Go's
// own runtime.
func FromRun(functions map[string]*Calls) (names []string, err error) {
	names = []string{"lightmetal/runtime.(*Replay).Run"}
	for i := 0; i < len(names); i++ {
		f := functions[names[i]]
		if f == nil {
			return nil, fmt.Errorf("%s is not in the program", names[i])
		}
		if f.Indirect {
			f.Names = append(f.Names, Implementations(names[i], functions)...)
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
