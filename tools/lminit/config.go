package main

import (
	"slices"
	"strconv"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file parses configurations, which CONFIGURATION.md describes.

// bootConfiguration is the file that PID 1 reads unless its arguments name another.
const bootConfigurationPath = "/lmrun.conf"

// configuration is the content of a file: how to prepare the machine, which images to replay
// in which order, and what follows.
type configuration struct {
	preparations []preparation
	replays      [][]string // flags of one image, followed by the image
	success      ending     // when all are done
	failure      ending     // when one of them, or a preparation, has failed
}

// powersOff is the configuration of an empty file.
var defaultConfiguration = configuration{success: ending{finalAction: "poweroff"}, failure: ending{finalAction: "poweroff"}}

// ending is what follows the last image or a failure. Outside PID 1, lminit ends instead of
// halting, rebooting or powering off.
type ending struct {
	restarts    int    // how often to begin again, -1: always
	finalAction string // halt, poweroff or reboot
}

// preparation is a line that prepares the machine. It is executed at every start, also after
// a restart, and does nothing if its effect is there.
type preparation struct {
	location string // "/lmrun.conf:3"
	kind     *machineLine
	values   []string
}

// machineLine is a kind of line that concerns the machine and not one image.
type machineLine struct {
	name, valueSyntax    string
	minValues, maxValues int // values
	prepare              func(values []string) error
}

var machineLines = [...]machineLine{
	{"on-success", endingSyntax, 1, 3, nil},
	{"on-failure", endingSyntax, 1, 3, nil},
	{"module", "FILE [PARAMETER...]", 1, 64, loadModule},
	{"hugepages", "NUMBER", 1, 1, reserveHugepages},
	{"bind", "DRIVER ADDRESS", 2, 2, bindDriver},
	// collisions concerns ./build.sh image, which checks the images
	{"mount", "SOURCE DIRECTORY TYPE [ro]", 3, 4, mountAt},
	{"collisions", "allowed", 1, 1, func([]string) error { return nil }},
}

// splitConfigFlag returns the file of -config and the rest of a command line.
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
			rest = append(rest, arg) // args.Parse reports the missing value
		}
	}
	return "", rest
}

// parseConfiguration parses the text of a configuration: one `name value` a line, or a name
// alone, blank lines, and comments that begin with #. The names are lmrun's flags and, before
// the first image, those of machineLines. If it returns an error, the configuration has the
// lines before it, so that their on-failure counts.
func parseConfiguration(path, text string) (configuration, error) {
	c := defaultConfiguration
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
		return c, args.UsageError(path + ": no image; add a line `image PATH`")
	}
	return c, nil
}

// parseLine adds one line. The place is for messages.
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
		return args.UsageError(name + " must follow an image, or is unknown")
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

// flagOf returns the command line flag for a line of a configuration.
func flagForLine(name, value string) (string, error) {
	var o args.Options
	toggle := o.SetSwitch(name)
	onCommandLine := [...]string{"help", "h", "version", "config", "check", "supervised"}
	switch {
	case slices.Contains(onCommandLine[:], name):
		return "", args.UsageError(name + " is for the command line of lminit only")
	case strings.IndexByte(value, 0) >= 0:
		return "", args.UsageError(name + " takes no zero byte")
	case toggle && value != "":
		return "", args.UsageError(name + " takes no value")
	case toggle:
		return "-" + name, nil
	}
	return "-" + name + "=" + value, o.Set(name, value)
}

// addPreparation checks a line that concerns the machine, and adds it.
func (c *configuration) addPreparation(p preparation) (err error) {
	kind, values := p.kind, p.values
	if len(c.replays) > 0 {
		return args.UsageError(kind.name + " must be before the first image")
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
			return args.UsageError("hugepages takes a number, not " + values[0])
		}
		values[0] = strconv.FormatUint(n, 10) // as the kernel writes it
	}
	c.preparations = append(c.preparations, p)
	return nil
}

const endingSyntax = "halt, poweroff, reboot, restart or `restart N` with one of the first three"

// parseEnding parses the values of on-success or on-failure. After a mistake the machine
// powers off.
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
		return ending{finalAction: "poweroff"}, args.UsageError(name + " takes " + endingSyntax + ", not " +
			strings.Join(values, " "))
	}
	return e, nil
}
