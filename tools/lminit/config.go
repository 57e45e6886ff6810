package main

import (
	"slices"
	"strconv"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// bootConfiguration is what process 1 obeys unless its arguments name another.
const bootConfiguration = "/lmrun.conf"

// configuration is what a file says: how to make the machine ready, which
// images to replay in which order, and what follows.
type configuration struct {
	preparations []preparation
	replays      [][]string // flags of one image, and the image last
	success      ending     // when all are done
	failure      ending     // when one of them, or a preparation, has failed
}

// powersOff is what happens where nothing else is said.
var powersOff = configuration{success: ending{then: "poweroff"}, failure: ending{then: "poweroff"}}

// ending begins again so many times (-1: always), and then leaves the machine
// halted, switched off or rebooted. Outside process 1 lmrun only ends.
type ending struct {
	restarts int
	then     string // halt, poweroff or reboot
}

// preparation is a line that makes the machine ready. It is carried out at
// every start anew and does nothing where that was done.
type preparation struct {
	place  string // "/lmrun.conf:3"
	kind   *machineLine
	values []string
}

// machineLine is a kind of line that is about the machine and not about one image.
type machineLine struct {
	name, form  string
	least, most int // values
	prepare     func(values []string) error
}

var machineLines = [...]machineLine{
	{"on-success", endings, 1, 3, nil},
	{"on-failure", endings, 1, 3, nil},
	{"module", "FILE [PARAMETER...]", 1, 64, loadModule},
	{"hugepages", "NUMBER", 1, 1, reserveHugepages},
	{"bind", "DRIVER ADDRESS", 2, 2, bindDriver},
	// the last for what makes boot images
	{"mount", "SOURCE FOLDER KIND [ro]", 3, 4, mountAt},
	{"collisions", "allowed", 1, 1, func([]string) error { return nil }},
}

// configured takes -config FILE out of a command line.
func splitConfigFlag(args []string) (path string, rest []string) {
	for i, arg := range args {
		name, value, inline := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		switch {
		case name != "config" && name != "-config" || !strings.HasPrefix(arg, "-"):
			rest = append(rest, arg)
		case value != "":
			return value, append(rest, args[i+1:]...)
		case !inline && i+1 < len(args) && args[i+1] != "":
			return args[i+1], append(rest, args[i+2:]...)
		default:
			rest = append(rest, arg) // parse says what is missing
		}
	}
	return "", rest
}

// configure reads a configuration file: one `name value` a line, or a bare
// name, blank lines and lines that begin with #. The names are lmrun's flags,
// and those of a machine before the first image. What was understood before a
// mistake is there, so that on-failure is obeyed.
func parseConfiguration(path, text string) (configuration, error) {
	c := powersOff
	for i, line := range strings.Split(text, "\n") {
		line = strings.Trim(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		name := line[:strings.IndexAny(line+" ", " \t")]
		value := strings.TrimLeft(line[len(name):], " \t")
		place := path + ":" + strconv.Itoa(i+1)
		if err := c.parseLine(place, name, value); err != nil {
			return c, args.UsageError(place + ": " + faultReason(err))
		}
	}
	if len(c.replays) == 0 {
		return c, args.UsageError(path + ": no image is named")
	}
	return c, nil
}

func (c *configuration) parseLine(place, name, value string) error {
	if name == "image" {
		if value == "" || value[0] == '-' || strings.IndexByte(value, 0) >= 0 {
			return args.UsageError("image takes the path of an image, not " + strconv.Quote(value))
		}
		c.replays = append(c.replays, []string{value})
		return nil
	}
	for i := range machineLines {
		if kind := &machineLines[i]; kind.name == name {
			return c.addPreparation(preparation{place, kind, strings.Fields(value)})
		}
	}
	if len(c.replays) == 0 {
		return args.UsageError(name + " stands before the first image, or is unknown")
	}
	flag, err := flagOf(name, value)
	if err != nil {
		return err
	}
	last := &c.replays[len(c.replays)-1]
	image := len(*last) - 1
	*last = append((*last)[:image], flag, (*last)[image])
	return nil
}

// flagOf makes a command line's flag of a configuration's line.
func flagOf(name, value string) (string, error) {
	var o args.Options
	toggle := o.Toggle(name)
	onCommandLine := [...]string{"help", "h", "version", "config", "check", "supervised"}
	switch {
	case slices.Contains(onCommandLine[:], name):
		return "", args.UsageError(name + " belongs on a command line")
	case strings.IndexByte(value, 0) >= 0:
		return "", args.UsageError(name + " takes no zero byte")
	case toggle && value != "":
		return "", args.UsageError(name + " takes no value")
	case toggle:
		return "-" + name, nil
	}
	return "-" + name + "=" + value, o.Set(name, value)
}

func (c *configuration) addPreparation(p preparation) (err error) {
	kind, values := p.kind, p.values
	if len(c.replays) > 0 {
		return args.UsageError(kind.name + " stands before the first image")
	}
	if n := len(values); n < kind.least || n > kind.most ||
		n == 4 && kind.name == "mount" && values[3] != "ro" {
		return args.UsageError(kind.name + " takes " + kind.form + ", not " +
			strconv.Quote(strings.Join(values, " ")))
	}
	if end := map[string]*ending{"on-success": &c.success,
		"on-failure": &c.failure}[kind.name]; end != nil {
		*end, err = parseEnding(values)
		return err
	}
	if kind.name == "hugepages" {
		n, err := strconv.ParseUint(values[0], 10, 32)
		if err != nil {
			return args.UsageError("hugepages takes a number, not " + values[0])
		}
		values[0] = strconv.FormatUint(n, 10) // as the kernel writes it
	}
	c.preparations = append(c.preparations, p)
	return nil
}

const endings = "halt, poweroff, reboot, restart or `restart N` with one of the first three"

func parseEnding(values []string) (ending, error) {
	e := ending{then: values[0]}
	if values[0] == "restart" {
		e = ending{restarts: -1, then: "poweroff"}
		if len(values) == 3 {
			n, _ := hal.ParseNumber(values[1], 10, 1<<31-1)
			e.restarts, e.then = int(n), values[2]
		}
	}
	known := (len(values) == 1 || e.restarts > 0) &&
		(e.then == "halt" || e.then == "poweroff" || e.then == "reboot")
	if !known || len(values) == 2 {
		return ending{then: "poweroff"}, args.UsageError(endings + ", not " +
			strings.Join(values, " "))
	}
	return e, nil
}
