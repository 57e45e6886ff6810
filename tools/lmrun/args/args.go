// Package args parses the command line of lmrun. The program lminit uses this package too, because
// a line of lminit's configuration file can set a flag of lmrun.
package args

import (
	"strings"

	"lightmetal/hal"
	"lightmetal/runtime"
)

// Options contains the path of the image and the values of all flags. `lmrun -help` explains the
// flags.
type Options struct {
	Image    string   // path of the image file
	Devices  []string // names of the devices; empty: use the devices that the image names
	Sequence string   // name of the sequence that each run executes

	Before, After   string    // values of -before and of -after; empty: no sequence
	Inputs, Outputs []Binding // values of -input and of -output

	Loop     uint64 // number of runs; 0: run without end (-loop forever)
	Deadline int64  // time limit of each run, in nanoseconds; 0: -deadline is not given
	Longest  int64  // limit for the worst-case time of each sequence, in nanoseconds
	Watchdog string // DEVICE or DEVICE=SECONDS; empty: no watchdog
	Faults   string // path of the file in which lmrun records a failure; empty: no file
	KeyFile  string // path of a file of public keys; empty: do not check signatures
	AtLeast  uint32 // lowest version that a signed image may have; 0: any
	Window   int    // number of the hardware TLB window; runtime.AnyTLBWindow: -window is not given

	VersionCounter string // path of the file that -version-counter names; empty: no file

	Seal, Lock, Check   bool // true: the flag of this name is given
	JSON, Help, Version bool // true: the flag of this name is given
	Supervised          bool // -supervised is given: report how long lmrun can take to end
}

// Binding connects a tensor with a file, a pipe or a ring. It contains the value NAME=FILE of one
// flag -input or -output.
type Binding struct {
	Name string // name of the tensor
	Path string // path of a file or pipe, or "ring:" and the path of a ring
}

// CommandLine returns the arguments of this process without the name of the program.
func CommandLine() []string {
	all := commandLineArguments()
	return all[min(1, len(all)):]
}

// Parse parses the arguments of a command line. The arguments must not contain the name of the
// program. If Parse returns an error, the returned options contain only the flags before the faulty
// argument. The field JSON is an exception: it is true if -json is anywhere on the command line, so
// that the caller knows whether to print the error as JSON.
func Parse(args []string) (Options, error) {
	o := Options{Sequence: "main", Loop: 1, Longest: 3600e9, Window: runtime.AnyTLBWindow}
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
		flag := strings.TrimPrefix(word[1:], "-") // a flag can begin with one dash or two dashes
		name, value := hal.Cut(flag, '=')
		hasValue := name != flag
		if !hasValue && o.SetSwitch(name) {
			continue
		}
		if !hasValue && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if err := o.SetValue(name, value); err != nil {
			return o, err
		}
	}
	if o.Image == "" && !o.Help && !o.Version {
		return o, UsageError("no image given; lmrun -help shows the usage")
	}
	return o, nil
}

// flagOption pairs the name of a flag with a pointer to the option that the flag sets.
// Options.SetValue and Options.SetSwitch search arrays of flagOption. Maps instead of these arrays
// would add 20 KB of Go's runtime to the program.
type flagOption[T any] struct {
	name   string
	option *T
}

// SetSwitch sets the option of a flag that has no value, such as -seal, to true. The parameter
// `name` is the name of the flag without the dash. SetSwitch reports whether such a flag exists.
func (o *Options) SetSwitch(name string) (exists bool) {
	switches := [...]flagOption[bool]{
		{"seal", &o.Seal},
		{"lock", &o.Lock},
		{"check", &o.Check},
		{"json", &o.JSON},
		{"help", &o.Help},
		{"h", &o.Help},
		{"version", &o.Version},
		{"supervised", &o.Supervised},
	}
	for _, flag := range switches {
		if flag.name == name {
			*flag.option = true
			return true
		}
	}
	return false
}

// SetValue sets the option of a flag that has a value, such as -loop. The parameter `name` is the
// name of the flag without the dash. SetValue returns an error if the value is empty, because an
// empty value is usually a mistake, such as a shell variable that is not set.
func (o *Options) SetValue(name, value string) error {
	if value == "" {
		return UsageError("-" + name + " is unknown or has no value; lmrun -help lists the flags")
	}
	texts := [...]flagOption[string]{
		{"sequence", &o.Sequence},
		{"before", &o.Before},
		{"after", &o.After},
		{"watchdog", &o.Watchdog},
		{"faults", &o.Faults},
		{"key", &o.KeyFile},
		{"version-counter", &o.VersionCounter},
	}
	for _, flag := range texts {
		if flag.name == name {
			*flag.option = value
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
	case "at-least":
		n, _ := hal.ParseNumber(value, 10, 1<<32-1)
		if n == 0 {
			return UsageError("-at-least takes a version (1 to 4294967295), not " + value)
		}
		o.AtLeast = uint32(n)
	case "deadline":
		return setDuration(&o.Deadline, name, value, 3600e9)
	case "longest":
		return setDuration(&o.Longest, name, value, 1<<62)
	case "window":
		n, ok := hal.ParseNumber(value, 10, 1<<16-1)
		if !ok {
			return UsageError("-window takes a TLB window's number (0 to 65534), not " + value)
		}
		o.Window = int(n)
	default:
		return UsageError("unknown flag -" + name + "; lmrun -help lists the flags")
	}
	return nil
}

// appendBinding parses NAME=FILE, the value of -input or -output, and appends it to list. The
// parameter `flag` is the name of the flag, for the error text.
func appendBinding(list *[]Binding, flag, value string) error {
	tensor, path := hal.Cut(value, '=')
	syntax := " takes NAME=FILE, not "
	if path == "ring:" {
		path, syntax = "", " takes NAME=ring:FILE, not "
	}
	if tensor == "" || path == "" {
		return UsageError("-" + flag + syntax + value)
	}
	*list = append(*list, Binding{tensor, path})
	return nil
}

// setDuration parses value as a time, and stores the time in *optionNs, in nanoseconds. It returns
// an error if the time is longer than maxNs nanoseconds. The error text names a limit of 1 h, which
// is the limit of -deadline. For -longest, maxNs is so large that no time exceeds it. The parameter
// `flag` is the name of the flag, for the error text.
func setDuration(optionNs *int64, flag, value string, maxNs int64) error {
	ns := ParseDuration(value)
	syntax := " takes a time such as 500us, 20ms, 5s or 1h, not "
	if ns > maxNs {
		ns, syntax = 0, " must be at most 1h, not "
	}
	if ns == 0 {
		return UsageError("-" + flag + syntax + value)
	}
	*optionNs = ns
	return nil
}

// ParseDuration returns the time that text specifies, in nanoseconds. The text must be a whole
// number followed by us, ms, s, m (minutes) or h. ParseDuration returns 0 for any other text, and
// for a time of more than 2^62 ns.
func ParseDuration(text string) (nanoseconds int64) {
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

// UsageError returns an error with the code hal.Usage and the given reason.
func UsageError(reason string) error { return hal.NewFault(hal.Usage, reason) }
