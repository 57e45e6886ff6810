// Package args parses the command line of lmrun. A configuration of lminit has the same
// flags, one a line.
package args

import (
	"strings"

	"lightmetal/hal"
	"lightmetal/runtime"
)

// Options is what a command line says.
type Options struct {
	Image    string
	Devices  []string
	Sequence string

	Before, After   string // empty: none
	Inputs, Outputs []Binding

	Loop     uint64 // 0: forever
	Deadline int64  // nanoseconds, 0: none
	Longest  int64  // nanoseconds that a sequence may take at most
	Watchdog string
	Key      string
	Window   int // runtime.AnySlot: the window that image and device choose

	Seal, Check, JSON, Help, Version bool
	Supervised                       bool // descriptor 3 gets the longest time to the end
}

// Binding is one NAME=FILE.
type Binding struct{ Name, Path string }

// CommandLine returns the command line of this process without the program's name.
func CommandLine() []string {
	all := processArguments()
	return all[min(1, len(all)):]
}

// Parse parses a command line without the program's name. If it returns an error, the
// options have what was parsed before, and -json from anywhere on the line, so that the
// error can be reported as JSON.
func Parse(args []string) (Options, error) {
	o := Options{Sequence: "main", Loop: 1, Longest: 3600e9, Window: runtime.AnySlot}
	for _, word := range args {
		o.JSON = o.JSON || word == "-json" || word == "--json"
	}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if !strings.HasPrefix(word, "-") || word == "-" {
			if o.Image != "" {
				return o, UsageError("one image at a time: " + o.Image + " or " + word)
			}
			o.Image = word
			continue
		}
		flag := strings.TrimPrefix(word[1:], "-") // one dash or two
		name, value := hal.Cut(flag, '=')
		hasValue := name != flag
		if !hasValue && o.Toggle(name) {
			continue
		}
		if !hasValue && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if err := o.Set(name, value); err != nil {
			return o, err
		}
	}
	if o.Image == "" && !o.Help && !o.Version {
		return o, UsageError("no image given; lmrun -help shows the usage")
	}
	return o, nil
}

// namedTarget is a flag and the option that it sets. Flags are in lists, since a map links
// 20 KB of Go's runtime.
type namedTarget[T any] struct {
	name string
	to   *T
}

// Toggle sets a flag that takes no value. It reports whether there is one of that name.
func (o *Options) Toggle(name string) bool {
	toggles := [...]namedTarget[bool]{
		{"seal", &o.Seal},
		{"check", &o.Check},
		{"json", &o.JSON},
		{"help", &o.Help},
		{"h", &o.Help},
		{"version", &o.Version},
		{"supervised", &o.Supervised},
	}
	for _, flag := range toggles {
		if flag.name == name {
			*flag.to = true
			return true
		}
	}
	return false
}

// Set sets a flag that takes a value, also for a line of a configuration. An empty value is
// an error: a shell variable that is not set must not change what runs.
func (o *Options) Set(name, value string) error {
	if value == "" {
		return UsageError("-" + name + " needs a value, or is unknown; lmrun -help lists the flags")
	}
	texts := [...]namedTarget[string]{
		{"sequence", &o.Sequence},
		{"before", &o.Before},
		{"after", &o.After},
		{"watchdog", &o.Watchdog},
		{"key", &o.Key},
	}
	for _, flag := range texts {
		if flag.name == name {
			*flag.to = value
			return nil
		}
	}
	switch name {
	case "device":
		o.Devices = append(o.Devices, value)
	case "input":
		return appendBinding(&o.Inputs, name, value)
	case "output":
		return appendBinding(&o.Outputs, name, value)
	case "loop":
		n, _ := hal.ParseNumber(value, 10, 1<<64-1)
		if n == 0 && value != "forever" {
			return UsageError("-loop takes a number from 1 on or forever, not " + value)
		}
		o.Loop = n
	case "deadline":
		return setDuration(&o.Deadline, name, value, 3600e9)
	case "longest":
		return setDuration(&o.Longest, name, value, 1<<62)
	case "window":
		n, ok := hal.ParseNumber(value, 10, 1<<16-1)
		if !ok {
			return UsageError("-window takes the number of a hardware window, not " + value)
		}
		o.Window = int(n)
	default:
		return UsageError("unknown flag -" + name + "; lmrun -help lists the flags")
	}
	return nil
}

// appendBinding parses NAME=FILE.
func appendBinding(list *[]Binding, flag, value string) error {
	tensor, path := hal.Cut(value, '=')
	if tensor == "" || path == "" || path == "ring:" {
		return UsageError("-" + flag + " takes NAME=FILE, not " + value)
	}
	*list = append(*list, Binding{tensor, path})
	return nil
}

// setDuration parses a time, of at most so many nanoseconds.
func setDuration(to *int64, flag, value string, most int64) error {
	ns := parseDuration(value)
	if ns == 0 || ns > most {
		return UsageError("-" + flag +
			" takes a time such as 500us, 20ms, 5s or 1h (-deadline: at most that), not " + value)
	}
	*to = ns
	return nil
}

// parseDuration returns a whole number of us, ms, s, m or h in nanoseconds, 0 if text is
// something else.
func parseDuration(text string) int64 {
	units := [...]struct {
		name string
		ns   uint64
	}{{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}
	for _, unit := range units {
		at := max(len(text)-len(unit.name), 0)
		if text[at:] == unit.name {
			n, _ := hal.ParseNumber(text[:at], 10, 1<<62/unit.ns)
			return int64(n * unit.ns)
		}
	}
	return 0
}

// UsageError returns the error for a mistake on the command line.
func UsageError(reason string) error { return hal.NewFault(hal.Usage, reason) }
