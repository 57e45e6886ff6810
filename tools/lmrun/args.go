package main

import (
	"strconv"
	"strings"

	"lightmetal/hal"
	"lightmetal/runtime"
)

const usage = `lmrun replays a Light Metal binary on a device.

usage: lmrun [flags] IMAGE.lmb

  -device DEVICE      pci:VVVV:DDDD or pci:DDDD:BB:DD.F (sysfs), vfio: and one of these (behind
                      an IOMMU), tt:/dev/tenstorrent/N; once for each target of the image, in
                      order; default: pci: and the PCI ids in the image
  -sequence NAME      sequence to run; default: main
  -before NAME        sequence to run once before the first run, -after NAME after the last
  -input NAME=FILE    raw bytes of an input tensor; default: what was recorded. A pipe gives
                      each run its own, until it ends; so does ring:FILE, in shared memory
  -output NAME=FILE   where to write an output tensor, raw bytes: a file after the last run, whole
                      or not at all; a pipe or ring:FILE after each; -: standard output
  -loop N             run N times, or forever; default: 1
  -deadline TIME      a run that takes longer, such as 20ms, fails after the sequence safe
  -longest TIME       refuse an image whose sequences could wait and store for longer; default: 3600s
  -watchdog DEV[=S]   feed a watchdog after each run, with a timeout of S seconds; on success
                      it is stopped, after a failure it resets the machine
  -window N           hardware window to use for every TLB window
  -seal               forbid every system call that could allocate, map or open` + keyUsage + `
  -check              only verify the image, and touch no device
  -config FILE        images and their flags from a file, one "name value" a line
  -json               one JSON object on standard output, on failure too
  -help               this text

exit status: 0 done; 64 usage; 65 bad image or tensor data; 66 no such file; 69 device
unavailable; 70 internal or access refused; 71 device gone or bus fault; 74 I/O; 75 poll
deadline passed; 76 golden mismatch or expect failed; 77 not permitted; 78 image is for
another device; 2 Go found no memory (ulimit -v under 600 MiB, or none is left)
`

// options is what the command line says.
type options struct {
	image    string
	devices  []string
	sequence string
	before   string // empty: none
	after    string
	inputs   []binding
	outputs  []binding
	loop     uint64 // 0: forever
	deadline int64  // nanoseconds, 0: none
	longest  int64  // nanoseconds that a sequence may take at worst
	watchdog string
	key      string
	window   int // runtime.AnySlot: the choice of image and device
	seal     bool
	check    bool
	json     bool
	help     bool
}

// binding is one NAME=FILE.
type binding struct{ name, path string }

// parse reads a command line without the program's name. What it understood
// so far is in the options even when it fails, so that -json is obeyed.
func parse(args []string) (options, error) {
	o := options{sequence: "main", loop: 1, longest: 3600e9, window: runtime.AnySlot}
	for len(args) > 0 {
		flag := args[0]
		args = args[1:]
		if !strings.HasPrefix(flag, "-") || flag == "-" {
			if o.image != "" {
				return o, bad("one image at a time: " + o.image + " or " + flag)
			}
			o.image = flag
			continue
		}
		name, value, inline := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(flag, "-"), "-"), "=")
		if !inline && o.toggle(name) {
			continue
		}
		if !inline && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if err := o.set(name, value); err != nil {
			return o, err
		}
	}
	if o.image == "" && !o.help {
		return o, bad("no image given; lmrun -help tells more")
	}
	return o, nil
}

// toggle sets a flag without a value; false where there is none of that name.
func (o *options) toggle(name string) bool {
	flag := map[string]*bool{"seal": &o.seal, "check": &o.check, "json": &o.json, "help": &o.help, "h": &o.help}[name]
	if flag != nil {
		*flag = true
	}
	return flag != nil
}

// set takes the value of a flag, or of a line in a configuration. None takes an
// empty one: of a variable that is not set, nothing is to be believed.
func (o *options) set(name, value string) error {
	if value == "" {
		return bad("-" + name + " needs a value, or is unknown; lmrun -help lists the flags")
	}
	text := map[string]*string{"sequence": &o.sequence, "before": &o.before, "after": &o.after, "watchdog": &o.watchdog, "key": &o.key}[name]
	if text != nil {
		*text = value
		return nil
	}
	switch name {
	case "device":
		o.devices = append(o.devices, value)
	case "input", "output":
		tensor, path, ok := strings.Cut(value, "=")
		if !ok || tensor == "" || path == "" {
			return bad("-" + name + " takes NAME=FILE, not " + value)
		}
		list := map[string]*[]binding{"input": &o.inputs, "output": &o.outputs}[name]
		*list = append(*list, binding{tensor, path})
	case "loop":
		n, err := strconv.ParseUint(value, 10, 64)
		if (err != nil || n == 0) && value != "forever" {
			return bad("-loop takes a number from 1 on or forever, not " + value)
		}
		o.loop = n
	case "deadline", "longest":
		ns, ok := duration(value)
		if !ok || name == "deadline" && ns > 3600e9 {
			return bad("-" + name + " takes a time such as 500us, 20ms or 1s, not " + value)
		}
		*map[string]*int64{"deadline": &o.deadline, "longest": &o.longest}[name] = ns
	case "window":
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return bad("-window takes the number of a hardware window, not " + value)
		}
		o.window = int(n)
	default:
		return bad("unknown flag -" + name + "; lmrun -help lists the flags")
	}
	return nil
}

// duration reads a whole number of us, ms or s.
func duration(text string) (ns int64, ok bool) {
	digits := strings.TrimRight(text, "ums")
	n, err := strconv.ParseUint(digits, 10, 32)
	unit := map[string]uint64{"us": 1e3, "ms": 1e6, "s": 1e9}[text[len(digits):]]
	return int64(n * unit), err == nil && n*unit > 0
}

func bad(reason string) error { return &hal.Fault{Code: hal.Usage, Reason: reason} }
