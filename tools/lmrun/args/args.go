// Package args parses the command line of lmrun. lminit uses it too: each line of its
// configuration can be a flag of lmrun.
package args

import (
	"strings"

	"lightmetal/hal"
	"lightmetal/runtime"
)

// Options holds the values of all flags of a command line.
type Options struct {
	Image    string
	Devices  []string // empty: the devices that the image names
	Sequence string

	Before, After   string // names of sequences; empty: no sequence
	Inputs, Outputs []Binding

	Loop     uint64 // number of runs; 0: no limit
	Deadline int64  // time limit of each run, in nanoseconds; 0: no limit
	Longest  int64  // time limit of each sequence, in nanoseconds
	Watchdog string // DEVICE or DEVICE=SECONDS; empty: no watchdog
	Key      string // path of a file of public keys; empty: do not check signatures
	Window   int    // hardware TLB window; runtime.AnySlot: not given

	Seal, Check, JSON, Help, Version bool
	Supervised                       bool // report the longest time to the end on descriptor 3
}

// Binding is one value NAME=FILE of -input or -output.
type Binding struct{ Name, Path string }

// CommandLine returns the arguments of this process without the program's name.
func CommandLine() []string {
	all := processArguments()
	return all[min(1, len(all)):]
}

// Parse parses the arguments of a command line, without the program's name. If Parse returns an
// error, the returned options contain the flags before the error. In addition, JSON is set if
// -json is anywhere on the line, because the caller must report the error as JSON then.
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
				return o, UsageError("two images given: " + o.Image + " and " + word)
			}
			o.Image = word
			continue
		}
		flag := strings.TrimPrefix(word[1:], "-") // a flag may begin with one dash or two
		name, value := hal.Cut(flag, '=')
		hasValue := name != flag
		if !hasValue && o.SetSwitch(name) {
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

// flagTarget is the name of a flag and the option that the flag sets. The flags are in arrays
// instead of a map, since a map would add 20 KB of Go's runtime to the program.
type flagTarget[T any] struct {
	name   string
	target *T
}

// SetSwitch sets the named flag to true. It returns false if no flag without a value has this
// name.
func (o *Options) SetSwitch(name string) bool {
	switches := [...]flagTarget[bool]{
		{"seal", &o.Seal},
		{"check", &o.Check},
		{"json", &o.JSON},
		{"help", &o.Help},
		{"h", &o.Help},
		{"version", &o.Version},
		{"supervised", &o.Supervised},
	}
	for _, flag := range switches {
		if flag.name == name {
			*flag.target = true
			return true
		}
	}
	return false
}

// Set sets a flag that takes a value. An empty value is an error, since it may come from a shell
// variable that is not set.
func (o *Options) Set(name, value string) error {
	if value == "" {
		return UsageError("-" + name + " needs a value, or is unknown; lmrun -help lists the flags")
	}
	texts := [...]flagTarget[string]{
		{"sequence", &o.Sequence},
		{"before", &o.Before},
		{"after", &o.After},
		{"watchdog", &o.Watchdog},
		{"key", &o.Key},
	}
	for _, flag := range texts {
		if flag.name == name {
			*flag.target = value
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
			return UsageError("-loop takes `forever` or a number of at least 1, not " + value)
		}
		o.Loop = n
	case "deadline":
		return setDuration(&o.Deadline, name, value, 3600e9)
	case "longest":
		return setDuration(&o.Longest, name, value, 1<<62)
	case "window":
		n, ok := hal.ParseNumber(value, 10, 1<<16-1)
		if !ok {
			return UsageError("-window takes the number of a hardware TLB window, not " + value)
		}
		o.Window = int(n)
	default:
		return UsageError("unknown flag -" + name + "; lmrun -help lists the flags")
	}
	return nil
}

// appendBinding parses a value NAME=FILE of the given flag and appends it to the list.
func appendBinding(list *[]Binding, flag, value string) error {
	tensor, path := hal.Cut(value, '=')
	if tensor == "" || path == "" || path == "ring:" {
		return UsageError("-" + flag + " takes NAME=FILE, not " + value)
	}
	*list = append(*list, Binding{tensor, path})
	return nil
}

// setDuration parses the value of the given flag as a time and stores it in option, in
// nanoseconds. It is an error if the time is longer than maxNs.
func setDuration(option *int64, flag, value string, maxNs int64) error {
	ns := parseDuration(value)
	if ns == 0 || ns > maxNs {
		return UsageError("-" + flag +
			" takes a time such as 500us, 20ms, 5s or 1h (-deadline: at most 1h), not " + value)
	}
	*option = ns
	return nil
}

// parseDuration parses a whole number followed by us, ms, s, m or h. It returns the time in
// nanoseconds, or 0 if the text is not a valid time.
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

// UsageError returns a usage error with the given reason.
func UsageError(reason string) error { return hal.NewFault(hal.Usage, reason) }
