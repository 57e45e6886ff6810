// Package args is the command line of lmrun, which a configuration of lminit
// spells line by line.
package args

import (
	"strings"

	"lightmetal/hal"
	"lightmetal/runtime"
)

// Options is what the command line says.
type Options struct {
	Image    string
	Devices  []string
	Sequence string

	Before, After   string // empty: none
	Inputs, Outputs []Binding

	Loop     uint64 // 0: forever
	Deadline int64  // nanoseconds, 0: none
	Longest  int64  // nanoseconds that a sequence may take at worst
	Watchdog string
	Key      string
	Window   int // runtime.AnySlot: the choice of image and device

	Seal, Check, JSON, Help, Version bool
	Supervised                       bool // descriptor 3 gets the longest time to an orderly end
}

// Binding is one NAME=FILE.
type Binding struct{ Name, Path string }

// Words is the command line of this process without the program's name.
func CommandLine() []string { return processArguments()[min(1, len(processArguments())):] }

// Parse reads a command line without the program's name. What it understood
// so far is in the options even when it fails, and -json wherever it stands.
func Parse(args []string) (Options, error) {
	o := Options{Sequence: "main", Loop: 1, Longest: 3600e9, Window: runtime.AnySlot}
	for _, word := range args {
		o.JSON = o.JSON || word == "-json" || word == "--json"
	}
	for len(args) > 0 {
		flag := args[0]
		args = args[1:]
		if !strings.HasPrefix(flag, "-") || flag == "-" {
			if o.Image != "" {
				return o, UsageError("one image at a time: " + o.Image + " or " + flag)
			}
			o.Image = flag
			continue
		}
		flag = strings.TrimPrefix(flag[1:], "-")
		name, value := hal.Cut(flag, '=')
		if name == flag && o.Toggle(name) {
			continue
		}
		if name == flag && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if err := o.Set(name, value); err != nil {
			return o, err
		}
	}
	if o.Image == "" && !o.Help && !o.Version {
		return o, UsageError("no image given; lmrun -help tells more")
	}
	return o, nil
}

// Toggle sets a flag without a value; false where there is none of that name.
func (o *Options) Toggle(name string) bool {
	for _, flag := range [...]flagTarget[bool]{{"seal", &o.Seal}, {"check", &o.Check},
		{"json", &o.JSON}, {"help", &o.Help}, {"h", &o.Help}, {"version", &o.Version},
		{"supervised", &o.Supervised}} {
		if flag.name == name {
			*flag.to = true
			return true
		}
	}
	return false
}

// named are in lists, as a map takes 20 KB of Go's runtime.
type flagTarget[T any] struct {
	name string
	to   *T
}

// Set takes the value of a flag, or of a line in a configuration. None takes an
// empty one: of a variable that is not set, nothing is to be believed.
func (o *Options) Set(name, value string) error {
	if value == "" {
		return UsageError("-" + name + " needs a value, or is unknown; lmrun -help lists the flags")
	}
	for _, text := range [...]flagTarget[string]{{"sequence", &o.Sequence}, {"before", &o.Before},
		{"after", &o.After}, {"watchdog", &o.Watchdog}, {"key", &o.Key}} {
		if text.name == name {
			*text.to = value
			return nil
		}
	}
	switch name {
	case "device":
		o.Devices = append(o.Devices, value)
	case "input", "output":
		tensor, path := hal.Cut(value, '=')
		if tensor == "" || path == "" || path == "ring:" {
			return UsageError("-" + name + " takes NAME=FILE, not " + value)
		}
		list := &o.Inputs
		if name == "output" {
			list = &o.Outputs
		}
		*list = append(*list, Binding{tensor, path})
	case "loop":
		n, _ := hal.ParseNumber(value, 10, 1<<64-1)
		if n == 0 && value != "forever" {
			return UsageError("-loop takes a number from 1 on or forever, not " + value)
		}
		o.Loop = n
	case "deadline", "longest":
		to, most := &o.Longest, int64(1<<62)
		if name == "deadline" {
			to, most = &o.Deadline, 3600e9
		}
		if *to = parseDuration(value); *to == 0 || *to > most {
			return UsageError("-" + name +
				" takes a time such as 500us, 20ms, 5s or 1h (-deadline: at most that), not " +
				value)
		}
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

// duration reads a whole number of us, ms, s, m or h as nanoseconds, 0 where it is none.
func parseDuration(text string) int64 {
	for i, unit := range [...]string{"us", "ms", "s", "m", "h"} {
		at, ns := max(len(text)-len(unit), 0), [...]uint64{1e3, 1e6, 1e9, 60e9, 3600e9}[i]
		if text[at:] == unit {
			n, _ := hal.ParseNumber(text[:at], 10, 1<<62/ns)
			return int64(n * ns)
		}
	}
	return 0
}

// Bad is a mistake in what was asked for.
func UsageError(reason string) error { return hal.NewFault(hal.Usage, reason) }
