package main

import (
	"slices"
	"strconv"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file parses configuration files, which CONFIGURATION.md describes.

// bootConfigurationPath is the configuration file that lminit reads as PID 1, unless its
// arguments name another file.
const bootConfigurationPath = "/lmrun.conf"

// configuration is a parsed configuration file: how to prepare the machine, which images to
// replay in which order, and how to end.
type configuration struct {
	preparations []preparation
	replays      [][]string // arguments of lmrun for each image: its flags, then its path
	success      ending     // applies after all images were replayed successfully
	failure      ending     // applies after a preparation or a replay has failed
}

// defaultConfiguration is the configuration of an empty file: the machine powers off.
var defaultConfiguration = configuration{
	success: ending{finalAction: "poweroff"},
	failure: ending{finalAction: "poweroff"},
}

// ending describes the actions that follow the last image or a failure. If lminit is not PID 1,
// it ends instead of halting, rebooting or powering off the machine.
type ending struct {
	restarts    int    // number of restarts that are left; -1: unlimited
	finalAction string // for the machine, when no restart is left: halt, poweroff or reboot
}

// preparation is a line of the configuration that prepares the machine. It is executed before
// the first image, and again at every restart. It does nothing if the machine is already
// prepared.
type preparation struct {
	location string // path and line number, such as "/lmrun.conf:3"
	kind     *machineLine
	values   []string
}

// machineLine is a kind of line that applies to the whole machine instead of one image.
type machineLine struct {
	name, valueSyntax    string                      // first word; description of the values
	minValues, maxValues int                         // limits of the number of values
	prepare              func(values []string) error // nil for on-success and on-failure
}

var machineLines = [...]machineLine{
	{"on-success", endingSyntax, 1, 3, nil},
	{"on-failure", endingSyntax, 1, 3, nil},
	{"module", "FILE [PARAMETER...]", 1, 64, loadModule},
	{"hugepages", "NUMBER", 1, 1, reserveHugepages},
	{"bind", "DRIVER ADDRESS", 2, 2, bindDriver},
	{"mount", "SOURCE DIRECTORY TYPE [ro]", 3, 4, mountAt},
	// `./build.sh image` uses the line `collisions`; lminit ignores it.
	{"collisions", "allowed", 1, 1, func([]string) error { return nil }},
}

// splitConfigFlag removes -config and its value from a command line. It returns the value and
// the remaining arguments. The value is empty if -config is not given.
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
			rest = append(rest, arg) // args.Parse reports that the value is missing
		}
	}
	return "", rest
}

// parseConfiguration parses the text of a configuration file. A line is empty, a comment that
// begins with #, a name, or a name and a value. Before the first line `image`, the names are
// those of machineLines; after it, they are lmrun's flags. The returned configuration contains
// all lines before the first error, because their on-failure also applies to this error.
func parseConfiguration(path, text string) (configuration, error) {
	c := defaultConfiguration
	for i, line := range strings.Split(text, "\n") {
		line = strings.Trim(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		name := line[:strings.IndexAny(line+" ", " \t")]
		value := strings.TrimLeft(line[len(name):], " \t")
		location := path + ":" + strconv.Itoa(i+1)
		if err := c.parseLine(location, name, value); err != nil {
			return c, args.UsageError(location + ": " + faultReason(err))
		}
	}
	if len(c.replays) == 0 {
		return c, args.UsageError(path + ": no image; add a line `image PATH`")
	}
	return c, nil
}

// parseLine parses one line and adds it to the configuration. The location is the line's path
// and number, for error messages.
func (c *configuration) parseLine(location, name, value string) error {
	if name == "image" {
		if value == "" || value[0] == '-' || strings.IndexByte(value, 0) >= 0 {
			return args.UsageError("image takes the path of an image, not " + strconv.Quote(value))
		}
		c.replays = append(c.replays, []string{value})
		return nil
	}
	for i := range machineLines {
		if kind := &machineLines[i]; kind.name == name {
			return c.addPreparation(preparation{location, kind, strings.Fields(value)})
		}
	}
	if len(c.replays) == 0 {
		return args.UsageError(name + " must follow a line `image PATH`, or is unknown")
	}
	flag, err := flagForLine(name, value)
	if err != nil {
		return err
	}
	last := &c.replays[len(c.replays)-1]
	image := len(*last) - 1
	*last = append((*last)[:image], flag, (*last)[image])
	return nil
}

// flagForLine returns the flag of lmrun for a line with the given name and value.
func flagForLine(name, value string) (string, error) {
	var o args.Options
	isSwitch := o.SetSwitch(name)
	onCommandLine := [...]string{"help", "h", "version", "config", "check", "supervised"}
	switch {
	case slices.Contains(onCommandLine[:], name):
		return "", args.UsageError(name + " is allowed only on the command line of lminit")
	case strings.IndexByte(value, 0) >= 0:
		return "", args.UsageError(name + " takes a value without zero bytes")
	case isSwitch && value != "":
		return "", args.UsageError(name + " takes no value")
	case isSwitch:
		return "-" + name, nil
	}
	return "-" + name + "=" + value, o.Set(name, value)
}

// addPreparation checks a line of machineLines and adds it to the configuration.
func (c *configuration) addPreparation(p preparation) (err error) {
	kind, values := p.kind, p.values
	if len(c.replays) > 0 {
		return args.UsageError(kind.name + " must be before the first line `image PATH`")
	}
	n := len(values)
	isMountOption := kind.name == "mount" && n == 4
	if n < kind.minValues || n > kind.maxValues || isMountOption && values[3] != "ro" {
		return args.UsageError(kind.name + " takes " + kind.valueSyntax + ", not " +
			strconv.Quote(strings.Join(values, " ")))
	}
	switch kind.name {
	case "on-success":
		c.success, err = parseEnding(kind.name, values)
		return err
	case "on-failure":
		c.failure, err = parseEnding(kind.name, values)
		return err
	case "hugepages":
		n, err := strconv.ParseUint(values[0], 10, 32)
		if err != nil {
			return args.UsageError("hugepages takes a number below 2^32, not " + values[0])
		}
		// Remove leading zeros: reserveHugepages compares the text with the kernel's.
		values[0] = strconv.FormatUint(n, 10)
	}
	c.preparations = append(c.preparations, p)
	return nil
}

const endingSyntax = "halt, poweroff, reboot, restart or `restart N` with one of the first three"

// parseEnding parses the values of on-success or on-failure. If the values are invalid, it
// returns an error and an ending that powers the machine off.
func parseEnding(name string, values []string) (ending, error) {
	e := ending{finalAction: values[0]}
	if values[0] == "restart" {
		e = ending{restarts: -1, finalAction: "poweroff"}
		if len(values) == 3 {
			n, _ := hal.ParseNumber(values[1], 10, 1<<31-1)
			e.restarts, e.finalAction = int(n), values[2]
		}
	}
	known := (len(values) == 1 || e.restarts > 0) &&
		(e.finalAction == "halt" || e.finalAction == "poweroff" || e.finalAction == "reboot")
	if !known || len(values) == 2 {
		return ending{finalAction: "poweroff"}, args.UsageError(name + " takes " +
			endingSyntax + ", not " + strings.Join(values, " "))
	}
	return e, nil
}
