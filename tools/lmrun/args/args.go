// Package args parses the command line of lmrun, for lmrun and for lminit: a line of lminit's
// configuration can set a flag of lmrun.
package args

import (
	"strings"

	"lightmetal/hal"
	"lightmetal/runtime"
)

// Options is the command line of lmrun. `lmrun -help` explains the flags.
type Options struct {
	Image    string
	Devices  []string // empty: those that the image names
	Sequence string

	SequenceBefore, SequenceAfter string
	Inputs, Outputs               []Binding

	RunCount      uint64 // -loop; 0: without end
	DeadlineNs    int64  // 0: no limit
	MaxSequenceNs int64  // -longest: limit for the worst case of each sequence
	MinVersion    uint32 // -at-least; 0: any

	Watchdog           string // DEVICE or DEVICE=SECONDS
	FaultFile          string // -faults
	KeyFile            string // -key; empty: check no signature
	VersionCounterFile string // -version-counter
	FirstTLBWindow     int    // -window; runtime.AnyTLBWindow: not given

	FormatFaultFile, RequireFaultFile  bool // -faults-format and -faults-required
	Seal, LockMemory, CheckOnly        bool
	PrintJSON, PrintHelp, PrintVersion bool
	ReportLongestStopTime              bool // -supervised
}

// Binding is NAME=FILE, the value of -input or -output.
type Binding struct {
	Name string // of the tensor
	Path string // of a file or pipe, or "ring:" and that of a ring
}

// CommandLine returns the arguments of this process, without the name of the program.
func CommandLine() []string {
	all := commandLineArguments()
	return all[min(1, len(all)):]
}

// Parse parses arguments. After an error, it returns the flags before the faulty argument;
// PrintJSON is set if -json is anywhere, so that the error can be printed as JSON.
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
				return o, UsageError("two images given: " + o.Image + " and " + word + "; name one")
			}
			o.Image = word
			continue
		}
		flag := strings.TrimPrefix(word[1:], "-") // one dash or two
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

// flagOption is a row of an array, because maps would add 20 KB of Go's runtime to the program.
type flagOption[T any] struct {
	name   string
	option *T
}

// SetSwitch sets the flag with this name, without its dash, if it is a flag without a value, and
// reports whether it is.
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

// SetValue sets the flag with this name, without its dash. An empty value is an error: it is
// usually a mistake, such as a shell variable that is not set.
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

// setDuration stores a time. Only -deadline can exceed its maxNs, the 1h of the message: that of
// -longest is the limit of ParseDuration.
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

// ParseDuration parses a whole number and us, ms, s, m (minutes) or h. It returns 0 for any other
// text, and for more than 2^62 ns.
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

// UsageError returns an error with the code hal.Usage.
func UsageError(reason string) error { return hal.NewFault(hal.Usage, reason) }
