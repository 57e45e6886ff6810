// Package args parses the command line of lmrun. The program lminit uses this package too, because
// a line of lminit's configuration file can set a flag of lmrun.
package args

import (
	"strings"

	"lightmetal/hal"
	"lightmetal/runtime"
)

// Options contains the command line of lmrun: the path of the image and the values of all flags.
// `lmrun -help` explains the flags.
type Options struct {
	Image    string   // path of the image file
	Devices  []string // names of the devices; empty: use the devices that the image names
	Sequence string   // name of the sequence that each run executes

	SequenceBefore, SequenceAfter string    // sequences before the first and after the last run
	Inputs, Outputs               []Binding // values of -input and of -output

	RunCount      uint64 // value of -loop: number of runs; 0: run without end
	DeadlineNs    int64  // value of -deadline: time limit of each run; 0: no limit
	MaxSequenceNs int64  // value of -longest: limit for the worst-case time of each sequence
	MinVersion    uint32 // value of -at-least: lowest allowed version of a signed image; 0: any

	Watchdog           string // value of -watchdog: DEVICE or DEVICE=SECONDS; empty: no watchdog
	FaultFile          string // value of -faults: file in which lmrun records a failure
	KeyFile            string // value of -key: file of public keys; empty: check no signature
	VersionCounterFile string // value of -version-counter: file with the lowest version to accept
	FirstTLBWindow     int    // value of -window; runtime.AnyTLBWindow: -window is not given

	FormatFaultFile, RequireFaultFile  bool // true: -faults-format or -faults-required is given
	Seal, LockMemory, CheckOnly        bool // true: -seal, -lock or -check is given
	PrintJSON, PrintHelp, PrintVersion bool // true: -json, -help or -version is given
	ReportLongestStopTime              bool // true: -supervised is given
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

// Parse parses the arguments of a command line, without the name of the program. After an error,
// the returned options contain the flags before the faulty argument. PrintJSON is true if -json is
// anywhere on the command line, so that the caller can print the error as JSON.
func Parse(args []string) (Options, error) {
	o := Options{Sequence: "main", RunCount: 1, MaxSequenceNs: 3600e9}
	o.FirstTLBWindow = runtime.AnyTLBWindow
	for _, word := range args {
		o.PrintJSON = o.PrintJSON || word == "-json" || word == "--json"
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
	if o.Image == "" && !o.PrintHelp && !o.PrintVersion {
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
		{"lock", &o.LockMemory},
		{"check", &o.CheckOnly},
		{"json", &o.PrintJSON},
		{"help", &o.PrintHelp},
		{"h", &o.PrintHelp},
		{"version", &o.PrintVersion},
		{"supervised", &o.ReportLongestStopTime},
		{"faults-format", &o.FormatFaultFile},
		{"faults-required", &o.RequireFaultFile},
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
		{"before", &o.SequenceBefore},
		{"after", &o.SequenceAfter},
		{"watchdog", &o.Watchdog},
		{"faults", &o.FaultFile},
		{"key", &o.KeyFile},
		{"version-counter", &o.VersionCounterFile},
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
		o.RunCount = n
	case "at-least":
		n, _ := hal.ParseNumber(value, 10, 1<<32-1)
		if n == 0 {
			return UsageError("-at-least takes a version (1 to 4294967295), not " + value)
		}
		o.MinVersion = uint32(n)
	case "deadline":
		return setDuration(&o.DeadlineNs, name, value, 3600e9)
	case "longest":
		return setDuration(&o.MaxSequenceNs, name, value, 1<<62)
	case "window":
		n, ok := hal.ParseNumber(value, 10, 1<<16-2)
		if !ok {
			return UsageError("-window takes a TLB window's number (0 to 65534), not " + value)
		}
		o.FirstTLBWindow = int(n)
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

// setDuration parses value as a time, and stores the time in *optionNs, in nanoseconds. The
// parameter `flag` is the name of the flag, for error texts. If the time is longer than maxNs
// nanoseconds, setDuration returns an error that says "at most 1h". This error occurs only for
// -deadline, whose maxNs is 1h. For -longest, maxNs is the longest time that ParseDuration returns.
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
